/**
 * How a relation is read: the one SQL text that queries PostgreSQL's own catalog, for any relation, and the rows that it yields. Pure; the text
 * runs on PostgreSQL 14 to 18 and needs no schema `headgate`.
 */
import { writtenPlainly } from '../kit/plain-settings.ts';
import type { Equality } from '../types/shape.ts';
import { inertSql, loginableSql, schemaTrustedSql, trustedSql, versionSql } from './owner-code.ts';
import { missingRightsSql } from './rights.ts';
import type { MissingRight } from './rights.ts';

/** What `relationsSql` yields. */
export interface RelationRow {
  /** pg_class.oid */
  readonly relation: number;
  readonly schema_name: string;
  readonly table_name: string;
  /** pg_class.relkind: `r`, `p`, `v` … */
  readonly relation_kind: string;
  /** Rows can be inserted, by PostgreSQL's own rules for views and foreign tables. */
  readonly insertable: boolean;
  /** See Shape.version. */
  readonly version: string;
  readonly columns: readonly ColumnRow[];
  /**
   * pg_attribute.attnum of the primary key's columns, in its order; empty if ON CONFLICT cannot use the key, because it
   * is DEFERRABLE or WITHOUT OVERLAPS.
   */
  readonly key: readonly number[];
  /** How the index of the key compares its columns, in the same order. */
  readonly equalities: readonly Equality[];
  readonly code: CodeRow;
  /** Citus keeps its rows on other servers. */
  readonly distributed: boolean;
}

/** Whose code runs when rows are stored. */
export interface CodeRow {
  /** pg_class.relowner */
  readonly owner: number;
  readonly owner_name: string;
  /** Headgate's role, and whether it is a superuser. */
  readonly role: string;
  readonly superuser: boolean;
  /** The role that must be allowed to write into the relation, and stores its rows if they run no code; Headgate's own, or one beside it. */
  readonly writer: string;
  readonly apart: boolean;
  /** The owner could do all that Headgate's role can. */
  readonly trusted: boolean;
  /** See schemaTrustedSql. */
  readonly schema_trusted: boolean;
  /** See loginableSql. */
  readonly loginable: boolean;
  /** See inertSql. */
  readonly inert: boolean;
  /** What is checked depends on the role that stores a row: row-level security, or a view with `security_invoker`. */
  readonly asks: boolean;
  /** Of the writer and of the owner. Absent or null: none. */
  readonly missing?: readonly MissingRight[] | null;
}

export interface ColumnRow {
  /** pg_attribute.attnum */
  readonly place: number;
  readonly name: string;
  readonly type: string;
  readonly base: number;
  /** What fills it when it is not written: its DEFAULT, that of its domain, or the next number of an identity. */
  readonly fallback: string | null;
  /** GENERATED ALWAYS AS (…) */
  readonly generated: string | null;
  /** Which columns a generated column is computed from. */
  readonly reads: readonly number[];
  readonly writable: boolean;
}

/** The columns of `relationsSql`, for lists of them. */
export const relationColumns =
  'relation, schema_name, table_name, relation_kind, insertable, version, columns, key, equalities, code, distributed';

/** See Shape.version. */
const version = versionSql('c');

/**
 * A query for RelationRows. `asked` is a query that yields oids as `relation`.
 *
 * Types and expressions are printed qualified, whatever the session's search_path is: search_path is set, for the rest of
 * the statement's transaction, once the first oid is known, and by then `asked` has been evaluated under the client's own. `writer`: an expression
 * for the name of the role that stores rows of relations without code; null: the current role.
 */
export function relationsSql(asked: string, writer = 'null'): string {
  return `
with asked as materialized (
  select r.relation, pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true) as path, ${writtenPlainly} as plain
  from (${asked}) as r
), me as materialized (
  select r.*, coalesce(w.name, r.rolname) as writer, w.name is not null as apart
  from (select ${writer} as name) as w join pg_catalog.pg_roles r on r.rolname operator(pg_catalog.=) current_user
)
select c.oid as relation, n.nspname::text as schema_name, c.relname::text as table_name,
  c.relkind::text as relation_kind,
  c.relkind in ('r', 'p') or pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8 as insertable,
  ${version} as version, coalesce(attributes.columns, '[]') as columns, coalesce(primary_key.columns, '[]') as key,
  coalesce(primary_key.equalities, '[]') as equalities, ${codeSql} as code,
  ${distributedSql} as distributed
from asked
join pg_catalog.pg_class c on c.oid = asked.relation
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
cross join me
cross join lateral (
  select pg_catalog.json_agg(${columnSql} order by a.attnum) filter (where not a.attisdropped) as columns
  from pg_catalog.pg_attribute a
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_catalog.pg_type t on t.oid = a.atttypid
  where a.attrelid = asked.relation and a.attnum > 0
) as attributes
left join lateral (
  select pg_catalog.array_to_json((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1]) as columns, (
    select pg_catalog.json_agg(pg_catalog.json_build_object(
        'operator', pg_catalog.format('%I.%s', en.nspname, eo.oprname),
        'type', case when et.typtype <> 'p' then pg_catalog.format_type(et.oid, -1) end) order by o.place)
    from pg_catalog.unnest(i.indclass::pg_catalog.oid[]) with ordinality as o (class, place)
    join pg_catalog.pg_opclass oc on oc.oid = o.class
    join pg_catalog.pg_type et on et.oid = oc.opcintype
    join pg_catalog.pg_amop am on am.amopfamily = oc.opcfamily and am.amopstrategy = 3
      and am.amoplefttype = oc.opcintype and am.amoprighttype = oc.opcintype
    join pg_catalog.pg_operator eo on eo.oid = am.amopopr
    join pg_catalog.pg_namespace en on en.oid = eo.oprnamespace
    where o.place <= i.indnkeyatts) as equalities
  from pg_catalog.pg_index i
  where i.indrelid = asked.relation and i.indisprimary and i.indimmediate and not i.indisexclusion
) as primary_key on true`;
}

/** A CodeRow. */
const codeSql = `pg_catalog.json_build_object(
    'owner', c.relowner::pg_catalog.int8,
    'owner_name', pg_catalog.pg_get_userbyid(c.relowner),
    'role', me.rolname,
    'superuser', me.rolsuper,
    'writer', me.writer,
    'apart', me.apart,
    'trusted', ${trustedSql('c.relowner')},
    'schema_trusted', ${schemaTrustedSql('n')},
    'loginable', ${loginableSql('c.relowner', 'me')},
    'inert', ${inertSql('c', 'me.writer')},
    'asks', c.relrowsecurity or coalesce('security_invoker=true' = any (c.reloptions) or 'security_invoker=on' = any (c.reloptions), false),
    'missing', ${missingRightsSql('c', 'n', ['me.writer', 'me.rolname'])})`;

/** Citus puts its own trigger on such a table. Its metadata tables cannot be queried instead: they do not exist without Citus. */
const distributedSql = `exists (
    select from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = c.oid and t.tgisinternal and p.proname = 'citus_truncate_trigger')`;

const expressionSql = 'pg_catalog.pg_get_expr(d.adbin, d.adrelid)';

/** Not pg_get_serial_sequence(), which fails if the table is dropped while this is read. */
const identitySql = `
        select pg_catalog.format('nextval(%L::regclass)', pg_catalog.format('%I.%I', sn.nspname, s.relname))
        from pg_catalog.pg_depend p join pg_catalog.pg_class s on s.oid = p.objid and s.relkind = 'S'
        join pg_catalog.pg_namespace sn on sn.oid = s.relnamespace
        where p.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
          and p.refobjid = a.attrelid and p.refobjsubid = a.attnum and p.deptype = 'i' limit 1`;

/** One ColumnRow. In a view, only columns that are columns of its table can be written. */
const columnSql = `pg_catalog.json_build_object(
    'place', a.attnum,
    'name', a.attname,
    'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
    'base', (case when t.typtype <> 'd' then t.oid else (
      with recursive base as (
        select b.oid, b.typtype, b.typbasetype from pg_catalog.pg_type b where b.oid = t.typbasetype
        union all
        select b.oid, b.typtype, b.typbasetype from base join pg_catalog.pg_type b on b.oid = base.typbasetype
        where base.typtype = 'd'
      )
      select base.oid from base where base.typtype <> 'd') end)::pg_catalog.int8,
    'fallback', case
      when a.attgenerated <> '' then null
      when a.attidentity <> '' then (${identitySql})
      else coalesce(${expressionSql}, pg_catalog.pg_get_expr(t.typdefaultbin, 0)) end,
    'generated', case when a.attgenerated <> '' then ${expressionSql} end,
    'reads', case when a.attgenerated = '' then '[]' else (
      select coalesce(pg_catalog.json_agg(distinct p.refobjsubid), '[]') from pg_catalog.pg_depend p
      where p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and p.refobjid = a.attrelid
        and p.refobjsubid > 0 and p.refobjsubid <> a.attnum
        and ((p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.objid = d.oid)
          or (p.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and p.objid = a.attrelid and p.objsubid = a.attnum))
      ) end,
    'writable', a.attgenerated = '' and a.attidentity <> 'a'
      and (c.relkind <> 'v' or pg_catalog.pg_column_is_updatable(a.attrelid, a.attnum, false)))`;
