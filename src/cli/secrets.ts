/**
 * `headgate secrets list | set | reveal`. The first two are about the role's own secrets: a value is never an argument, shown or logged; they return the exit
 * status. The last shows a secret that a sender has sent, for the one place where a person has to type it (Notion's settings), and works once: afterwards the
 * secret is never shown again. It takes Settings, which lead to the master key, and throws the reason if it fails.
 */
import { PlainError } from '../kit/plain-error.ts';
import { quoteLiteral, bareIdentifier } from '../kit/sql-text.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { Where } from './find-headgate.ts';
import { interrupted, tableOf } from './print.ts';
import { DatabaseFailure, within } from './session.ts';
import { readRights, refuseUntrusted } from '../catalog/rights.ts';
import { identities } from '../catalog/seals.ts';
import { withClient } from '../engine/close-client.ts';
import { masterKeys } from '../secrets/key-ring.ts';
import { MasterKeyError } from '../secrets/key-file.ts';
import { createSealing } from '../secrets/sealing.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { openCommandEngine } from '../engine/command-engine.ts';

/** SQLSTATE of a name that is not there. */
const undefinedObject = '42704';

export async function listSecrets(where: Where, json: boolean, io: CommandIo): Promise<number> {
  return within(where.dsn, 'secrets list', async (session) => {
    const rows = (await session.typed('SHOW SECRETS')).map((row) => ({
      schema: row['Schema'] ?? '',
      name: row['Name'] ?? '',
      backend: row['Backend'] ?? '',
      learned: row['Learned'] ?? null,
    }));
    if (json) for (const row of rows) io.print(jsonLine(row));
    else if (rows.length === 0) io.note('you may use no secret in this database\n');
    else io.print(tableOf(rows, ['schema', 'name', 'backend', 'learned'], io));
    return 0;
  });
}

/** `name`: of the secret, optionally after its schema and a dot. */
export async function setSecret(
  where: Where,
  name: string,
  file: string | undefined,
  io: CommandIo,
): Promise<number> {
  const value = await valueOf(file, io);
  if (value === null) return interrupted;
  if (value === '') throw new PlainError('the secret is empty');
  return within(where.dsn, 'secrets set', async (session) => {
    const said = name.split('.').map(bareIdentifier).join('.');
    const isNew = await session
      .typed(`ALTER SECRET ${said} AS ${quoteLiteral(value)}`)
      .then(() => false)
      .catch(async (error: unknown) => {
        if (!(error instanceof DatabaseFailure) || error.sqlstate !== undefinedObject) throw error;
        await session.typed(`CREATE SECRET ${said} WITH (backend = 'meta') AS ${quoteLiteral(value)}`);
        return true;
      });
    io.note(`secret ${plain(name)} is ${isNew ? 'created' : 'set'}\n`);
    return 0;
  });
}

async function valueOf(file: string | undefined, io: CommandIo): Promise<string | null> {
  if (file !== undefined) return (await io.read(file)).toString().replace(/\r?\n$/, '');
  if (io.ask === undefined) throw new PlainError('give the secret with --secret-file, - for standard input');
  return io.ask('The secret (it is not shown): ');
}

/** `secrets reveal`. `name` of the secret, optionally with its schema (`public` by default). `database` null: the default one. */
export async function revealSecret(
  settings: Settings,
  name: string,
  database: string | null,
): Promise<string> {
  const dot = name.indexOf('.');
  const schema = dot < 0 ? 'public' : name.slice(0, dot);
  const secret = name.slice(dot + 1);
  const engine = await openCommandEngine(settings);
  try {
    const sealing = createSealing(masterKeys(settings));
    const config = engine.clientConfig(database ?? engine.defaultDatabase ?? 'dev');
    return await withClient(config, limits.catalogWaitMs, async (client) => {
      refuseUntrusted(await readRights(client));
      // If it does not open, it does not count as revealed.
      await client.query('begin');
      const { rows } = await client.query<{ seal_id: string; sealed: string }>(
        'select seal_id::pg_catalog.text, sealed from headgate.reveal_learned($1, $2)',
        [schema, secret],
      );
      const [found] = rows;
      if (found === undefined)
        throw new MasterKeyError(`secret ${schema}.${secret} was not learned, or was revealed before`);
      const value = sealing.open(found.sealed, identities.secret(secret, found.seal_id));
      await client.query('commit');
      return value;
    });
  } finally {
    await engine.close();
  }
}
