/**
 * `headgate init`: creates an endpoint for a known sender: a secret and a table that checks it; then asks the sender's question, if it has
 * one, sends a test delivery, and prints what remains to be done at the sender. Refuses a table that already exists. Returns the exit status.
 */
import { PlainError } from '../../kit/plain-error.ts';
import { quoteLiteral } from '../../kit/sql-text.ts';
import { bareIdentifier } from '../../senders/identifier.ts';
import { SendClient } from '../../senders/send-client.ts';
import { askOne, roundsOf } from '../../senders/send-handshake.ts';
import { SendError } from '../../senders/send-options.ts';
import { senderTable } from '../../senders/sender-table.ts';
import type { Sender } from '../../senders/sender.ts';
import { hintForSender, senderNamed, signedRequest } from '../../senders/senders.ts';
import { reasonOf } from './forward.ts';
import { jsonLine, plain } from '../../kit/terminal.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import { within } from './session.ts';
import type { Session } from './session.ts';
import { webhookUrl } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

export interface InitOptions {
  readonly table?: string;
  readonly secretFile?: string;
  readonly answerSecretFile?: string;
  readonly json?: boolean;
}

interface Made {
  readonly secret: string;
  /** Made here, so the sender has to be told; false: from --secret-file. */
  readonly isNew: boolean;
  readonly signingKey: string;
}

export async function initCommand(
  where: Where,
  name: string,
  options: InitOptions,
  io: CommandIo,
): Promise<number> {
  const sender = senderNamed(name);
  if (sender === undefined) {
    throw new SendError(`unknown sender "${name}": ${hintForSender(name) ?? 'docs/senders lists them'}`);
  }
  const table = options.table ?? `${name}_events`;
  if (!/^[^\0"'\\;]{1,50}$/.test(table))
    throw new PlainError(
      `--table: "${table}" cannot be used: a name has 1 to 50 characters, without quotes, backslashes and semicolons`,
    );
  const key = await secretFor(sender, options, io);
  const answerKey = options.answerSecretFile === undefined ? '' : await textOf(options.answerSecretFile, io);
  const said = (text: string): void => (options.json === true ? undefined : io.print(`${text}\n`));
  return within(where.dsn, 'init', async (session) => {
    const [at] = await session.typed(
      `SELECT pg_catalog.current_database()::pg_catalog.text AS database, pg_catalog.current_schema()::pg_catalog.text AS schema`,
    );
    await create(session, sender, table, key, answerKey, said);
    const url = webhookUrl(where, at?.['database'] ?? '', at?.['schema'] ?? 'public', table);
    const client = new SendClient();
    try {
      const wrong = [...(await ask(client, sender, url, key, answerKey, said, io))];
      wrong.push(...(await deliver(client, sender, url, key, said, io)));
      if (options.json === true)
        io.print(jsonLine({ table, url, secret: key.isNew ? key.secret : null, wrong, steps: sender.steps }));
      else io.print(leftToDo(sender, url, key));
      return wrong.length === 0 ? 0 : 1;
    } finally {
      client.close();
    }
  });
}

async function textOf(file: string, io: CommandIo): Promise<string> {
  const text = (await io.read(file)).toString().replace(/\r?\n$/, '');
  if (text === '') throw new PlainError(`${file} is empty`);
  return text;
}

async function secretFor(sender: Sender, { secretFile }: InitOptions, io: CommandIo): Promise<Made> {
  if (secretFile === undefined) {
    const { secret, signingKey } = sender.makeSecret(io.random);
    return { secret, signingKey, isNew: true };
  }
  const secret = await textOf(secretFile, io);
  if (sender.secretForm !== null && !sender.paired && !sender.secretForm.test(secret))
    throw new PlainError(`the secret is not ${sender.secretForm.sentence}: it must be ${sender.secret.what}`);
  // With a key pair only the sender can sign.
  return { secret, signingKey: sender.paired ? '' : secret, isNew: false };
}

/** In one transaction, so that the endpoint never exists without its check. */
async function create(
  session: Session,
  sender: Sender,
  table: string,
  { secret }: Made,
  answerKey: string,
  said: (text: string) => void,
): Promise<void> {
  if ((await session.relation(bareIdentifier(table))) !== null)
    throw new PlainError(`the table ${table} already exists: choose another name with --table`);
  const [name, second] = [bareIdentifier(`${table}_secret`), bareIdentifier(`${table}_answer_secret`)];
  const { id, answerSecret } = sender;
  const answers = answerSecret !== null && answerKey !== '';
  await session.typed('BEGIN');
  try {
    await session.typed(`CREATE SECRET ${name} WITH (backend = 'meta') AS ${quoteLiteral(secret)}`);
    if (answers)
      await session.typed(`CREATE SECRET ${second} WITH (backend = 'meta') AS ${quoteLiteral(answerKey)}`);
    await session.typed(
      `${senderTable(sender, bareIdentifier(table))} VALIDATE SECRET ${name} USING ${id}${answers ? ` ANSWER SECRET ${second}` : ''}`,
    );
    await session.typed('COMMIT');
  } catch (error) {
    await session.typed('ROLLBACK').catch(() => undefined);
    throw error;
  }
  said(`table ${table}, checked with secret ${table}_secret`);
}

async function ask(
  client: SendClient,
  sender: Sender,
  url: string,
  { signingKey }: Made,
  answerKey: string,
  said: (text: string) => void,
  io: CommandIo,
): Promise<string[]> {
  if (
    sender.questions.length === 0 ||
    signingKey === '' ||
    (sender.answerSecret !== null && answerKey === '')
  )
    return [];
  const wrong: string[] = [];
  const asker = { sender, url, signedUrl: url, signingKey, answerKey, headers: new Map<string, string>() };
  for (const round of roundsOf(asker, io.random(16).toString('hex'), io.clock())) {
    const told = await askOne(round, client, io.elapsed, io.signal).catch((error: unknown) => ({
      wrong: reasonOf(error),
    }));
    said(`${sender.name} asks ${round.question.what}: ${plain(told.wrong ?? 'answered')}`);
    if (told.wrong !== null) wrong.push(told.wrong);
  }
  return wrong;
}

async function deliver(
  client: SendClient,
  sender: Sender,
  url: string,
  { signingKey }: Made,
  said: (text: string) => void,
  io: CommandIo,
): Promise<string[]> {
  if (signingKey === '') {
    said(`no test delivery: only ${sender.name} can sign with this key`);
    return [];
  }
  const id = io.random(16).toString('hex');
  const nowMs = io.clock();
  const body = Buffer.from(sender.example({ id, nowMs }));
  const sent = signedRequest(sender, { method: 'POST', url, body, nowMs, signingKey, id });
  try {
    const { status, body: answer } = await client.send(sent, io.signal);
    const good = status >= 200 && status < 300;
    said(`a test delivery: ${status} ${good ? 'and stored' : plain(answer)}`);
    return good ? [] : [`the test delivery was answered ${status}: ${answer}`];
  } catch (error) {
    said(`a test delivery: no answer from ${new URL(url).host} (${reasonOf(error)})`);
    return [`no answer from ${new URL(url).host}`];
  }
}

function leftToDo({ name, steps, handshake, id }: Sender, url: string, { secret, isNew }: Made): string {
  return `
At ${name}:
${steps.map((step, i) => `  ${i + 1}. ${step}`).join('\n')}

  URL     ${url}
${isNew ? `  secret  ${secret}\n` : ''}${handshake === null ? '' : `\nBefore it delivers it asks: ${handshake}\n`}
See docs/senders/${id}.md for details.
`;
}
