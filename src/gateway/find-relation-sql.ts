/**
 * How the events gateway looks a relation up (relations.ts): what PostgreSQL's catalog is asked beyond relations-sql.ts, and the rows that it yields.
 * Pure: takes names, returns SQL, which runs with or without the schema `headgate`.
 */
import { quoteLiteral } from '../kit/sql-text.ts';
import { relationColumns, relationsSql } from '../relations/relations-sql.ts';
import type { RelationRow } from '../relations/relations-sql.ts';
import { hasGatewayFunctions } from './gateway-functions.ts';

/** What `lookup` yields, and what `privateColumns` and `versionOf` add. */
export interface FoundRow extends RelationRow {
  readonly has_webhook_tables: boolean;
  readonly private: readonly string[];
  /** The current role may insert into at least one column. */
  readonly permitted: boolean;
  readonly has_locks: boolean;
  readonly has_functions: boolean;
  readonly knows_versions: boolean;
  readonly rows_type: number | null;
  /** Absent: it has no option `version`. */
  readonly versioned?: Versioned;
}

/** headgate.versions */
export interface Versioned {
  readonly options: Readonly<Record<string, unknown>>;
  /** The column that takes whole documents. */
  readonly document: string | null;
  /** Columns by the header that fills them. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Whether the catalog has this relation for the current role, made by a superuser or by itself: another role could lock it, and what it says
 * would be that role's choice. `permitted`: a condition on the relation, `l`.
 */
const hasOwn = (name: string, permitted: string): string => `exists (
  select from pg_catalog.pg_class l
  join pg_catalog.pg_namespace ln on ln.oid operator(pg_catalog.=) l.relnamespace
  join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) l.relowner
  where ln.nspname operator(pg_catalog.=) 'headgate' and l.relname operator(pg_catalog.=) '${name}'
    and pg_catalog.has_schema_privilege(ln.oid, 'USAGE') and ${permitted}
    and (o.rolsuper or o.rolname operator(pg_catalog.=) current_user))`;

const hasLocks = hasOwn('commit_lock_0', `pg_catalog.has_table_privilege(l.oid, 'UPDATE')`);
const knowsVersions = hasOwn('versions', `pg_catalog.has_any_column_privilege(l.oid, 'SELECT')`);

/**
 * The type of arrays of its rows, if statements that return rows may store them: not with rules or row-level security, and not on Citus, which sends such
 * statements on. The role has to be allowed to read it.
 */
const rowsType = `(select y.typarray from pg_catalog.pg_class c join pg_catalog.pg_type y on y.oid operator(pg_catalog.=) c.reltype
  where c.oid operator(pg_catalog.=) s.relation and c.relkind in ('r', 'p') and not c.relhasrules and not c.relrowsecurity and not s.distributed
    and pg_catalog.has_table_privilege(c.oid, 'SELECT'))`;

/** Without compiling, which would take seconds for one row, and in a session that may be lent to others afterwards. */
export const lookup = (
  name: string,
  path: string,
  logins: boolean | null,
) => `select pg_catalog.set_config('jit', 'off', true);
select ${relationColumns}, pg_catalog.has_any_column_privilege(s.relation, 'INSERT') as permitted,
  ${hasLocks} as has_locks, ${hasWebhookTables(logins)} as has_webhook_tables, ${hasGatewayFunctions('s.relation')} as has_functions, ${knowsVersions} as knows_versions, ${rowsType} as rows_type
  from (${relationsSql(`
    select pg_catalog.to_regclass(${quoteLiteral(name)})::pg_catalog.oid as relation
    from (select pg_catalog.set_config('search_path', ${quoteLiteral(path)}, true) as set offset 0) as path where path.set is not null`)}) as s`;

/**
 * Whether the database has webhook tables; a policy on their list would run code of the role that owns it. In front of a database that is not
 * Headgate's own (`logins` false) the list is believed if it belongs to a superuser, or to a role that the current one is.
 */
const hasWebhookTables = (logins: boolean | null): string => `exists (
  select from pg_catalog.pg_class l
  join pg_catalog.pg_namespace ln on ln.oid operator(pg_catalog.=) l.relnamespace
  join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) l.relowner and ln.nspowner operator(pg_catalog.=) o.oid
  where ln.nspname operator(pg_catalog.=) 'headgate' and l.relname operator(pg_catalog.=) 'webhook_private'
    and l.relkind operator(pg_catalog.=) 'r' and pg_catalog.has_schema_privilege(ln.oid, 'USAGE')
    and (${logins !== false} or o.rolsuper or pg_catalog.pg_has_role(o.oid, 'USAGE')))`;

/** Columns that no request fills, of the table or of one that it is a partition of. */
export const privateColumns = (relation: number): string => `select pg_catalog.set_config('jit', 'off', true);
  select headgate.placed(w.relation, p.value)::pg_catalog.text as name
  from headgate.webhook_private w cross join lateral pg_catalog.jsonb_array_elements(w.places) p
  where w.relation operator(pg_catalog.=) ${relation}::pg_catalog.regclass
    or w.relation operator(pg_catalog.=) any (array(select a.relid from pg_catalog.pg_partition_ancestors(${relation}::pg_catalog.regclass) a))`;

/** The option `version` of a webhook table. */
export const versionSql = (relation: number): string =>
  `select pg_catalog.set_config('jit', 'off', true); select v.versioned from headgate.versions v where v.relation operator(pg_catalog.=) ${relation}`;
