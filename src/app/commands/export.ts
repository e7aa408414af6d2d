/**
 * `headgate export`: the rows of a table as newline-delimited JSON or CSV, all of them or what is new since a position, with every digit.
 * Any table or view that the role may read; --since needs a table. Gives the exit status.
 */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { PlainError } from '../../kit/plain-error.ts';
import { limits } from '../../tables/limits.ts';
import { interrupted } from './io.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import { parsePosition, writtenBetween } from '../../kit/position.ts';
import { within } from './session.ts';
import type { Session } from './session.ts';
import type { Where } from './where.ts';

export interface ExportOptions {
  readonly format: string;
  readonly since?: string;
  readonly state?: string;
  readonly output?: string;
  readonly json?: boolean;
}

export async function exportCommand(
  where: Where,
  name: string,
  options: ExportOptions,
  output: Writable,
  io: CommandIo,
): Promise<number> {
  const { format } = options;
  if (format === 'parquet')
    throw new PlainError(
      'parquet is not written: export ndjson or csv, which DuckDB turns into it: COPY (FROM read_json(…)) TO … (FORMAT parquet)',
    );
  if (format !== 'ndjson' && format !== 'csv')
    throw new PlainError(`--format: "${format}" is not known: ndjson or csv`);
  if (options.since !== undefined && options.state !== undefined)
    throw new PlainError('--since and --state both say where to begin: give one of them');
  const since = options.since === undefined ? await readState(options.state) : sinceOf(options.since);
  return within(where.dsn, 'export', async (session) => {
    await session.rows('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const until = await session.position();
    if (since !== null && since > until)
      throw new PlainError(
        `position ${since} has not come yet: the database is at ${until}, so it is another one, or was restored`,
      );
    const relation = await relationOf(session, name, since !== null || options.state !== undefined);
    const condition =
      since === null && options.state === undefined ? '' : ` WHERE ${writtenBetween(since, until)}`;
    const to = options.output === undefined ? output : createWriteStream(`${options.output}.part`);
    const rows = await writeRows(session, format, relation, condition, to, io);
    if (io.signal.aborted) return interrupted;
    if (options.output !== undefined) {
      to.end();
      await once(to, 'finish');
      await rename(`${options.output}.part`, options.output);
    }
    // Only now: who was interrupted begins where the last one began.
    if (options.state !== undefined) {
      await writeFile(`${options.state}.next`, `${until}\n`);
      await rename(`${options.state}.next`, options.state);
    }
    const position = String(until);
    io.note(
      options.json === true
        ? `${JSON.stringify({ rows, position })}\n`
        : `${rows} rows; position ${position}\n`,
    );
    return 0;
  });
}

function sinceOf(text: string): bigint {
  const position = parsePosition(text);
  if (position === null)
    throw new PlainError(`--since: "${text}" is no position; an export says its own at the end`);
  return position;
}

/** null: there is none yet. */
async function readState(file: string | undefined): Promise<bigint | null> {
  if (file === undefined) return null;
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new PlainError(`--state: ${file} cannot be read`);
  }
  const position = parsePosition(text);
  if (position === null) throw new PlainError(`--state: ${file} is no position that export has written`);
  return position;
}

/** As PostgreSQL writes its name. */
async function relationOf(session: Session, name: string, positioned: boolean): Promise<string> {
  const [row] = await session.rows(
    `SELECT format('%I.%I', n.nspname, c.relname) AS name, c.relkind::text AS kind FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`,
    [name],
  );
  if (row === undefined) throw new PlainError(`there is no table ${name}`);
  if (positioned && !['r', 'p'].includes(row['kind'] ?? ''))
    throw new PlainError(`${name} is no table: its rows have no position`);
  return row['name'] ?? '';
}

async function writeRows(
  session: Session,
  format: 'ndjson' | 'csv',
  relation: string,
  condition: string,
  to: Writable,
  io: CommandIo,
): Promise<number> {
  const what = format === 'ndjson' ? 'row_to_json(t)::text AS line' : 't.*';
  await session.rows(`DECLARE exported NO SCROLL CURSOR FOR SELECT ${what} FROM ${relation} t${condition}`);
  let failure: Error | null = null;
  to.on('error', (error) => (failure ??= error));
  for (let count = 0, head = format === 'csv'; ;) {
    const { fields, rows } = await session.client.query<(string | null)[]>({
      text: `FETCH ${limits.commandRowsMax} FROM exported`,
      rowMode: 'array',
    });
    const lines = rows.map((row) => (format === 'ndjson' ? `${row[0] ?? ''}\n` : csvLine(row)));
    if (head) lines.unshift(csvLine(fields.map((field) => field.name)));
    head = false;
    if (!to.write(lines.join('')) && failure === null)
      await Promise.race([once(to, 'drain'), once(to, 'close')]);
    if (failure !== null) throw new PlainError(`the rows cannot be written: ${(failure as Error).message}`);
    count += rows.length;
    if (rows.length < limits.commandRowsMax || io.signal.aborted) return count;
  }
}

/** As COPY … CSV writes it: an empty cell is NULL, an empty text stands in quotes. */
function csvLine(cells: readonly (string | null)[]): string {
  const text = (cell: string | null) =>
    cell === null
      ? ''
      : cell === '' || /[",\r\n]/.test(cell) || cell === '\\.'
        ? `"${cell.replaceAll('"', '""')}"`
        : cell;
  return `${cells.map(text).join(',')}\n`;
}
