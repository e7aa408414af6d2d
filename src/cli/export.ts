/**
 * `headgate export`: writes the rows of a table as newline-delimited JSON, CSV or Parquet, all of them or those that are new since a position,
 * with every digit. Takes any table or view that the role may read; --since needs a table. Returns the exit status.
 */
import { constants, createWriteStream } from 'node:fs';
import { copyFile, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../config/limits.ts';
import { interrupted } from './print.ts';
import { jsonLine, plain, shownJson } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { parsePosition, writtenBetween } from '../kit/position.ts';
import type { Cells, ParquetColumn } from './parquet.ts';
import { within } from './session.ts';
import type { CommandSession } from './session.ts';
import { readRelation } from './read-relation.ts';
import type { TrustOptions } from './read-relation.ts';
import type { Where } from './find-headgate.ts';

export interface ExportOptions extends TrustOptions {
  readonly format: string;
  readonly since?: string;
  readonly state?: string;
  readonly output?: string;
  readonly json?: boolean;
}

/** Turns rows into the bytes of a file, piece by piece. */
interface Encoder {
  readonly add: (rows: readonly Cells[]) => string | Buffer;
  readonly end: () => string | Buffer;
}

interface Format {
  /** The SELECT list for a row of `t`. */
  readonly columns: string;
  /** `before`: how the file begins that the rows are appended to; null: a new one. */
  readonly encoder: (
    columns: readonly ParquetColumn[],
    session: CommandSession,
    before: Buffer | null,
  ) => Encoder | Promise<Encoder>;
  readonly isBinary: boolean;
  /** The text of rows as a terminal may be shown it. */
  readonly shown: (text: string) => string;
}

const formats: Readonly<Record<string, Format>> = {
  ndjson: {
    columns: 'row_to_json(t)::text AS line',
    encoder: () => ({ add: (rows) => rows.map(([line]) => `${line ?? ''}\n`).join(''), end: () => '' }),
    isBinary: false,
    shown: shownJson,
  },
  csv: {
    columns: 't.*',
    encoder: (columns, _session, before) => {
      let head = csvLine(columns.map(({ name }) => name));
      if (before !== null) {
        const same = Buffer.from(head);
        if (!before.subarray(0, same.length).equals(same))
          throw new PlainError('the table has other columns than the file: name another --output');
        head = '';
      }
      const begun = (text: string): string => {
        const all = head + text;
        head = '';
        return all;
      };
      return { add: (rows) => begun(rows.map(csvLine).join('')), end: () => begun('') };
    },
    isBinary: false,
    shown: (text) => text.replaceAll(/[^\n]+/g, plain),
  },
  parquet: {
    columns: 't.*',
    encoder: async (columns, session) => {
      const { Parquet, arraysOf } = await import('./parquet.ts');
      const types = `{${columns.map(({ dataTypeID }) => dataTypeID).join()}}`;
      const arrays = await session.rows(arraysOf, [types]);
      const elements = arrays.map(({ array, element }) => [Number(array), Number(element)] as const);
      return new Parquet(columns, new Map(elements));
    },
    isBinary: true,
    shown: (text) => text,
  },
};

const asItIs = (text: string): string => text;

export async function exportCommand(
  where: Where,
  name: string,
  options: ExportOptions,
  output: Writable & { readonly isTTY?: boolean },
  io: CommandIo,
): Promise<number> {
  const format = Object.hasOwn(formats, options.format) ? formats[options.format] : undefined;
  if (format === undefined)
    throw new PlainError(`--format: "${options.format}" is not one of ${Object.keys(formats).join(', ')}`);
  if (options.since !== undefined && options.state !== undefined)
    throw new PlainError('--since and --state both say where to begin: give only one of them');
  if (format.isBinary && options.output === undefined && output.isTTY === true)
    throw new PlainError(
      `${options.format} is binary and not shown on a terminal: name a file with --output`,
    );
  const since = options.since === undefined ? await readState(options.state) : sinceOf(options.since);
  const before =
    options.state === undefined || since === null
      ? null
      : await beginningOf(options.output, options.format, format.isBinary);
  return within(where.dsn, 'export', async (session) => {
    const until = await session.position();
    if (since !== null && since > until)
      throw new PlainError(
        `position ${since} is beyond the database, which is at ${until}: it is another database, or was restored`,
      );
    const relation = await readRelation(session, name, options, io);
    const isPositioned = since !== null || options.state !== undefined;
    if (isPositioned && !['r', 'p'].includes(relation.kind))
      throw new PlainError(`${name} is not a table: its rows have no position`);
    await session.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const condition = isPositioned ? ` WHERE ${writtenBetween(since, until)}` : '';
    await session.rows(
      `DECLARE exported NO SCROLL CURSOR FOR SELECT ${format.columns} FROM ${relation.from}${condition}`,
    );
    const rows =
      options.output === undefined
        ? await writeRows(
            session,
            output.isTTY === true ? format : { ...format, shown: asItIs },
            output,
            io,
            null,
          )
        : await intoFile(options.output, before !== null, (to) =>
            writeRows(session, { ...format, shown: asItIs }, to, io, before),
          );
    if (rows === null) return interrupted;
    // Saved only now: after an interruption the next run begins where this one began.
    if (options.state !== undefined) {
      await writeFile(`${options.state}.next`, `${until}\n`);
      await rename(`${options.state}.next`, options.state);
    }
    const position = String(until);
    io.note(options.json === true ? jsonLine({ rows, position }) : `${rows} rows; position ${position}\n`);
    return 0;
  });
}

function sinceOf(text: string): bigint {
  const position = parsePosition(text);
  if (position === null)
    throw new PlainError(`--since: "${text}" is not a position; an export prints its own at the end`);
  return position;
}

/** null: no position was saved yet. */
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
  if (position === null)
    throw new PlainError(`--state: ${file} does not hold a position that export has written`);
  return position;
}

/** The first bytes of the file that rows are appended to, which are more than any header has; null: there is no such file, or nothing in it. */
async function beginningOf(
  file: string | undefined,
  format: string,
  isBinary: boolean,
): Promise<Buffer | null> {
  if (file === undefined) return null;
  try {
    const opened = await open(file, 'r');
    try {
      const { size } = await opened.stat();
      if (size === 0) return null;
      if (isBinary)
        throw new PlainError(`nothing can be appended to ${file}, which is ${format}: name another --output`);
      const last = await opened.read(Buffer.alloc(1), 0, 1, size - 1);
      if (last.buffer[0] !== 0x0a)
        throw new PlainError(`${file} does not end with a whole line: name another --output`);
      const { buffer, bytesRead } = await opened.read(Buffer.alloc(headBytesMax), 0, headBytesMax, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await opened.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error instanceof PlainError ? error : new PlainError(`--output: ${file} cannot be read`);
  }
}

/** 1,600 columns, the most that a table has, with names of 63 bytes, quoted. */
const headBytesMax = 1_600 * 130;

/** The file gets its name once it is complete and on the disk; `write` returns null if it was interrupted. */
async function intoFile(
  file: string,
  appends: boolean,
  write: (to: Writable) => Promise<number | null>,
): Promise<number | null> {
  const part = `${file}.part`;
  // Complete at every moment: a file that is appended to is copied first, by reference where the file system can.
  if (appends)
    await copyFile(file, part, constants.COPYFILE_FICLONE).catch((error: Error) => {
      throw unwritten(error);
    });
  const to = createWriteStream(part, { flush: true, flags: appends ? 'a' : 'w' });
  const closed = new Promise<void>((resolve) => void to.once('close', resolve));
  try {
    const rows = await write(to);
    if (rows === null) return null;
    await written(to, (done) => to.end(done));
    await closed;
    if (to.errored !== null) throw unwritten(to.errored);
    await rename(part, file);
    return rows;
  } finally {
    to.destroy();
    await closed;
    await rm(part, { force: true });
  }
}

/** Returns the number of rows; null: interrupted. */
async function writeRows(
  session: CommandSession,
  format: Format,
  to: Writable,
  io: CommandIo,
  before: Buffer | null,
): Promise<number | null> {
  // The waiting write reports the error.
  to.on('error', () => {});
  const { fields } = await session.cells('FETCH 0 FROM exported');
  const encoder = await format.encoder(fields, session, before);
  for (let count = 0; ;) {
    const { rows } = await session.cells(`FETCH ${limits.commandRowsMax} FROM exported`);
    count += rows.length;
    const bytes = encoder.add(rows);
    await written(to, (done) => to.write(typeof bytes === 'string' ? format.shown(bytes) : bytes, done));
    if (io.signal.aborted) return null;
    if (rows.length === limits.commandRowsMax) continue;
    const last = encoder.end();
    await written(to, (done) => to.write(typeof last === 'string' ? format.shown(last) : last, done));
    return count;
  }
}

async function written(to: Writable, ask: (done: (error?: Error | null) => void) => void): Promise<void> {
  await new Promise<void>((resolve, reject) =>
    ask((error) =>
      error === undefined || error === null ? resolve() : reject(unwritten(to.errored ?? error)),
    ),
  );
}

const unwritten = ({ message }: Error): PlainError =>
  new PlainError(`the rows cannot be written: ${message}`);

/** As COPY … CSV writes it: NULL is an empty cell, an empty text is quoted. */
function csvLine(cells: Cells): string {
  const text = (cell: string | null) =>
    cell === null
      ? ''
      : cell === '' || /[",\r\n]/.test(cell) || cell === '\\.'
        ? `"${cell.replaceAll('"', '""')}"`
        : cell;
  return `${cells.map(text).join(',')}\n`;
}
