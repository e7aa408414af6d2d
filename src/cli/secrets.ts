/** `headgate secrets list | set`: the role's own secrets. A value is never an argument, shown or logged. Returns the exit status. */
import { PlainError } from '../kit/plain-error.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { bareIdentifier } from '../senders/identifier.ts';
import type { Where } from './find-headgate.ts';
import { interrupted, tableOf } from './print.ts';
import { DatabaseFailure, within } from './session.ts';

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
