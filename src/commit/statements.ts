/**
 * The SQL of one version of a table, pure: shape in, statement texts out. Every statement takes the documents as one
 * JSON array, `$1`, and lets the engine decode them, so that its types, domains and casts are what they are in SQL.
 */
import type { Column, Shape, Target } from '../flow.ts';
import { quoteIdentifier as quote, quoteLiteral } from '../kit/sql-text.ts';

/** pg_type.oid, fixed in every PostgreSQL. */
export const typeOids = { bytea: 17, int8: 20, text: 25, oid: 26, json: 114, jsonb: 3802 } as const;

export function relationName({ schema, table }: Pick<Target, 'schema' | 'table'>): string {
  return `${quote(schema)}.${quote(table)}`;
}

/** Stores the rows of `$1`; a row that is there already keeps its columns of the names `kept`. */
export function storeStatement(target: Target, kept: readonly string[] = []): string {
  const { shape } = target;
  const names = shape.columns.map(({ name }) => quote(name));
  const into = `insert into ${relationName(target)} (${names.join(', ')}) `;
  const key = sortKey(shape);
  if (key === null) {
    const conflict = shape.way === 'ignore' ? ' on conflict do nothing' : '';
    return `${into}select ${names.join(', ')} from ${filled(shape)}${conflict}`;
  }
  const order = key.join(', ');
  const ord = internalName(shape, 'ord');
  // Every Headgate takes the rows of one statement in the order of their keys: none waits for another in a circle
  // (see `lockStatements`).
  if (shape.way === 'ignore')
    return `${into}select ${names.join(', ')} from ${keyed(shape)} order by ${order}, ${ord} on conflict (${order}) do nothing`;
  // The last row of a key is the one that stays: one statement may touch a row only once.
  return (
    `${into}select distinct on (${order}) ${names.join(', ')} from ${keyed(shape)} order by ${order}, ${ord} desc ` +
    `on conflict (${order}) ${replacement(shape, kept)}`
  );
}

/**
 * Deletes what has the key of a row in `$1` whose byte in `$2` is 1 and after which no other row has that key. Reads
 * nothing but the key. null: there is no key, or none that a document holds.
 */
export function removeStatement(target: Target): string | null {
  const key = sortKey(target.shape);
  if (key === null) return null;
  const bare = keyOnly(target.shape);
  const ord = internalName(bare, 'ord');
  const removed = `get_byte($2, (${ord} - 1)::int) = 1`;
  const items =
    `select distinct on (${key.join(', ')}) ${key.join(', ')}, ` +
    `(case when not ${removed} then 'false' when ${missing(key)} then '${keyMissing}' else 'true' end)::bool as gone ` +
    `from ${keyed(bare)} order by ${key.join(', ')}, ${ord} desc`;
  const same = key.map((k) => `t.${k} = i.${k}`).join(' and ');
  return `delete from ${relationName(target)} t using (${items}) i where i.gone and ${same}`;
}

/** Decodes the keys of `$1` as `removeStatement` does, fails where one is missing, and changes nothing. */
export function removeProbeStatement({ shape }: Target): string | null {
  const key = sortKey(shape);
  if (key === null) return null;
  const check = `(case when ${missing(key)} then '${keyMissing}' else 'true' end)::bool`;
  return `select count(${check}) from ${keyed(keyOnly(shape))}`;
}

/** What the engine is made to stumble over when a row that deletes has no key. */
export const keyMissing = 'key_missing';

/** Decodes these columns of `$1` and throws them away. */
export function probeStatement(columns: readonly Column[]): string {
  if (columns.length === 0) return 'select count(*) from json_array_elements($1)';
  return `select count(*) from json_to_recordset($1) as r(${definitions(columns)})`;
}

/**
 * Ends every transaction: is the table still what the rows were made for? Its name still leads to the same relation,
 * and no column was added, changed or dropped. Fails when not. The statements before it hold a lock on the table, so
 * that the answer stays true until COMMIT. Works where there is no schema `headgate`. Tells the number of the transaction,
 * for when the answer to its commit is lost.
 */
export const confirmStatement =
  `select (case when pg_catalog.to_regclass($1) = $2 and ` +
  `(select pg_catalog.string_agg(a.xmin::text, '.' order by a.attnum) from pg_catalog.pg_attribute a ` +
  `where a.attrelid = $2 and a.attnum > 0) = $3 then 'true' else 'table_changed' end)::bool, ` +
  `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id_if_assigned())`;

/**
 * Taken first by every transaction that replaces or deletes rows by their key, with the oid of the table as `$1`.
 * Transactions of one statement go side by side, because they take rows in the order of their keys. One of several
 * statements comes back to smaller keys, and goes alone: no two transactions of Headgates wait for each other in a
 * circle, which PostgreSQL would notice only after a second. The first number is Headgate's own.
 */
export const lockStatements = {
  shared: 'select pg_catalog.pg_advisory_xact_lock_shared(1212498244, $1::int8::bit(32)::int4)',
  alone: 'select pg_catalog.pg_advisory_xact_lock(1212498244, $1::int8::bit(32)::int4)',
} as const;

/** What holds for one transaction only. */
export const settingStatements = {
  asynchronous: `select pg_catalog.set_config('synchronous_commit', 'off', true)`,
  durable:
    `select pg_catalog.set_config('synchronous_commit', coalesce(nullif(pg_catalog.current_setting('synchronous_commit'), ` +
    `'off'), 'on'), true)`,
  timeout: `select pg_catalog.set_config('statement_timeout', $1, true)`,
} as const;

/** Whether rows of this table are found by their key. */
export function isKeyed(shape: Shape): boolean {
  return sortKey(shape) !== null;
}

/** The columns of the key as SQL, or null: rows of this table are never compared by their key. */
function sortKey({ way, key, columns }: Shape): readonly string[] | null {
  if (way === 'insert' || way === 'copy' || key.length === 0) return null;
  const written = new Set(columns.map(({ name }) => name));
  // A key that only the engine fills (an identity) meets no row that is there.
  if (key.some((column) => column.generated === null && !written.has(column.name))) return null;
  return key.map(({ name }) => quote(name));
}

/** What has to be read of a document to know its key; what a generated key is made of is known to the engine alone. */
function keyOnly(shape: Shape): Shape {
  const generated = shape.key.some((column) => column.generated !== null);
  const wanted = new Set(shape.key.map(({ name }) => name));
  const columns = generated ? shape.columns : shape.columns.filter(({ name }) => wanted.has(name));
  return { ...shape, columns: columns.map((column) => ({ ...column, fallback: null })) };
}

function missing(key: readonly string[]): string {
  return key.map((k) => `${k} is null`).join(' or ');
}

function replacement({ columns, key }: Shape, kept: readonly string[]): string {
  const left = new Set([...kept, ...key.map(({ name }) => name)]);
  const replaced = columns.filter(({ name }) => !left.has(name)).map(({ name }) => quote(name));
  if (replaced.length === 0) return 'do nothing';
  return `do update set ${replaced.map((name) => `${name} = excluded.${name}`).join(', ')}`;
}

/** The rows of `$1` with their columns, and defaults where a document has no such key. */
function filled(shape: Shape): string {
  const { columns } = shape;
  if (columns.every(({ fallback }) => fallback === null))
    return `json_to_recordset($1) as r(${definitions(columns)})`;
  return `(${selectFilled(shape, [], false)}) as f`;
}

/** As `filled`, with generated columns of the key and each row's place. */
function keyed(shape: Shape): string {
  const generated = shape.key.filter((column) => column.generated !== null);
  if (generated.length === 0) return `(${selectFilled(shape, [internalName(shape, 'ord')], true)}) as f`;
  const made = generated.map(({ name, generated: by }) => `(${by}) as ${quote(name)}`);
  return `(select f.*, ${made.join(', ')} from (${selectFilled(shape, [internalName(shape, 'ord')], true)}) as f) as k`;
}

function selectFilled(shape: Shape, more: readonly string[], ordered: boolean): string {
  const { columns } = shape;
  const documents = columns.some(({ fallback }) => fallback !== null);
  const doc = internalName(shape, 'doc');
  const values = columns.map(({ name, fallback }) => {
    const column = quote(name);
    if (fallback === null) return column;
    // A key that is missing is SQL's NULL here; one whose value is null is not. A value needs no second look.
    const missing = `(${doc} operator(pg_catalog.->) ${quoteLiteral(name)}::text) is null`;
    return `coalesce(${column}, case when ${missing} then (${fallback}) end) as ${column}`;
  });
  const names = columns.map(({ name }) => quote(name));
  const sources = [`json_to_recordset($1) as (${definitions(columns)})`];
  if (documents) {
    sources.push('json_array_elements($1)');
    names.push(doc);
  }
  if (ordered) names.push(internalName(shape, 'ord'));
  return (
    `select ${[...values, ...more].join(', ')} from rows from (${sources.join(', ')}) ` +
    `${ordered ? 'with ordinality ' : ''}as r(${names.join(', ')})`
  );
}

function definitions(columns: readonly Column[]): string {
  return columns.map(({ name, type }) => `${quote(name)} ${type}`).join(', ');
}

/** A name that no column of the table has. */
function internalName({ columns, key }: Shape, word: string): string {
  const taken = new Set([...columns, ...key].map(({ name }) => name));
  let name = `headgate_${word}`;
  while (taken.has(name)) name += '_';
  return quote(name);
}
