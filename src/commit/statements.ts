/**
 * The SQL of one version of a table; pure: takes a shape, returns statement texts. Every statement takes the documents as one
 * JSON array, `$1`, and lets the engine decode them, so that its types, domains and casts are what they are in SQL.
 */
import { typeOids } from '../relations/shape.ts';
import type { Column, KeyColumn, Shape } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import { quoteIdentifier as quote, quoteLiteral, relationName } from '../kit/sql-text.ts';
import { isMeant, isMeantFirst } from './plan-lock.ts';

/**
 * A condition that is true and, before the first row is read, sets the path that the table's own functions see to that of
 * ordinary clients. By then the statement itself, with its defaults as PostgreSQL prints them, has been parsed under
 * `safePath`. Left out if no code runs.
 */
export function underPath({ code }: Target): string {
  return code.as === 'writer' ? '' : `(select pg_catalog.set_config('search_path', $2, true)) is not null`;
}

export const where = (condition: string): string => (condition === '' ? '' : ` where ${condition}`);

/** Of a query of no table whose rows are written into the target: isMeant and underPath. */
function whereMeant(target: Target): string {
  const path = underPath(target);
  return ` where ${isMeant(target, true)}${path === '' ? '' : ` and ${path}`}`;
}

/** Stores the documents of `$1` unchanged in the one column, which is jsonb. */
export function storeDocumentsStatement(target: Target): string {
  const column = quote(target.shape.columns[0]?.name ?? '');
  return (
    `insert into ${relationName(target)} (${column}) select d::pg_catalog.text::pg_catalog.jsonb ` +
    `from pg_catalog.json_array_elements($1) as e (d)${whereMeant(target)}`
  );
}

/**
 * Stores the rows of `$1`, `$2`: see underPath; an existing row keeps its columns of the names `kept`. The types of its parameters: storingTypes.
 * Without a key and without code:
 *
 *   insert into public.t (a, b) select a, b from json_to_recordset($1) as r(a int4, b text) where <the name still means the table>
 */
export function storeStatement(target: Target, kept: readonly string[] = []): string {
  const { into, rows, conflict } = storing(target, kept);
  if (target.code.rowsType === undefined) return `${into} ${rows}${conflict}`;
  // PostgreSQL compares the two types while it parses this, before anything of the table that it has opened is planned.
  const meant = 'returning false and pg_catalog.array_eq($4, array[headgate_row.*])';
  return `with stored as (${into} ${rows}${conflict} ${meant}) select where false`;
}

/** `$3` is for other statements of the table; `$4`, which has no value, only has the type of its rows. */
export const storingTypes = ({ code: { rowsType } }: Target): readonly number[] => {
  const { json, text, bytea } = typeOids;
  return rowsType === undefined ? [json, text, bytea] : [json, text, bytea, rowsType];
};

/**
 * The same for a table that Citus distributes. Rows of a query that may meet others would go to each shard over a connection of its own: they
 * are decoded first, and go as values (decision 0188).
 */
export function storeValuesStatement(target: Target, kept: readonly string[] = []): string {
  const { into, rows, conflict } = storing(target, kept);
  const { columns } = target.shape;
  const row = `(${columns.map(() => '%L').join(', ')})`;
  const values = `select pg_catalog.string_agg(pg_catalog.format('${row}', ${names(columns)}), ', ') from (${rows}) as v`;
  const texts = [[...isMeantFirst(target), into].join('; '), values, conflict].map(quoteLiteral);
  return `select headgate.store_values(${texts.join(', ')}, $1, $2)`;
}

function storing(target: Target, kept: readonly string[]): Record<'into' | 'rows' | 'conflict', string> {
  const { shape } = target;
  const code = whereMeant(target);
  const written = names(shape.columns);
  const alias = target.code.rowsType === undefined ? '' : ' as headgate_row';
  const into = `insert into ${relationName(target)}${alias} (${written})`;
  const key = sortKey(shape);
  if (key === null) {
    const conflict = shape.writeMode === 'ignore' ? ' on conflict do nothing' : '';
    return { into, rows: `select ${written} from ${filled(shape)}${code}`, conflict };
  }
  const order = key.join(', ');
  const ord = internalName(shape, 'ord');
  // Every Headgate takes the rows of one statement in the order of their keys, so that none waits for another in a circle
  // (see `lockShared` in transaction-statements.ts).
  if (shape.writeMode === 'ignore') {
    const rows = `select ${written} from ${keyed(shape)}${code} order by ${order}, ${ord}`;
    return { into, rows, conflict: ` on conflict (${order}) do nothing` };
  }
  // The last row of a key is the one that remains: one statement may touch a row only once.
  const rows = `select distinct on (${order}) ${written} from ${keyed(shape)}${code} order by ${order}, ${ord} desc`;
  return { into, rows, conflict: ` on conflict (${order}) ${replacement(shape, kept)}` };
}

/**
 * Deletes the rows that have the key of a row in `$1` whose byte in `$3` is 1, if no later row has that key. Reads
 * nothing but the key. `$2`: see underPath. null: there is no key, or none that a document holds.
 */
export function removeStatement(target: Target): string | null {
  const key = sortKey(target.shape);
  if (key === null) return null;
  const bare = keyOnly(target.shape);
  const ord = internalName(bare, 'ord');
  const place = `(${ord} operator(pg_catalog.-) 1::pg_catalog.int8)::pg_catalog.int4`;
  const removed = `pg_catalog.get_byte($3, ${place}) operator(pg_catalog.=) 1`;
  const items =
    `select distinct on (${key.join(', ')}) ${key.join(', ')}, ` +
    `(case when not ${removed} then 'false' when ${missing(key)} then '${keyMissing}' else 'true' end)::pg_catalog.bool as gone ` +
    `from ${keyed(bare)}${where(underPath(target))} order by ${key.join(', ')}, ${ord} desc`;
  const same = target.shape.key.map((column) => equals(column)).join(' and ');
  // Rows of tables that inherit from it are not in its key, and have code of their own.
  const only = target.code.inert ? 'only ' : '';
  return `delete from ${only}${relationName(target)} t using (${items}) i where ${isMeant(target)} and i.gone and ${same}`;
}

/** Compares as the key's own index does: another operator of that name may take precedence, or mean something else. */
export function equals({ name, equality }: KeyColumn, left = 't', right = 'i'): string {
  const { operator, type } = equality ?? { operator: 'pg_catalog.=', type: null };
  const side = (row: string) => `${row}.${quote(name)}${type === null ? '' : `::${type}`}`;
  return `${side(left)} operator(${operator}) ${side(right)}`;
}

/** The value that makes the engine fail when a row that deletes has no key. */
export const keyMissing = 'key_missing';

/** Whether rows of this table are found by their key. */
export function isKeyed(shape: Shape): boolean {
  return sortKey(shape) !== null;
}

/** The columns of the key as SQL, or null: rows of this table are never compared by their key. */
export function sortKey({ writeMode, key, columns }: Shape): readonly string[] | null {
  if (writeMode === 'insert' || writeMode === 'documents' || key.length === 0) return null;
  const written = new Set(columns.map(({ name }) => name));
  // A key that only the engine fills (an identity) is never that of an existing row.
  if (key.some((column) => column.generated === null && !written.has(column.name))) return null;
  return key.map(({ name }) => quote(name));
}

/** What has to be decoded of a document to know its key, and how new it is; only the engine knows what a generated key is made from. */
export function keyOnly(shape: Shape): Shape {
  const generated = shape.key.some((column) => column.generated !== null);
  const wanted = new Set([...shape.key.map(({ name }) => name), ...columnsOf(shape.newest)]);
  const columns = generated ? shape.columns : shape.columns.filter(({ name }) => wanted.has(name));
  return { ...shape, columns: columns.map((column) => ({ ...column, fallback: null })) };
}

function columnsOf(newest: Shape['newest']): readonly string[] {
  return newest?.parts.map(({ column }) => column) ?? [];
}

export function missing(key: readonly string[]): string {
  return key.map((k) => `${k} is null`).join(' or ');
}

export function replacement({ columns, key }: Shape, kept: readonly string[]): string {
  const left = new Set([...kept, ...key.map(({ name }) => name)]);
  const replaced = columns.filter(({ name }) => !left.has(name)).map(({ name }) => quote(name));
  if (replaced.length === 0) return 'do nothing';
  return `do update set ${replaced.map((name) => `${name} = excluded.${name}`).join(', ')}`;
}

/** The rows of `$1` with their columns, and defaults if a document lacks the key. */
function filled(shape: Shape): string {
  const { columns, document } = shape;
  if (columns.every((column) => column.fallback === null && madeOf(column, document, '') === null))
    return `pg_catalog.json_to_recordset($1) as r(${definitions(columns, document)})`;
  return `(${selectFilled(shape, [], false)}) as f`;
}

/** As `filled`, with generated columns of the key and the position of each row. */
export function keyed(shape: Shape): string {
  const generated = shape.key.filter((column) => column.generated !== null);
  if (generated.length === 0) return `(${selectFilled(shape, [internalName(shape, 'ord')], true)}) as f`;
  const made = generated.map(({ name, generated: by }) => `(${by}) as ${quote(name)}`);
  return `(select f.*, ${made.join(', ')} from (${selectFilled(shape, [internalName(shape, 'ord')], true)}) as f) as k`;
}

function selectFilled(shape: Shape, more: readonly string[], ordered: boolean): string {
  const { columns, document } = shape;
  const doc = internalName(shape, 'doc');
  const readsDocuments = columns.some(
    (column) => column.fallback !== null || carriageOf(column, document) === 'raw',
  );
  const values = columns.map((column) => {
    const { name, fallback } = column;
    const made = madeOf(column, document, doc);
    const value = made ?? quote(name);
    if (fallback === null) return made === null ? value : `${value} as ${quote(name)}`;
    // A missing key is SQL's NULL here; a key whose value is null is not. A value needs no second look.
    const missing = `(${doc} operator(pg_catalog.->) ${quoteLiteral(name)}::pg_catalog.text) is null`;
    return `coalesce(${value}, case when ${missing} then (${fallback}) end) as ${quote(name)}`;
  });
  const aliases = [names(columns), ...(readsDocuments ? [doc] : [])];
  if (ordered) aliases.push(internalName(shape, 'ord'));
  return (
    `select ${[...values, ...more].join(', ')} from ${rowsFrom(columns, document, readsDocuments)} ` +
    `${ordered ? 'with ordinality ' : ''}as r(${aliases.join(', ')})`
  );
}

/** The rows of `$1`, each with its document if that is wanted. */
export function rowsFrom(
  columns: readonly Column[],
  document: string | null,
  withDocuments: boolean,
): string {
  const documents = withDocuments ? ', pg_catalog.json_array_elements($1)' : '';
  return `rows from (pg_catalog.json_to_recordset($1) as (${definitions(columns, document)})${documents})`;
}

/**
 * How the engine reads the value of a column for which json_to_recordset would not return what was sent: it makes SQL's NULL of
 * a JSON null, and rewrites strings, which shows in columns of type JSON.
 */
type Carriage = 'plain' | 'null is a value' | 'text' | 'raw';

function carriageOf({ name, baseType }: Column, document: string | null): Carriage {
  if (name !== document) return baseType === typeOids.json ? 'raw' : 'plain';
  if (baseType === typeOids.json) return 'text';
  return baseType === typeOids.jsonb ? 'null is a value' : 'plain';
}

/** The expression for the value of a column; null: it is read as it is. `doc`: the name of its row's document. */
export function madeOf(column: Column, document: string | null, doc: string): string | null {
  const { name, type } = column;
  switch (carriageOf(column, document)) {
    case 'plain':
      return null;
    case 'null is a value':
      return `coalesce(${quote(name)}, 'null'::pg_catalog.jsonb)::${type}`;
    case 'text':
      return `${quote(name)}::${type}`;
    case 'raw':
      return `(case when ${quote(name)} is not null then ${doc} operator(pg_catalog.->) ${quoteLiteral(name)}::pg_catalog.text end)::${type}`;
  }
}

/** The type for json_to_recordset: a domain would refuse what is about to be corrected. */
function readType(column: Column, document: string | null): string {
  switch (carriageOf(column, document)) {
    case 'plain':
      return column.type;
    case 'null is a value':
      return 'pg_catalog.jsonb';
    case 'text':
      return 'pg_catalog.text';
    case 'raw':
      return 'pg_catalog.json';
  }
}

export function definitions(columns: readonly Column[], document: string | null): string {
  return columns.map((column) => `${quote(column.name)} ${readType(column, document)}`).join(', ');
}

export function names(columns: readonly Column[]): string {
  return columns.map(({ name }) => quote(name)).join(', ');
}

/** A name that no column of the table has. */
export function internalName({ columns, key }: Pick<Shape, 'columns' | 'key'>, word: string): string {
  const taken = new Set([...columns, ...key].map(({ name }) => name));
  let name = `headgate_${word}`;
  while (taken.has(name)) name += '_';
  return quote(name);
}
