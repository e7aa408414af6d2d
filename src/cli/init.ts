/**
 * `headgate init`: an endpoint for a known sender, from nothing to its first delivery: its URL and the steps at the sender; the sender's
 * secret, typed, from a file or made here; the table that checks it; the sender's question, if it has one; a test delivery, which is deleted
 * again; then it waits for a real one. Without a terminal it asks nothing and does not wait. Refuses a table that already exists. Returns the
 * exit status.
 */
import { hostOf, isLoopbackHost } from '../kit/address.ts';
import { limits } from '../config/limits.ts';
import { PlainError } from '../kit/plain-error.ts';
import { quoteLiteral, bareIdentifier } from '../kit/sql-text.ts';
import { SendClient } from '../senders/send-client.ts';
import { askOne, moved, roundsOf } from '../senders/send-handshake.ts';
import { dedupeText } from '../senders/dedupe.ts';
import { hasEvent, senderTable } from '../senders/sender-table.ts';
import type { HandshakeSender } from '../senders/send-handshake.ts';
import { takesYours } from '../senders/sender.ts';
import type { Sender } from '../senders/sender.ts';
import { typedSender } from '../senders/send-options.ts';
import { signedRequest } from '../senders/senders.ts';
import { reasonOf } from './forward.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { DatabaseFailure, rest, utcText, within } from './session.ts';
import type { CommandSession } from './session.ts';
import { interrupted } from './print.ts';
import { calledUrl, webhookUrl } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

export interface InitOptions {
  readonly table?: string;
  readonly secretFile?: string;
  readonly answerSecretFile?: string;
  readonly json?: boolean;
  /** false: --no-wait. */
  readonly wait?: boolean;
}

interface MadeSecret {
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
  const sender = typedSender(name);
  const named = placeOf(options.table ?? `${name.toLowerCase()}_events`);
  const answerKey = options.answerSecretFile === undefined ? '' : await textOf(options.answerSecretFile, io);
  const said = (text: string): void => (options.json === true ? undefined : io.print(`${text}\n`));
  return within(where.dsn, 'init', async (session) => {
    const [at] = await session.typed(
      `SELECT pg_catalog.current_database()::pg_catalog.text AS database, pg_catalog.current_schema()::pg_catalog.text AS schema`,
    );
    const schema = named.schema ?? at?.['schema'];
    if (schema === undefined || schema === null)
      throw new PlainError('no schema of the search_path exists: name one, as in --table public.events');
    const database = at?.['database'] ?? '';
    // The same one for as long as the command runs, whatever is created on the search_path meanwhile.
    const place = { ...named, schema, sql: [schema, named.table].map(bareIdentifier).join('.') };
    const own = webhookUrl(where, database, schema, place.table);
    const url = calledUrl(where, database, schema, place.table);
    if ((await session.relation(place.sql)) !== null)
      throw new PlainError(`the table ${place.shown} already exists: choose another name with --table`);
    said(firstSteps(sender, url));
    const key = await secretFor(sender, options, io);
    if (key === null) return interrupted;
    await create(session, sender, place, key, answerKey);
    said(`table ${place.shown}, checked with secret ${place.shown}_secret`);
    const client = new SendClient();
    try {
      let test: Buffer | null = null;
      const wrong = [...(await ask(client, sender, { url: own, signedUrl: url }, key, answerKey, said, io))];
      wrong.push(
        ...(await deliver(client, sender, { url: own, signedUrl: url }, key, said, io, (body) => {
          test = body;
          return deleteTest(session, place.sql, body);
        })),
      );
      if (options.json === true)
        io.print(
          jsonLine({
            table: place.shown,
            url,
            secret: key.isNew ? key.secret : null,
            note: key.isNew ? madeUp(sender, place) : null,
            wrong,
            steps: sender.steps,
          }),
        );
      else io.print(summary(sender, place, io.ask === undefined ? null : url, key));
      const waits = options.json !== true && options.wait !== false && io.ask !== undefined;
      if (waits && !(await firstDelivery(session, place, sender, test, io))) return interrupted;
      return wrong.length === 0 ? 0 : 1;
    } finally {
      client.close();
    }
  });
}

/** Where the tests go, and what the sender calls. */
type Urls = Pick<HandshakeSender, 'url' | 'signedUrl'>;

interface EndpointPlace {
  readonly schema: string | null;
  readonly table: string;
  /** As written in SQL, and as shown. */
  readonly sql: string;
  readonly shown: string;
}

/** `table` or `schema.table`. */
function placeOf(text: string): EndpointPlace {
  const parts = text.split('.');
  if (parts.length > 2 || !parts.every((part) => /^[^\0"'\\;]{1,50}$/.test(part)))
    throw new PlainError(
      `--table: "${text}" cannot be used: a name has 1 to 50 characters, without quotes, backslashes and semicolons, and may follow a schema and a dot`,
    );
  const schema = parts.length === 2 ? (parts[0] ?? null) : null;
  return { schema, table: parts.at(-1) ?? '', sql: parts.map(bareIdentifier).join('.'), shown: text };
}

/** Only rows of exactly this body, so a real delivery that arrives meanwhile stays. */
async function deleteTest(session: CommandSession, table: string, body: Buffer): Promise<number> {
  const rows = await session.typed(
    `WITH gone AS (DELETE FROM ${table} WHERE raw = pg_catalog.decode($1, 'base64') RETURNING 1)
SELECT pg_catalog.count(*)::pg_catalog.text AS n FROM gone`,
    [body.toString('base64')],
  );
  return Number(rows[0]?.['n'] ?? 0);
}

/** Waits until there is a row, and shows it, and before it why others were refused; false: interrupted. `test`: the body of the own delivery; null: none. */
async function firstDelivery(
  session: CommandSession,
  { sql, shown }: EndpointPlace,
  sender: Sender,
  test: Buffer | null,
  io: CommandIo,
): Promise<boolean> {
  io.print('\nwaiting for the first real delivery (Ctrl-C ends this; the endpoint stays) … ');
  const event = hasEvent(sender) ? 'event' : 'NULL';
  const look = `SELECT ${utcText('received_at')} AS at, ${event}::pg_catalog.text AS event, pg_catalog."left"(data::pg_catalog.text, ${limits.listenShownCharsMax}) AS data FROM ${sql} LIMIT 1`;
  const refusals = await RefusedDeliveries.since(session, sql, test);
  let isFirst = true;
  const tell = async (): Promise<void> => {
    for (const line of await refusals.look(`headgate secrets set ${shown}_secret`)) {
      io.print(`${isFirst ? '\n' : ''}  ${line}\n`);
      isFirst = false;
    }
  };
  while (!io.signal.aborted) {
    await tell();
    const [row] = await session.typed(look);
    if (row !== undefined) {
      io.print(
        `received\n\n  ${plain(row['at'] ?? '')}  ${plain(row['event'] ?? '')}\n  ${plain(row['data'] ?? '')}\n`,
      );
      return true;
    }
    await rest(io, limits.listenPauseMs);
  }
  await tell();
  const refused = refusals.count === 0 ? '' : `; ${refusals.count} refused: headgate tail ${shown} --failed`;
  io.print(`nothing was stored yet${refused}\n\nStill to do at ${sender.name}:\n${numbered(sender.steps)}\n`);
  return false;
}

async function textOf(file: string, io: CommandIo): Promise<string> {
  const text = (await io.read(file)).toString().replace(/\r?\n$/, '');
  if (text === '') throw new PlainError(`${file} is empty`);
  return text;
}

/** null: interrupted. */
async function secretFor(
  sender: Sender,
  { secretFile, json }: InitOptions,
  io: CommandIo,
): Promise<MadeSecret | null> {
  const typed =
    secretFile !== undefined
      ? await textOf(secretFile, io)
      : io.ask === undefined || json === true
        ? ''
        : await io.ask(
            `Paste the secret: ${sender.secret.what} (${sender.secret.where}). It is not shown.\nEnter alone makes a new one, if the sender takes yours: `,
          );
  if (typed === null) return null;
  if (typed === '') {
    const { secret, signingKey } = sender.makeSecret(io.random);
    return { secret, signingKey, isNew: true };
  }
  const secret = typed;
  if (sender.secretForm !== null && !sender.paired && !sender.secretForm.test(secret))
    throw new PlainError(`the secret is not ${sender.secretForm.sentence}: it must be ${sender.secret.what}`);
  // With a key pair only the sender can sign.
  return { secret, signingKey: sender.paired ? '' : secret, isNew: false };
}

/** SQLSTATE of a DROP of what others use. */
const dependentObjects = '2BP01';

/** In one transaction, so that the endpoint never exists without its check. */
async function create(
  session: CommandSession,
  sender: Sender,
  { sql, schema, table }: EndpointPlace,
  { secret }: MadeSecret,
  answerKey: string,
): Promise<void> {
  const { id, answerSecret } = sender;
  const beside = (name: string) => [...(schema === null ? [] : [schema]), name].map(bareIdentifier).join('.');
  const [name, second] = [beside(`${table}_secret`), beside(`${table}_answer_secret`)];
  const answers = answerSecret !== null && answerKey !== '';
  await session.typed('BEGIN');
  try {
    // Of a table that was dropped. One that another table uses stays, and the statement fails.
    await session.typed(`DROP SECRET IF EXISTS ${name}`);
    await session.typed(`CREATE SECRET ${name} WITH (backend = 'meta') AS ${quoteLiteral(secret)}`);
    if (answers) {
      await session.typed(`DROP SECRET IF EXISTS ${second}`);
      await session.typed(`CREATE SECRET ${second} WITH (backend = 'meta') AS ${quoteLiteral(answerKey)}`);
    }
    await session.typed(
      `${senderTable(sender, sql)} VALIDATE SECRET ${name} USING ${id}${answers ? ` ANSWER SECRET ${second}` : ''}`,
    );
    await session.typed('COMMIT');
  } catch (error) {
    await session.typed('ROLLBACK').catch(() => undefined);
    if (!(error instanceof DatabaseFailure) || error.sqlstate !== dependentObjects) throw error;
    throw new PlainError(
      `another table uses the secret ${plain(table)}_secret: choose another name with --table`,
    );
  }
}

async function ask(
  client: SendClient,
  sender: Sender,
  urls: Urls,
  { signingKey }: MadeSecret,
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
  const asker = { sender, ...urls, signingKey, answerKey, headers: new Map<string, string>() };
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
  { url, signedUrl }: Urls,
  { signingKey }: MadeSecret,
  said: (text: string) => void,
  io: CommandIo,
  remove: (body: Buffer) => Promise<number>,
): Promise<string[]> {
  if (signingKey === '' || io.signal.aborted) {
    said(
      `no test delivery: ${io.signal.aborted ? 'interrupted' : `only ${sender.name} can sign with this key`}`,
    );
    return [];
  }
  const id = io.random(16).toString('hex');
  const nowMs = io.clock();
  const body = Buffer.from(sender.example({ id, nowMs }));
  const draft = { method: 'POST', url: signedUrl, body, nowMs, signingKey, id };
  const sent = moved(signedRequest(sender, draft), signedUrl, url);
  try {
    // Ctrl-C does not end it: its row would stay.
    const { status, body: answer } = await client.send(sent, new AbortController().signal);
    const good = status >= 200 && status < 300;
    const gone = await remove(sent.body).catch(() => 0);
    said(
      `a test delivery: ${status} ${good ? `and stored; ${gone === 1 ? 'its row was deleted again, and SHOW ENDPOINTS counts its request' : 'its row is still there'}` : plain(answer)}`,
    );
    if (good) return [];
    if (sender.signsUrl && url === signedUrl)
      said(
        `${sender.name} signs the URL that it calls: start Headgate with HEADGATE_PUBLIC_URL=https://<the public host>`,
      );
    return [`the test delivery was answered ${status}: ${answer}`];
  } catch (error) {
    // Whether it was stored is not known.
    await remove(sent.body).catch(() => 0);
    said(`a test delivery: no answer from ${new URL(url).host} (${reasonOf(error)})`);
    return [`no answer from ${new URL(url).host}`];
  }
}

const numbered = (steps: readonly string[]) => steps.map((step, i) => `  ${i + 1}. ${step}`).join('\n');

/** Before the secret: some senders make it only once they have the URL. */
function firstSteps({ name, steps, handshake }: Sender, url: string): string {
  const at = new URL(url);
  const { origin, pathname } = at;
  const tunnel = isLoopbackHost(hostOf(at))
    ? `
  Only this machine reaches it. A tunnel gives it a public address:
    cloudflared tunnel --url ${origin}     or     ngrok http ${origin}
  The sender then calls https://<the tunnel's host>${pathname}
  All senders share the tunnel's address, unless Headgate starts with HEADGATE_TRUSTED_PROXIES=127.0.0.1,::1
`
    : '';
  return `
  URL     ${url}
${tunnel}
At ${name}:
${numbered(steps)}
${handshake === null ? '' : `\nBefore it delivers it asks: ${handshake}\n`}`;
}

/** What to do about a secret that was made here if the sender does not take it; null: it does, or brings its own. */
function madeUp(sender: Sender, { shown }: Pick<EndpointPlace, 'shown'>): string | null {
  const { name, secret } = sender;
  const learns = sender.answers({ secret: 's', answer: 'a' }).some((clause) => clause.includes('\n  LEARN '));
  if (takesYours(sender) || learns) return null;
  return `It was made here, and ${name} has its own: ${secret.what} (${secret.where}). Until that is set, every request gets 401: headgate secrets set ${shown}_secret --secret-file <file>`;
}

/** `url`: null if it has just been printed, with nothing typed since. */
function summary(
  sender: Sender,
  { sql, shown }: EndpointPlace,
  url: string | null,
  { secret, isNew }: MadeSecret,
): string {
  const note = madeUp(sender, { shown });
  const lines = [
    ...(url === null ? [] : [`  URL     ${url}`]),
    ...(isNew ? [`  secret  ${secret}`, ...(note === null ? [] : [`          ${note}`])] : []),
    ...(url === null && !isNew ? [] : ['']),
    `See docs/senders/${sender.id}.md for details. Another secret: headgate secrets set ${shown}_secret`,
    ...('id' in dedupeText(sender)
      ? [`To store repeated deliveries once: ALTER TABLE ${sql} SET (dedupe = 'sender:${sender.id}');`]
      : []),
    `To send deliveries on to your program: headgate listen ${shown} --forward-to http://localhost:3000/hook${sender.paired ? '' : ` --sender ${sender.id}`}`,
  ];
  return `\n${lines.join('\n')}\n`;
}

/** Reasons that differ in numbers only, such as seconds, are one. */
const reasons = `SELECT min(status)::text AS status, code, min(reason) AS reason, max(id)::text AS id, count(*)::text AS n
FROM headgate.rejected_requests r
WHERE relation = $1::oid AND id > $2::bigint AND status >= 300 AND (body = decode($3, 'base64')) IS NOT TRUE
GROUP BY code, regexp_replace(reason, '[0-9]+', '#', 'g') ORDER BY min(id) LIMIT ${limits.refusedReasonsMax}`;

/** The table's oid, the last id before, and a body that does not count. */
type SinceRow = readonly [string | null, string, string | null];

/**
 * The deliveries of one table that were refused since a moment, as its owner may see them: a line for each new reason. Headgate writes them a little later
 * than it answers, and several Headgates in any order.
 */
class RefusedDeliveries {
  readonly #session: CommandSession;
  readonly #since: SinceRow;
  readonly #told = new Set<string>();
  #count = 0;

  private constructor(session: CommandSession, since: SinceRow) {
    this.#session = session;
    this.#since = since;
  }

  /** `own`: the body of a request that is not the sender's; null: there was none. */
  static async since(session: CommandSession, table: string, own: Buffer | null): Promise<RefusedDeliveries> {
    const oid = await session.relation(table);
    const [last] = await session.rows(
      'SELECT coalesce(max(id), 0)::text AS id FROM headgate.rejected_requests WHERE relation = $1::oid',
      [oid],
    );
    return new RefusedDeliveries(session, [oid, last?.['id'] ?? '0', own?.toString('base64') ?? null]);
  }

  /** Of those that are kept. */
  get count(): number {
    return this.#count;
  }

  /** `setSecret`: the command that replaces the secret. */
  async look(setSecret: string): Promise<string[]> {
    const rows = await this.#session.rows(reasons, this.#since);
    this.#count = rows.reduce((sum, { n }) => sum + Number(n), 0);
    return rows.flatMap(({ status, code, reason, id }) => {
      const what = `${code ?? ''} (${plain(reason ?? '')})`;
      const key = what.replaceAll(/\d+/g, '#');
      if (this.#told.has(key) || this.#told.size >= limits.refusedReasonsMax) return [];
      this.#told.add(key);
      const another = status === '401' ? `; another secret: ${setSecret}` : '';
      return [`a delivery was refused: ${status ?? ''} ${what}: headgate explain ${id ?? ''}${another}`];
    });
  }
}
