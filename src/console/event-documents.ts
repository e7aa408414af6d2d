/**
 * Documents for the events gateway: one that fits a table, what the gateway would refuse of others, and the calls that send them to this table of
 * this database. Values are judged by PostgreSQL only. Takes texts and a table's columns, returns texts. Pure.
 */
import { identifier, qualified, shellWord } from './quote.ts';

export interface EventColumn {
  readonly name: string;
  /** pg_type.typcategory, and typname without the array's `_`. */
  readonly kind: string;
  readonly type: string;
  /** The first of an enum. */
  readonly label: string | null;
  /** Without a default, and not NULL. */
  readonly needed: boolean;
  /** The database fills it, or can. */
  readonly filled: boolean;
}

export interface EventTable {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

const sampleKeysMax = 5;

/** Two documents of keys that the table has. */
export function sampleOf(columns: readonly EventColumn[]): string {
  const own = columns.filter(({ filled, needed }) => needed || !filled);
  const first = own.filter(({ needed }, i) => needed || i < sampleKeysMax);
  const shown = first.length > 0 ? first : columns.slice(0, 1);
  const line = (nth: number): string =>
    `{${shown.map((column) => `${JSON.stringify(column.name)}: ${valueOf(column, nth)}`).join(', ')}}`;
  return `${line(0)}\n${line(1)}`;
}

const byType: Readonly<Record<string, readonly [string, string]>> = {
  json: ['{"sensor": "a", "value": 1.5}', '{"sensor": "b", "value": 2.5}'],
  jsonb: ['{"sensor": "a", "value": 1.5}', '{"sensor": "b", "value": 2.5}'],
  uuid: ['"01890a5d-ac96-774b-bcce-b302099a8057"', '"01890a5d-ac96-774b-bcce-b302099a8058"'],
  date: ['"2026-01-01"', '"2026-01-02"'],
  time: ['"12:00:00"', '"12:00:01"'],
  timetz: ['"12:00:00Z"', '"12:00:01Z"'],
  timestamp: ['"2026-01-01T00:00:00"', '"2026-01-01T00:00:01"'],
  timestamptz: ['"2026-01-01T00:00:00Z"', '"2026-01-01T00:00:01Z"'],
};

const byKind: Readonly<Record<string, readonly [string, string]>> = {
  A: ['[]', '[]'],
  B: ['true', 'false'],
  I: ['"192.0.2.1"', '"192.0.2.2"'],
  N: ['1', '2'],
  S: ['"a"', '"b"'],
  T: ['"1 second"', '"2 seconds"'],
};

function valueOf({ kind, type, label }: EventColumn, nth: number): string {
  if (label !== null) return JSON.stringify(label);
  return (kind === 'A' ? byKind['A'] : (byType[type] ?? byKind[kind]))?.[nth] ?? 'null';
}

export interface JudgedEvents {
  readonly documents: number;
  /** In the order of the lines. */
  readonly problems: readonly { readonly line: number; readonly says: string }[];
}

/** One object, which may have several lines if the first one is none by itself, or one per line. */
export function judgeEvents(text: string, columns: readonly EventColumn[]): JudgedEvents {
  const lines = text
    .split('\n')
    .map((line, i) => ({ text: line, line: i + 1 }))
    .filter((it) => it.text.trim() !== '');
  const whole = lines.length > 1 && parsed(lines[0]?.text ?? '') === undefined ? parsed(text) : undefined;
  const documents =
    whole === undefined
      ? lines.map((it) => ({ line: it.line, value: parsed(it.text) }))
      : [{ line: lines[0]?.line ?? 1, value: whole }];
  const problems = documents.flatMap(({ line, value }) => {
    const says = problemOf(value, columns);
    return says === null ? [] : [{ line, says }];
  });
  return { documents: documents.length, problems };
}

function problemOf(value: unknown, columns: readonly EventColumn[]): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'not a JSON object';
  const keys = Object.keys(value);
  if (keys.length > 0 && !keys.some((key) => columns.some(({ name }) => name === key)))
    return `none of its keys is a column; the table has ${listed(columns.map(({ name }) => name))}`;
  const given = new Map(Object.entries(value));
  const lacking = columns.filter(({ name, needed }) => needed && (given.get(name) ?? null) === null);
  return lacking.length === 0
    ? null
    : `lacks ${listed(lacking.map(({ name }) => name))}, which may not be NULL`;
}

const namesMax = 8;
const listed = (names: readonly string[]): string =>
  names.slice(0, namesMax).map(identifier).join(', ') +
  (names.length > namesMax ? ` and ${names.length - namesMax} more` : '');

/** undefined: it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** `name` is read as SQL; without `database` the gateway takes its first one. */
export function eventsCommand(gateway: string, to: EventTable, body: string): string {
  const query = `name=${encodeURIComponent(qualified(to.schema, to.table))}&database=${encodeURIComponent(to.database)}`;
  // After --data-binary a text that begins with @ would be the name of a file.
  return `curl --globoff -sS ${shellWord(`${gateway}/v1/events?${query}`)} --data-raw ${shellWord(body)}`;
}

export const eventsProgram = (
  gateway: string,
  { database, schema, table }: EventTable,
  document: string,
): string => `import { createClient } from 'headgate/client';

const headgate = createClient({ url: ${JSON.stringify(gateway)}, database: ${JSON.stringify(database)} });
await headgate.insert(${JSON.stringify(qualified(schema, table))}, [${document}]);`;
