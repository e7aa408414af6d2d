/**
 * Headgate's own questions about one role: which webhook tables it owns or may look at, and which secrets it may use. Takes a connected client and the
 * names of roles and tables as they are; returns rows and oids; throws the engine's error.
 */
import type { ClientBase } from 'pg';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { CatalogRow, FoundSecret } from './catalog-rows.ts';
import { oidsOf, pinned, readTables } from './queries.ts';

/** As headgate.sees_table() says it of a session: whether the role `r` is a reader of the table `c`, whose options `w` has. */
const mayLook = `w.options operator(pg_catalog.?) 'readers' and pg_catalog.has_table_privilege(r.oid, c.oid, 'SELECT') and exists (
      select from headgate.readers_in(w.options operator(pg_catalog.->>) 'readers') n (name) where n.name = 'public' or exists (
        select from pg_catalog.pg_roles g where g.rolname = n.name and pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER')))`;

/** The tables of that name that `user` may own, as they are committed. Throws 55P03 if somebody keeps one locked. */
export async function readOwned(
  client: ClientBase,
  user: string,
  schema: string | null,
  table: string,
  max: number,
  how: 'owned' | 'seen' = 'owned',
): Promise<readonly CatalogRow[]> {
  const inSchema = schema === null ? '' : `and s.schema_name = ${quoteLiteral(schema)}`;
  const oids = await oidsOf(
    client,
    `select s.relation from headgate.catalog_sizes s
    join pg_catalog.pg_class c on c.oid = s.relation
    join pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}
    where s.fits and s.table_name = ${quoteLiteral(table)} ${inSchema}
      and (pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')
        ${how === 'owned' ? '' : `or exists (select from headgate.webhook_table w where w.relation = c.oid and ${mayLook})`}) order by s.schema_name limit ${max}`,
  );
  const { rows } = await readTables(client, oids);
  return rows.toSorted((a, b) => (a.schema_name < b.schema_name ? -1 : 1));
}

/**
 * Webhook tables, by oid, whose owner `user` is or can become, and 0, for the owner of the schema headgate; `seen`: and those that `user` may look at without
 * owning them.
 */
export function readOwnedBy(client: ClientBase, user: string, how: 'owned' | 'seen'): Promise<number[]> {
  const role = `pg_catalog.pg_roles r on r.rolname = ${quoteLiteral(user)}`;
  return oidsOf(
    client,
    `select c.oid as relation from headgate.webhook_table w join pg_catalog.pg_class c on c.oid = w.relation join ${role}
    where pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER') ${how === 'seen' ? `or ${mayLook}` : ''}
    union all select 0 from pg_catalog.pg_namespace n join ${role}
    where n.nspname = 'headgate' and pg_catalog.pg_has_role(r.oid, n.nspowner, 'MEMBER')`,
  );
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

/** Secrets by id, and whether the role with this oid may use them. `version`: as headgate.open_kept() says it. */
export function readSecrets(
  client: ClientBase,
  me: number,
  ids: readonly string[],
): Promise<readonly FoundSecret[]> {
  return pinned(
    client,
    `select s.id::text, s.name, s.seal_id::text, s.sealed, s.owner, extract(epoch from s.altered_at)::text as version,
      headgate.may_use(${me}::oid, s.owner_oid) is true as usable
    from headgate.secret s where s.id = any (${quoteLiteral(`{${ids.join(',')}}`)}::uuid[])`,
  );
}
