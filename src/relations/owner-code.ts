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
 * Whether Headgate's role (`me`, an alias of pg_roles) can have sessions of the role `owner`: it may make a login that is a member of that role,
 * as superusers and, before version 16, roles with CREATEROLE may; or somebody has made it.
 */
export function loginableSql(owner: string, me: string): string {
  return `(${me}.rolsuper or exists (
      select from pg_catalog.pg_roles h join pg_catalog.pg_auth_members m on m.member operator(pg_catalog.=) h.oid
      where pg_catalog.starts_with(h.rolname, '${ownerLoginPrefix}') and m.roleid operator(pg_catalog.=) ${owner})
    or ${me}.rolcreaterole and not (select r.rolsuper from pg_catalog.pg_roles r where r.oid operator(pg_catalog.=) ${owner})
      and (pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.<) 160000
        or pg_catalog.pg_has_role(${me}.oid, ${owner}, 'MEMBER WITH ADMIN OPTION')))`;
}

/** The foreign keys from and to the relation `v` (an oid), some twice: by pg_depend, since nothing indexes pg_constraint by confrelid. `s`: its row of pg_class. */
const joiningSql = (v: string, s: string): string => `(
    select f.* from pg_catalog.pg_depend d cross join lateral (
      select k.* from pg_catalog.pg_constraint k where k.oid operator(pg_catalog.=) d.objid offset 0) as f
    where ${s}.relhastriggers and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid operator(pg_catalog.=) ${v}
      and d.classid operator(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass and f.contype operator(pg_catalog.=) 'f')`;

/**
 * A query for the oids of all relations whose code a row of `relation` may run, and whether foreign keys join them: its partitions and child tables, or the tables that it is a
 * partition of; the relations behind an automatically updatable view; tables whose rows change with a deleted or changed one; and those that foreign keys look
 * up. PostgreSQL does the lookup as the owner of such a table, and planning it runs that owner's code (an expression in CREATE STATISTICS is enough); a cursor or a
 * deferred trigger that this code leaves behind runs at COMMIT with the rights of the session.
 */
export const relatedSql = (relation: string): string => `
  (with recursive involved (oid) as (
    select ${relation}
    union
    select found.oid from involved v join pg_catalog.pg_class s on s.oid operator(pg_catalog.=) v.oid
    cross join lateral (
      select i.inhrelid as oid from pg_catalog.pg_inherits i where s.relhassubclass and i.inhparent operator(pg_catalog.=) v.oid
      union all
      select i.inhparent from pg_catalog.pg_inherits i where s.relispartition and i.inhrelid operator(pg_catalog.=) v.oid
      union all
      select k.conrelid from ${joiningSql('v.oid', 's')} as k where k.confrelid operator(pg_catalog.=) v.oid
        and array[k.confdeltype, k.confupdtype] operator(pg_catalog.&&) array['c', 'n', 'd']::pg_catalog."char"[] -- CASCADE, SET NULL, SET DEFAULT
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
  select v.oid, false as is_joined from involved v
  union
  select pg_catalog.unnest(array[k.conrelid, k.confrelid]), true from involved v join pg_catalog.pg_class s on s.oid operator(pg_catalog.=) v.oid
  cross join lateral ${joiningSql('v.oid', 's')} as k)`;

/**
 * A query for what runs code of roles that could not act as the session's when `relation` (an expression for an oid) is read, as `what` and `owner`: the relation itself,
 * what a view or a policy reads and calls, and partitions, child tables, and the table that it is a partition of. Planning the reading of a table is enough.
 * If there is none, only roles that are trusted can change that. A materialized view is read, and its query is not run.
 */
export const othersCodeSql = (relation: string): string => `
  with recursive reads (place, oid) as (
    select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, ${relation}
    union
    select found.place, found.oid from reads v join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) v.oid
    cross join lateral (
      select c.tableoid as place, i.inhrelid as oid from pg_catalog.pg_inherits i where i.inhparent operator(pg_catalog.=) c.oid
      union all
      select c.tableoid, i.inhparent from pg_catalog.pg_inherits i where c.relispartition and i.inhrelid operator(pg_catalog.=) c.oid
      union all
      select d.refclassid, d.refobjid from (
        select w.tableoid as place, w.oid from pg_catalog.pg_rewrite w
        where c.relkind operator(pg_catalog.=) 'v' and w.ev_class operator(pg_catalog.=) c.oid and w.ev_type operator(pg_catalog.=) '1'
        union all
        select p.tableoid, p.oid from pg_catalog.pg_policy p where p.polrelid operator(pg_catalog.=) c.oid
      ) as r join pg_catalog.pg_depend d on d.classid operator(pg_catalog.=) r.place and d.objid operator(pg_catalog.=) r.oid
    ) as found
    where v.place operator(pg_catalog.=) c.tableoid
  )
  select it.type operator(pg_catalog.||) ' ' operator(pg_catalog.||) it.identity as what, pg_catalog.pg_get_userbyid(o.owner)::pg_catalog.text as owner
  from (
    select r.place, c.oid, c.relowner as owner from reads r join pg_catalog.pg_class c on c.tableoid operator(pg_catalog.=) r.place and c.oid operator(pg_catalog.=) r.oid
    union all
    select r.place, p.oid, p.proowner from reads r join pg_catalog.pg_proc p on p.tableoid operator(pg_catalog.=) r.place and p.oid operator(pg_catalog.=) r.oid
    union all
    select r.place, x.oid, x.oprowner from reads r join pg_catalog.pg_operator x on x.tableoid operator(pg_catalog.=) r.place and x.oid operator(pg_catalog.=) r.oid
  ) as o cross join lateral pg_catalog.pg_identify_object(o.place, o.oid, 0) as it
  where not ${trustedSql('o.owner')}
  order by o.oid operator(pg_catalog.<>) ${relation}, 1`;

/** Of what many relations have none: `each` of whether `c`, a row of pg_class, has any, and the versions of those that count. */
function ofParts(c: string, each: (has: string, versions: string) => string): string[] {
  const part = (has: string, from: string, of: string, id: string, counts: string) =>
    each(
      `${c}.${has}`,
      `(select pg_catalog.string_agg(pg_catalog.concat(p.${id}, '/', p.xmin), '.' order by p.${id})
      from pg_catalog.${from} p where p.${of} operator(pg_catalog.=) ${c}.oid and ${counts})`,
    );
  const checks = `p.contype operator(pg_catalog.=) 'c'`;
  return [
    part('relchecks operator(pg_catalog.>) 0', 'pg_constraint', 'conrelid', 'oid', checks),
    part('relhastriggers', 'pg_trigger', 'tgrelid', 'oid', 'true'),
    part(
      'relhasindex',
      'pg_index',
      'indrelid',
      'indexrelid',
      '(p.indexprs is not null or p.indpred is not null)',
    ),
  ];
}

const tableVersion = (c: string): string => `(
    select pg_catalog.string_agg(a.xmin::pg_catalog.text, '.' order by a.attnum) from pg_catalog.pg_attribute a
    where a.attrelid operator(pg_catalog.=) ${c}.oid and a.attnum operator(pg_catalog.>) 0),
    ${c}.relkind, ${c}.relhasrules, ${c}.relrowsecurity, ${c}.relispartition`;

/**
 * The version of what a relation's rows pass through, as one text: its columns, including dropped ones, its triggers, checks and
 * index expressions, and whether it has rules, row-level security or a parent. Catalog rows are identified by the transactions
 * that wrote them. `c`: an alias of pg_class.
 */
export function versionSql(c: string): string {
  const all = [tableVersion(c), ...ofParts(c, (has, versions) => `case when ${has} then ${versions} end`)];
  return `pg_catalog.concat_ws(' ', ${all.join(',\n    ')})`;
}

/**
 * The functions confirm and stays of a schema: is a table still the one that its requests were checked and written for? `known`: what else is asked of
 * `c`, its row of pg_class. Each part is a query of its own: most tables have few, and the engine prepares for all that one query might read. confirm is volatile,
 * so that it sees what is committed when it is called: the calling statement may have waited for a lock, and its own snapshot is older. stays is evaluated when a
 * statement is planned: not immutable, but declared so, so that the plan keeps its result. That is correct in a statement that also writes into the relation:
 * PostgreSQL discards the plan when anything about that relation has changed, and a session that holds a lock on it has been told of all changes.
 */
export const confirmFunctions = (schema: string, known: string): string => `
create or replace function ${schema}.confirm(relation_name text, relation oid, mark text, owner oid) returns void
language plpgsql as $body$
declare
  it pg_catalog.pg_class;
  version text;
begin
  select c.* into it from pg_catalog.pg_class c
  where c.oid operator(pg_catalog.=) confirm.relation and c.relowner operator(pg_catalog.=) confirm.owner${known};
  version := pg_catalog.concat_ws(' ', ${tableVersion('it')});
  ${ofParts('it', (has, of) => `if ${has} then version := pg_catalog.concat_ws(' ', version, ${of}); end if;`).join('\n  ')}
  if (it.oid operator(pg_catalog.=) relation and pg_catalog.to_regclass(relation_name) operator(pg_catalog.=) relation
    and version operator(pg_catalog.=) mark) is not true
  then
    raise exception using errcode = 'HG001', message = 'the table has changed since the request was checked';
  end if;
end $body$;
create or replace function ${schema}.stays(relation_name text, relation oid, mark text, owner oid) returns boolean
language plpgsql immutable as $body$
begin
  perform ${schema}.confirm(relation_name, relation, mark, owner);
  return true;
end $body$;`;

/** Whether the same is true of the owner of a schema, who can rename it at any moment. `n`: an alias of pg_namespace. `public` belongs, by way of a role, to the owner of the database. */
export const schemaTrustedSql = (n: string): string =>
  trustedSql(`case when pg_catalog.pg_get_userbyid(${n}.nspowner) operator(pg_catalog.<>) 'pg_database_owner' then ${n}.nspowner
    else (select d.datdba from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database()) end`);

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

/** Whether the expression `e` of a part names a function, other than nextval(), that is a user's or does more than it is called for. */
const callsCode = `exists (
        select from pg_catalog.regexp_matches(e.tree, ':(?:funcid|opfuncid|elemfuncid) ([0-9]+)', 'g') as m
        left join pg_catalog.pg_proc p on p.oid = m[1]::pg_catalog.oid
        where (p.oid < ${firstUserOid}::pg_catalog.oid and p.proname not in (${notHarmless}) and (p.provolatile = 'i' or p.oid = 1574
          or p.proname in (${harmless}) or p.proname ~ '^(timestamptz|timestamp|date|timetz|time|interval)_')) is not true)`;

/**
 * Whether the default `e` calls nextval() for anything but one constant whose sequence, which pg_depend has, the role `writer` and the owner may use. A constant that
 * stood for no relation yet when the default was made may be anybody's sequence since.
 */
const countsOthers = (c: string, writer: string): string => `e.tree like '%:funcid 1574 %' and (
        e.tree ~ '^(?!.*:funcid 1574 .*:funcid 1574 )(?!.*:consttype 2205 .*:consttype 2205 ).*[{]FUNCEXPR :funcid 1574 [^{]*:args [(][{]CONST :consttype 2205 ' and (
          select pg_catalog.bool_and(pg_catalog.has_sequence_privilege(${writer}, q.oid, 'USAGE') and pg_catalog.has_sequence_privilege(${c}.relowner, q.oid, 'USAGE'))
          from pg_catalog.pg_depend p join pg_catalog.pg_class q on q.oid = p.refobjid and q.relkind = 'S'
          where p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and p.classid = e.place and p.objid = e.id
            and p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass)) is not true`;

/**
 * Whether a part depends on a type of users that is anything but a base type, an enum or an array of these, which run no code of the table's owner; or that
 * the role `writer` cannot name; or that is, with its schema, not of a role that could act as Headgate's: others can rename it and put a domain in its
 * place, give it casts, or give a range functions that an index calls, and no lock on the table prevents that.
 */
const usesTypeWithCode = (writer: string): string => `exists (
        select from pg_catalog.pg_depend p join pg_catalog.pg_type y on y.oid = p.refobjid
        left join pg_catalog.pg_type t on t.oid = y.typelem join pg_catalog.pg_namespace n on n.oid = y.typnamespace
        where p.classid = e.place and p.objid = e.id and p.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
          and not (y.typtype in ('b', 'e') and coalesce(t.typtype, 'b') in ('b', 'e') and pg_catalog.has_schema_privilege(${writer}, n.oid, 'USAGE')
            and ${trustedSql('y.typowner')} and ${schemaTrustedSql('n')}))`;

/**
 * Whether storing a row runs nothing but functions of PostgreSQL's own that do only what they are called for, and the role `writer` (a name) may do that:
 * true for a plain table whose parts (columns, defaults, constraints, indexes) name nothing else. `set_config` in a CHECK counts as code, and so does anything that
 * cannot be determined, and every trigger, those of foreign keys too. What it gets wrong runs with the rights of `writer`.
 */
export function inertSql(c: string, writer: string): string {
  return `(${c}.relkind = 'r' and not ${c}.relhasrules and not ${c}.relrowsecurity and not ${c}.relispartition
    and not (${c}.relhastriggers and exists (select from pg_catalog.pg_trigger t where t.tgrelid = ${c}.oid and t.tgtype & 28::pg_catalog.int2 <> 0))
    and pg_catalog.has_schema_privilege(${writer}, ${c}.relnamespace, 'USAGE')
    and not exists (select from pg_catalog.pg_statistic_ext s where s.stxrelid = ${c}.oid and s.stxexprs is not null)
    and not exists (
      select from (
        select 'pg_catalog.pg_class'::pg_catalog.regclass as place, ${c}.oid as id, null as tree
        union all
        select 'pg_catalog.pg_attrdef'::pg_catalog.regclass, d.oid, d.adbin::pg_catalog.text from pg_catalog.pg_attrdef d where d.adrelid = ${c}.oid
        union all
        select 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid, k.conbin::pg_catalog.text
        from pg_catalog.pg_constraint k where k.conrelid = ${c}.oid and k.conbin is not null
        union all
        select 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid, pg_catalog.concat(i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text)
        from pg_catalog.pg_index i where i.indrelid = ${c}.oid
      ) as e (place, id, tree)
      where e.tree like any (${silentNodes}) or ${callsCode} or ${countsOthers(c, writer)} or ${usesTypeWithCode(writer)}))`;
}

/** The function that says, when a webhook table is made, whether its rows run code of an owner for whom Headgate's role, which owns the catalog, cannot log in. */
export const lacksLoginFunction = `
create or replace function headgate.lacks_login(relation oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $body$
  select not (${loginableSql('c.relowner', 'me')} or pg_has_role(c.relowner, me.oid, 'MEMBER') or ${inertSql('c', 'me.rolname')})
  from pg_class c, pg_class h join pg_roles me on me.oid = h.relowner
  where c.oid = lacks_login.relation and h.oid = 'headgate.webhook_table'::regclass
$body$;`;
