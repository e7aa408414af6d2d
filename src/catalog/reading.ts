/**
 * The statements that Headgate itself runs on the catalog. Each runs with search_path = pg_catalog, pg_temp, whatever
 * the session's setting, so that no user's operator or function is taken for PostgreSQL's own; and each is one query
 * string, so that a pooler sends it to one server.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { ClientBase, QueryResult } from 'pg';
import { quoteIdentifier, quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../tables/limits.ts';
import {
  catalogRowsSql,
  fittingSql,
  listed,
  lockedRowsSql,
  someCatalogRowsSql,
  unreadRowsSql,
} from './catalog-rows.ts';
import type { CatalogRow, UnreadRow, Which } from './catalog-rows.ts';

/** Runs these statements in one transaction and returns the rows of the last. */
export async function pinned<Row extends object>(
  client: ClientBase,
  ...statements: readonly string[]
): Promise<readonly Row[]> {
  const results = await pinnedAll(client, statements);
  return (results.at(-1)?.rows ?? []) as Row[];
}

/** `timeoutMs`: if it differs from that of the connection. */
export async function pinnedAll(
  client: ClientBase,
  statements: readonly string[],
  timeoutMs?: number,
): Promise<readonly QueryResult<object>[]> {
  const path = `select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`;
  const text = [path, ...statements].join(';\n');
  const query = timeoutMs === undefined ? { text } : { text, query_timeout: timeoutMs };
  const answer: unknown = await client.query(query);
  return (answer as QueryResult<object>[]).slice(1);
}

/** Differs if anything has changed; see catalog_versions. */
export async function readFingerprint(client: ClientBase): Promise<string> {
  const [row] = await pinned<{ fingerprint: string }>(
    client,
    'select headgate.catalog_fingerprint() as fingerprint',
  );
  return row?.fingerprint ?? '';
}

/** By oid. */
export type TableVersions = ReadonlyMap<number, string>;

/** `isSettled`: no dropped table has left a row behind. Such rows are part of the versions of relation 0. */
export async function readVersions(
  client: ClientBase,
): Promise<{ readonly versions: TableVersions; readonly isSettled: boolean }> {
  const [versions, left] = await pinnedAll(client, [
    'select v.relation, v.version from headgate.catalog_versions() as v order by v.relation',
    // After the versions: a row that they cover is found, or was removed in between, which changes them.
    `select exists (select from headgate.webhook_table w where not exists (
      select from pg_catalog.pg_class c where c.oid = w.relation)) as is_left`,
  ]);
  const rows = (versions?.rows ?? []) as { readonly relation: number; readonly version: string }[];
  const [found] = (left?.rows ?? []) as { readonly is_left: boolean }[];
  return {
    versions: new Map(rows.map(({ relation, version }) => [relation, version])),
    isSettled: found?.is_left !== true,
  };
}

/** Computes what headgate.catalog_fingerprint() does. */
export function fingerprintOf(versions: TableVersions): string {
  const all = [...versions].map(([relation, version]) => `${relation} ${version}`).join(',');
  return createHash('sha256').update(all).digest('hex');
}

export interface TableRows {
  readonly rows: readonly CatalogRow[];
  readonly unread: readonly UnreadRow[];
}

/** All tables, or some. */
export async function readTables(client: ClientBase, which: Which = { without: [] }): Promise<TableRows> {
  const all = catalogRowsSql(fittingSql(which));
  const isAll = which.only === undefined && which.without.length === 0;
  const kept = isAll ? plans.get(client) : undefined;
  // A session that a pooler passes on keeps its prepared statements.
  const name = kept === '' ? quoteIdentifier(`headgate tables ${randomUUID()}`) : kept;
  const prepare = kept === '' ? [`prepare ${name} as ${all}`] : [];
  const asked = [...prepare, impatient, name === undefined ? all : `execute ${name}`, unreadRowsSql];
  const results = await pinnedAll(client, asked, limits.catalogReadMs);
  if (name !== undefined) plans.set(client, name);
  const [rows, unread] = results.slice(-2);
  return { rows: (rows?.rows ?? []) as CatalogRow[], unread: (unread?.rows ?? []) as UnreadRow[] };
}

/** PostgreSQL prints a default under a lock on its table, for which it would wait as long as somebody else holds one. */
const impatient = `select pg_catalog.set_config('lock_timeout', '${limits.catalogLockedMs}ms', true)`;

/** The name under which catalogRowsSql() is prepared in sessions that are their client's own; '': not yet. */
const plans = new WeakMap<ClientBase, string>();

/** From now on the session keeps a plan: for a few tables, planning takes ten times as long as reading. */
export function keepPlan(client: ClientBase): void {
  plans.set(client, '');
}

/** Reads a few tables, by oid, or some of them; `unread` covers all tables. */
export async function readSome(
  client: ClientBase,
  oids: readonly number[],
  { only, without }: Which,
): Promise<TableRows> {
  const left = new Set(without);
  const meant = only === undefined ? null : new Set(only);
  const sizes = await pinned<UnreadRow & { fits: boolean }>(
    client,
    `select s.relation, s.schema_name, s.table_name, s.fits from headgate.catalog_sizes s where not s.fits or s.relation = any (${listed(oids)})`,
  );
  const fitting = sizes.filter(
    ({ fits, relation }) => fits && !left.has(relation) && meant?.has(relation) !== false,
  );
  const asked = someCatalogRowsSql(fitting.map(({ relation }) => relation));
  const rows = fitting.length === 0 ? [] : await pinned<CatalogRow>(client, impatient, asked);
  return { rows, unread: sizes.filter(({ fits }) => !fits) };
}

/** Webhook tables, by oid, that somebody has locked. */
export function readLocked(client: ClientBase): Promise<number[]> {
  return oidsOf(client, lockedRowsSql);
}

export async function oidsOf(client: ClientBase, sql: string): Promise<number[]> {
  return (await pinned<{ relation: number }>(client, sql)).map(({ relation }) => relation);
}

/** The tables of that name that `user` may own, as they are committed. Throws 55P03 if somebody keeps one locked. */
export function readOwned(
  client: ClientBase,
  user: string,
  schema: string | null,
  table: string,
  max: number,
): Promise<readonly CatalogRow[]> {
  const inSchema = schema === null ? '' : `and s.schema_name = ${quoteLiteral(schema)}`;
  const asked = `
    select s.relation from headgate.catalog_sizes s
    join pg_catalog.pg_class c on c.oid = s.relation
    join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where s.fits and s.table_name = ${quoteLiteral(table)} ${inSchema}
      and pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')`;
  return pinned<CatalogRow>(client, impatient, `${catalogRowsSql(asked)} order by schema_name limit ${max}`);
}

/** Webhook tables, by oid, whose owner `user` is or can become; and 0, for the owner of the schema headgate. */
export async function readOwnedBy(client: ClientBase, user: string): Promise<readonly number[]> {
  const rows = await pinned<{ oid: number }>(
    client,
    `select c.oid from headgate.webhook_table w join pg_catalog.pg_class c on c.oid = w.relation
    join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')
    union all select 0 from pg_catalog.pg_namespace n
    join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where n.nspname = 'headgate' and pg_catalog.pg_has_role(r.oid, n.nspowner, 'MEMBER')`,
  );
  return rows.map(({ oid }) => oid);
}

/** Secrets of a table's check that `user` may not use himself, whoever created the table. */
export function readForeignSecrets(
  client: ClientBase,
  user: string,
  relation: number,
): Promise<readonly { readonly name: string }[]> {
  return pinned(
    client,
    `select s.name from headgate.webhook_table_secret b
    join headgate.secret s on s.id = b.secret_id
    left join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where b.relation = ${relation} and headgate.may_use(r.oid, s.owner_oid) is not true
    order by b.position`,
  );
}
