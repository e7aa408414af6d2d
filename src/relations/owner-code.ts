/**
 * Whose code runs when rows are stored in a relation, as SQL over PostgreSQL's own catalog: triggers, defaults, checks,
 * domains, generated columns, index expressions, policies and rules are their owner's code. Texts only; every name is
 * qualified, so that they mean the same under any search_path. For PostgreSQL 14 to 18, with or without the schema `headgate`.
 */
import { ownerLoginPrefix } from '../engine/login-names.ts';

/** The first oid of user-defined objects: everything below is PostgreSQL's own (FirstNormalObjectId). */
const firstUserOid = 16_384;

/** The privilege that lets a role become another by SET ROLE, which versions before 16 allow to every member. */
export const becomes =
  `case when pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.>=) 160000 ` +
  `then 'SET' else 'MEMBER' end`;

/**
 * Whether the role `owner` (an oid) could do all that Headgate's role can: it is that role, a superuser, or can become it. RESET ROLE leads back to
 * the role that logged in: so both roles are checked.
 */
export function trustedSql(owner: string): string {
  const trusts = (role: string) => `pg_catalog.pg_has_role(${owner}, ${role}, ${becomes})`;
  return `(${trusts('current_user')} and (current_user operator(pg_catalog.=) session_user or ${trusts('session_user')}))`;
}

/**
 * Whether the role of the session was chosen by Headgate's login (`ALTER ROLE … SET role`, or not at all), and not by the owner of the
 * database for everybody: `ALTER DATABASE … SET role` makes even a superuser's session act as that role, whose code can return to the login.
 */
export const roleIsChosenSql = `(current_user operator(pg_catalog.=) session_user or not exists (
    select from pg_catalog.pg_db_role_setting s join pg_catalog.pg_database d on d.oid operator(pg_catalog.=) s.setdatabase
    cross join pg_catalog.unnest(s.setconfig) as c (line)
    where s.setrole operator(pg_catalog.=) 0::pg_catalog.oid and d.datname operator(pg_catalog.=) pg_catalog.current_database()
      and pg_catalog.starts_with(c.line, 'role=')))`;

/**
 * Whether Headgate's role (`me`, an alias of pg_roles) can have sessions of the role `owner`: it may make a login that is a member of that role,
 * as superusers and, before version 16, roles with CREATEROLE may; or somebody has made it.
 */
export function loginableSql(owner: string, me: string): string {
  return `(${me}.rolsuper or exists (
      select from pg_catalog.pg_roles h join pg_catalog.pg_auth_members m on m.member operator(pg_catalog.=) h.oid
      where h.rolname operator(pg_catalog.=) pg_catalog.concat('${ownerLoginPrefix}', ${owner})::pg_catalog.name and m.roleid operator(pg_catalog.=) ${owner})
    or ${me}.rolcreaterole and not (select r.rolsuper from pg_catalog.pg_roles r where r.oid operator(pg_catalog.=) ${owner})
      and (pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.<) 160000
        or pg_catalog.pg_has_role(${owner}, 'MEMBER WITH ADMIN OPTION')))`;
}

/** CASCADE, SET NULL, SET DEFAULT */
const passedOn = `array['c', 'n', 'd']::pg_catalog."char"[]`;

/** The foreign keys that refer to the relation `v` (an oid), some twice. Nothing indexes pg_constraint by confrelid: without pg_depend each look reads all of it. */
const referringSql = (v: string): string => `
    select k.* from pg_catalog.pg_depend d cross join lateral (
      select f.* from pg_catalog.pg_constraint f where f.oid operator(pg_catalog.=) d.objid offset 0) as k
    where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid operator(pg_catalog.=) ${v}
      and d.classid operator(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
      and k.contype operator(pg_catalog.=) 'f' and k.confrelid operator(pg_catalog.=) ${v}`;

/** Whether rows of `k`, a foreign key, change with those that they refer to. */
const cascadesSql = (k: string): string =>
  `(${k}.confdeltype operator(pg_catalog.=) any (${passedOn}) or ${k}.confupdtype operator(pg_catalog.=) any (${passedOn}))`;

/**
 * A query for the oids of all relations whose code a row of `relation` may run: its partitions and child tables, or the tables that it is a
 * partition of; the relations behind an automatically updatable view; and tables whose rows change with a deleted or changed one.
 */
export const involvedSql = (relation: string): string => `
  (with recursive involved (oid) as (
    select ${relation}
    union
    select found.oid from involved v join pg_catalog.pg_class s on s.oid operator(pg_catalog.=) v.oid
    cross join lateral (
      select i.inhrelid as oid from pg_catalog.pg_inherits i where s.relhassubclass and i.inhparent operator(pg_catalog.=) v.oid
      union all
      select i.inhparent from pg_catalog.pg_inherits i where s.relispartition and i.inhrelid operator(pg_catalog.=) v.oid
      union all
      select k.conrelid from (${referringSql('v.oid')}) as k where s.relhastriggers and ${cascadesSql('k')}
      union all
      select d.refobjid from pg_catalog.pg_rewrite w join pg_catalog.pg_depend d
        on d.classid operator(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid operator(pg_catalog.=) w.oid
      where s.relkind operator(pg_catalog.=) 'v' and w.ev_class operator(pg_catalog.=) v.oid
        and w.ev_type operator(pg_catalog.=) '1' and not exists (
          select from pg_catalog.pg_trigger t where t.tgrelid operator(pg_catalog.=) v.oid
            and t.tgtype operator(pg_catalog.&) 68::pg_catalog.int2 operator(pg_catalog.=) 68)
        and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
    ) as found
  )
  select oid from involved)`;

/**
 * As involvedSql, with the tables that foreign keys look up. PostgreSQL does the lookup as the owner of such a table, and planning it runs
 * that owner's code (an expression in CREATE STATISTICS is enough); a cursor or a deferred trigger that this code leaves behind runs at COMMIT
 * with the rights of the session. Whether there are triggers is looked up one by one, as in ownersSql.
 */
export const lookedIntoSql = (relation: string): string => `
  (with involved as ${involvedSql(relation)}
  select v.oid from involved v
  union
  select pg_catalog.unnest(array[k.conrelid, k.confrelid]) from involved v
  cross join lateral (
    select from pg_catalog.pg_class s where s.oid operator(pg_catalog.=) v.oid and s.relhastriggers offset 0) as s
  join pg_catalog.pg_constraint k on k.contype operator(pg_catalog.=) 'f'
    and (k.conrelid operator(pg_catalog.=) v.oid or k.confrelid operator(pg_catalog.=) v.oid))`;

/**
 * A query for the owners of the relations of `oids`, each once, with their names. They are looked up one by one: with a
 * condition on the owner, PostgreSQL would otherwise read all relations of the database for each table that is asked about.
 */
export function ownersSql(oids: string): string {
  return `select distinct c.relowner, pg_catalog.pg_get_userbyid(c.relowner) as name
  from (${oids}) as v cross join lateral (
    select s.relowner from pg_catalog.pg_class s where s.oid operator(pg_catalog.=) v.oid offset 0) as c`;
}

/**
 * The version of what a relation's rows pass through, as one text: its columns, including dropped ones, its triggers, checks and
 * index expressions, and whether it has rules, row-level security or a parent. Catalog rows are identified by the transactions
 * that wrote them. The function headgate.confirm() computes the same (functions/committing.sql). `c`: an alias of pg_class.
 */
export function versionSql(c: string): string {
  const rows = (of: string, alias: string, where: string) =>
    `(select pg_catalog.string_agg(pg_catalog.concat(${alias}, '/', ${of}.xmin), '.' order by ${alias}) ` +
    `from pg_catalog.${where})`;
  return `pg_catalog.concat_ws(' ', (
    select pg_catalog.string_agg(a.xmin::pg_catalog.text, '.' order by a.attnum) from pg_catalog.pg_attribute a
    where a.attrelid operator(pg_catalog.=) ${c}.oid and a.attnum operator(pg_catalog.>) 0),
    ${c}.relkind, ${c}.relhasrules, ${c}.relrowsecurity, ${c}.relispartition,
    case when ${c}.relchecks operator(pg_catalog.>) 0 then ${rows('k', 'k.oid', `pg_constraint k where k.conrelid operator(pg_catalog.=) ${c}.oid and k.contype operator(pg_catalog.=) 'c'`)} end,
    case when ${c}.relhastriggers then ${rows('t', 't.oid', `pg_trigger t where t.tgrelid operator(pg_catalog.=) ${c}.oid`)} end,
    case when ${c}.relhasindex then ${rows('i', 'i.indexrelid', `pg_index i where i.indrelid operator(pg_catalog.=) ${c}.oid and (i.indexprs is not null or i.indpred is not null)`)} end)`;
}

/** Types whose input runs code of their own: domains, and types that may contain one. */
const typeRunsCode = (type: string) => `exists (
      select from pg_catalog.pg_type y left join pg_catalog.pg_type e on e.oid operator(pg_catalog.=) y.typelem
      where y.oid operator(pg_catalog.=) ${type} and (
        y.oid operator(pg_catalog.>=) ${firstUserOid}::pg_catalog.oid and y.typtype not in ('b', 'e')
        or e.oid operator(pg_catalog.>=) ${firstUserOid}::pg_catalog.oid and e.typtype not in ('b', 'e')))`;

/** The same of the owner of a schema, who can rename it at any moment. `n`, `d`: aliases of pg_namespace and of the database's row in pg_database. */
export const schemaTrustedSql = (n: string, d: string): string =>
  trustedSql(
    `case when pg_catalog.pg_get_userbyid(${n}.nspowner) = 'pg_database_owner' then ${d}.datdba else ${n}.nspowner end`,
  );

/**
 * Whether a statement that names the types of the columns may mean others than these: their owner, or that of their schema, is a role whose
 * code must not run, and can rename them at any moment and put a domain in their place; no lock on the table prevents that. Or the role
 * `writer` cannot name them.
 */
const typeIsOthers = (c: string, writer: string): string => `exists (
      select from pg_catalog.pg_attribute a join pg_catalog.pg_type y on y.oid = a.atttypid
      join pg_catalog.pg_namespace n on n.oid = y.typnamespace
      join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
      where a.attrelid = ${c}.oid and a.attnum > 0 and not a.attisdropped and y.oid >= ${firstUserOid}::pg_catalog.oid
        and not (pg_catalog.has_schema_privilege(${writer}, n.oid, 'USAGE') and ${trustedSql('y.typowner')} and ${schemaTrustedSql('n', 'd')}))`;

/** Functions of PostgreSQL's own that are not immutable and run no user code. */
const harmless = `'now', 'statement_timestamp', 'transaction_timestamp', 'clock_timestamp', 'timeofday', 'random', 'gen_random_uuid', 'uuidv4', 'uuidv7',
            'txid_current', 'pg_current_xact_id', 'to_char', 'date', 'timestamp', 'timestamptz', 'timezone', 'date_trunc', 'date_part', 'extract', 'to_timestamp'`;

/** It is immutable, and evaluates expressions of a partitioned table that it is given the oid of: of anybody's. */
const notHarmless = `'satisfies_hash_partition'`;

/**
 * Nodes, in PostgreSQL 14 to 18, that run what they do not name, checks of domains (JSON_VALUE … RETURNING) and casts to json (JSON_OBJECT); or
 * that mean the role of the session (CURRENT_USER), which is the owner for an owner's own INSERT.
 */
const silentNodes = `array['%{JSONEXPR%', '%{JSONCONSTRUCTOREXPR%', ${[9, 10, 11, 12].map((op) => `'%{SQLVALUEFUNCTION :op ${op} %'`).join(', ')}]`;

/** A constant of type regclass, and a call of nextval() for one, as of SERIAL: the beginnings of their nodes. */
const regclassConstant = '[{]CONST :consttype 2205 ';
const nextvalOfConstant = `[{]FUNCEXPR :funcid 1574 [^{]*:args [(]${regclassConstant}`;

/** A type of a constant, or of a function's result, whose functions are its owner's: those of an index call subtype_diff of a range. */
const typesOfExpressions = (c: string): string => `exists (
      select from (
        select 'pg_catalog.pg_constraint'::pg_catalog.regclass as place, k.oid from pg_catalog.pg_constraint k
        where k.conrelid = ${c}.oid and k.conbin is not null
        union all
        select 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid from pg_catalog.pg_index i
        where i.indrelid = ${c}.oid and (i.indexprs is not null or i.indpred is not null)
      ) as e join pg_catalog.pg_depend p on p.classid = e.place and p.objid = e.oid and p.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
      where ${typeRunsCode('p.refobjid')})`;

/**
 * The default `d` without its calls of nextval(), whose sequences pg_depend has (inertSql looks at them): not those of a constant that stood for
 * no relation yet when the default was made, and may be anybody's sequence since.
 */
const withoutNextval = `case when (
          select pg_catalog.count(*) from pg_catalog.regexp_matches(d.adbin::pg_catalog.text, '${regclassConstant}', 'g')) = (
          select pg_catalog.count(distinct q.oid) from pg_catalog.pg_depend p join pg_catalog.pg_class q on q.oid = p.refobjid
          where p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.objid = d.oid
            and p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and q.relkind = 'S')
          then pg_catalog.regexp_replace(d.adbin::pg_catalog.text, '${nextvalOfConstant}', '', 'g') else d.adbin::pg_catalog.text end`;

/**
 * Whether storing a row runs nothing but functions of PostgreSQL's own that do only what they are called for, and the role `writer` (a name) may do that:
 * true for a plain table whose expressions call only such functions. `set_config` in a CHECK counts as code, and so does anything that cannot
 * be determined, and every trigger, those of foreign keys too. Defaults are printed, and parsed again with the rows: casts of user-defined types, which their owner may have
 * created since, count as code unless the whole default is a constant. What it gets wrong runs with the rights of `writer`.
 */
export function inertSql(c: string, writer: string): string {
  return `(${c}.relkind = 'r' and not ${c}.relhasrules and not ${c}.relrowsecurity and not ${c}.relispartition
    and not (${c}.relhastriggers and exists (select from pg_catalog.pg_trigger t where t.tgrelid = ${c}.oid and t.tgtype & 28::pg_catalog.int2 <> 0))
    and pg_catalog.has_schema_privilege(${writer}, ${c}.relnamespace, 'USAGE')
    and not exists (select from pg_catalog.pg_attribute a
      where a.attrelid = ${c}.oid and a.attnum > 0 and not a.attisdropped and ${typeRunsCode('a.atttypid')})
    and not exists (select from pg_catalog.pg_statistic_ext s where s.stxrelid = ${c}.oid and s.stxexprs is not null)
    and not ${typeIsOthers(c, writer)} and not ${typesOfExpressions(c)}
    and not exists (
      select from pg_catalog.pg_attrdef d join pg_catalog.pg_depend p on p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
        and p.objid = d.oid and p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
      join pg_catalog.pg_class q on q.oid = p.refobjid
      where d.adrelid = ${c}.oid and case when q.relkind = 'S' then not (pg_catalog.has_sequence_privilege(${writer}, q.oid, 'USAGE')
        and pg_catalog.has_sequence_privilege(${c}.relowner, q.oid, 'USAGE')) end)
    and not exists (
      select from pg_catalog.pg_attrdef d join pg_catalog.pg_depend p on p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
        and p.objid = d.oid and p.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
      where d.adrelid = ${c}.oid and d.adbin::pg_catalog.text !~ '^[{]CONST [^{]*$')
    and not exists (
      select from (
        select ${withoutNextval} as tree
        from pg_catalog.pg_attrdef d where d.adrelid = ${c}.oid
        union all
        select k.conbin::pg_catalog.text from pg_catalog.pg_constraint k where k.conrelid = ${c}.oid and k.conbin is not null
        union all
        select pg_catalog.concat(i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text)
        from pg_catalog.pg_index i where i.indrelid = ${c}.oid
      ) as e
      left join lateral pg_catalog.regexp_matches(e.tree, ':(funcid|opfuncid|resulttype|elemfuncid) ([0-9]+)', 'g') as m on true
      left join pg_catalog.pg_proc p on p.oid = m[2]::pg_catalog.oid
      where case when e.tree like any (${silentNodes}) then true when m is null then false
        when m[1] = 'resulttype' then m[2]::pg_catalog.int8 >= ${firstUserOid}
        when p.oid is null then true
        else p.oid >= ${firstUserOid}::pg_catalog.oid or p.proname in (${notHarmless}) or not (p.provolatile = 'i'
          or p.proname in (${harmless})
          or p.proname ~ '^(timestamptz|timestamp|date|timetz|time|interval)_') end))`;
}
