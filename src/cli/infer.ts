/**
 * `headgate infer`: prints a CREATE TABLE that accepts documents like the given ones. Takes newline-delimited JSON from a file or standard
 * input, or the documents of a table's JSONB column; returns a statement with a typed column for each key, and a primary key if a column
 * identifies every sample. Samples prove nothing about later documents: a column that no type fits becomes JSONB or TEXT, and only
 * the primary key is NOT NULL.
 */
import { isUtf8 } from 'node:buffer';
import { Members } from '../kit/json-walk.ts';
import { PlainError } from '../kit/plain-error.ts';
import { quoteIdentifier, quoteLiteral, bareIdentifier } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { within } from './session.ts';
import type { CommandSession } from './session.ts';
import { readRelation } from './read-relation.ts';
import type { TrustOptions } from './read-relation.ts';
import type { Where } from './find-headgate.ts';

export interface InferOptions extends TrustOptions {
  readonly name?: string;
  readonly table?: string;
  readonly column?: string;
  readonly json?: boolean;
}

/** `file` undefined: reads the documents of a table. */
export async function inferCommand(
  where: () => Promise<Where>,
  file: string | undefined,
  options: InferOptions,
  io: CommandIo,
): Promise<number> {
  if ((file === undefined) === (options.table === undefined))
    throw new PlainError('give either a file of samples (- is standard input) or --table');
  const lines =
    file === undefined ? await documentsOf(await where(), options, io) : linesOf(await io.read(file));
  const columns = inferColumns(lines);
  const name = options.name ?? options.table?.split('.').at(-1) ?? 'events';
  if (options.json === true) io.print(jsonLine({ table: name, samples: lines.length, columns }));
  else io.print(statementOf(name, columns));
  io.note(`${lines.length} ${lines.length === 1 ? 'sample' : 'samples'}\n`);
  return 0;
}

/** The documents of a column or, in a table with a column for each key, of its rows without what INCLUDE adds. */
async function documentsOf(where: Where, options: InferOptions, io: CommandIo): Promise<Buffer[]> {
  const { table = '', column } = options;
  const rows = await within(where.dsn, 'infer', async (session) => {
    const { oid, from } = await readRelation(session, table, options, io);
    const [found] = await session.rows(
      `SELECT json_agg(a.attname)::text AS columns FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped`,
      [oid],
    );
    const columns = JSON.parse(found?.['columns'] ?? '[]') as readonly string[];
    const read = column ?? 'data';
    const isWhole = column === undefined && !columns.includes(read);
    if (!isWhole && !columns.includes(read))
      throw new PlainError(
        `${plain(table)} has no column ${plain(read)}; it has ${columns.map(plain).join(', ')}`,
      );
    const others = isWhole ? await includedBy(session, oid) : [];
    const document = isWhole
      ? `to_jsonb(t) - ARRAY[${others.map(quoteLiteral).join(', ')}]::text[]`
      : `t.${quoteIdentifier(read)}`;
    await session.begin('READ ONLY');
    return session.rows(`SELECT (${document})::text AS document FROM ${from} LIMIT ${limits.inferLinesMax}`);
  });
  return rows.map(({ document }) => checked(Buffer.from(document ?? 'null'), 0)).filter((it) => it !== null);
}

/** The columns that INCLUDE fills; none if it is not a webhook table. */
async function includedBy(session: CommandSession, oid: string): Promise<readonly string[]> {
  const found = await session.rows(
    `SELECT headgate.placed(w.relation, i.value)::text AS name FROM headgate.webhook_table w, jsonb_array_elements(w.includes) i
WHERE w.relation = $1::oid`,
    [oid],
  );
  return found.map(({ name }) => name).filter((name) => name !== null && name !== undefined);
}

function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let at = 0, number = 1; at < bytes.length && lines.length < limits.inferLinesMax; number++) {
    const newline = bytes.indexOf(10, at);
    const end = newline === -1 ? bytes.length : newline;
    const line = bytes.subarray(at, end);
    at = end + 1;
    if (line.length > limits.inferLineBytesMax) throw new PlainError(`line ${number} is too long`);
    const document = line.toString('latin1').trim() === '' ? null : checked(line, number);
    if (document !== null) lines.push(document);
  }
  return lines;
}

/** null: a document of a table that is not an object. In a file such a line is an error. */
function checked(line: Buffer, number: number): Buffer | null {
  let value: unknown;
  try {
    if (!isUtf8(line)) throw new SyntaxError('not UTF-8');
    value = JSON.parse(line.toString('utf8'));
  } catch {
    throw new PlainError(`line ${number} is not JSON`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return line.subarray(line.indexOf(0x7b));
  if (number === 0) return null;
  throw new PlainError(`line ${number} is not a JSON object, whose keys would be the columns`);
}

interface InferredColumn {
  readonly name: string;
  readonly type: string;
  readonly key: boolean;
}

interface Seen {
  readonly types: Set<string>;
  count: number;
  nulls: number;
  /** null: two samples have the same value. */
  values: Set<string> | null;
}

/** Each document is a JSON object that begins at its first byte. */
export function inferColumns(documents: readonly Buffer[]): readonly InferredColumn[] {
  if (documents.length === 0) throw new PlainError('there are no samples');
  const seen = new Map<string, Seen>();
  for (const document of documents) {
    const here = new Map<string, string>();
    const members = new Members(document, 0);
    while (members.next()) {
      const { keyStart, keyEnd, valueStart, valueEnd } = members;
      const name = JSON.parse(`"${document.toString('utf8', keyStart, keyEnd)}"`) as string;
      here.set(name, document.toString('utf8', valueStart, valueEnd));
    }
    for (const [name, text] of here) add(seen, name, text);
  }
  const key = keyOf(seen, documents.length);
  return [...seen].map(([name, { types }]) => ({ name, type: typeOf(types), key: name === key }));
}

function add(seen: Map<string, Seen>, name: string, text: string): void {
  let known = seen.get(name);
  if (known === undefined) {
    if (seen.size === limits.inferKeysMax)
      throw new PlainError(
        `the samples have more than ${limits.inferKeysMax} keys: CREATE TABLE … (data JSONB) stores them whole`,
      );
    // The statement is shown, and the keys are those of strangers.
    if (name === '' || name !== plain(name) || Buffer.byteLength(name) > 63)
      throw new PlainError(
        `no column can be named "${plain(name)}": CREATE TABLE … (data JSONB) stores the samples whole`,
      );
    seen.set(name, (known = { types: new Set(), count: 0, nulls: 0, values: new Set() }));
  }
  known.count += 1;
  if (text === 'null') known.nulls += 1;
  else known.types.add(kindOf(text));
  if (known.values?.has(text) === true) known.values = null;
  known.values?.add(text);
}

const uuid = /^"[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}"$/i;
const day = String.raw`\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])`;
const date = new RegExp(`^"${day}"$`);
const moment = new RegExp(
  String.raw`^"${day}[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d(?::?\d\d)?)"$`,
);

/** The type of a value, from its JSON text. */
function kindOf(text: string): string {
  if (text === 'true' || text === 'false') return 'BOOLEAN';
  const first = text[0] ?? '';
  if (first === '{' || first === '[') return 'JSONB';
  if (first !== '"') {
    const isInteger = /^-?\d{1,19}$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
    return isInteger ? 'BIGINT' : 'NUMERIC';
  }
  if (moment.test(text) && isDay(text)) return 'TIMESTAMPTZ';
  if (date.test(text) && isDay(text)) return 'DATE';
  return uuid.test(text) ? 'UUID' : 'TEXT';
}

/** Excludes days such as 31 February, which Date turns into another day. */
function isDay(text: string): boolean {
  const day = text.slice(1, 11);
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

const texts = new Set(['TIMESTAMPTZ', 'DATE', 'UUID', 'TEXT']);

function typeOf(types: ReadonlySet<string>): string {
  const [only = 'JSONB', second] = types;
  if (second === undefined) return only;
  if ([...types].every((type) => type === 'BIGINT' || type === 'NUMERIC')) return 'NUMERIC';
  return [...types].every((type) => texts.has(type)) ? 'TEXT' : 'JSONB';
}

/** The key with the likeliest name whose value differs in every sample, the first of several; null: none, or only one sample. */
function keyOf(seen: ReadonlyMap<string, Seen>, samples: number): string | null {
  if (samples < 2) return null;
  const likely = [/^id$/i, /^(?:event|delivery|message|webhook)_?id$/i, /^uuid$|^guid$/i, /_?id$/i];
  const fits = [...seen].filter(
    ([, { types, count, nulls, values }]) =>
      values !== null &&
      count === samples &&
      nulls === 0 &&
      ['BIGINT', 'TEXT', 'UUID'].includes(typeOf(types)),
  );
  for (const pattern of likely) {
    const found = fits.find(([name]) => pattern.test(name));
    if (found !== undefined) return found[0];
  }
  return null;
}

export function statementOf(name: string, columns: readonly InferredColumn[]): string {
  const lines = columns.map(
    ({ name: column, type, key }) => `  ${bareIdentifier(column)} ${type}${key ? ' PRIMARY KEY' : ''}`,
  );
  const table = name.split('.').map(bareIdentifier).join('.');
  // Otherwise a single JSONB column would be the document column and store documents whole.
  const whole = columns.length === 1 && columns[0]?.type === 'JSONB' ? ", document = ''" : '';
  return `CREATE TABLE ${table} (\n${lines.join(',\n')}\n) WITH (connector = 'webhook'${whole});\n`;
}
