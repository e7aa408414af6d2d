/**
 * Whose code runs when rows are stored in a relation, as SQL over PostgreSQL's own catalog: triggers, defaults, checks,
 * domains, generated columns, index expressions, policies and rules are their owner's code. Texts only; every name is
 * qualified, so that they mean the same under any search_path. For PostgreSQL 14 to 18, with or without the schema `headgate`.
 */

/** The first oid of user-defined objects: everything below is PostgreSQL's own (FirstNormalObjectId). */
const firstUserOid = 16_384;

/** The privilege that lets a role become another by SET ROLE, which versions before 16 allow to every member. */
const becomes =
  `case when pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.>=) 160000 ` +
  `then 'SET' else 'MEMBER' end`;

/**
 * Whether the role `owner` (an oid) could do all that Headgate's role can: it is that role, a superuser, or can become it.
 * Its code may run in Headgate's session, where RESET ROLE leads back to the role that logged in: so both roles are
 * checked, and inside a function of another role only the latter.
 */
export function trustedSql(owner: string, roles: 'both' | 'session_user' = 'both'): string {
  const trusts = (role: string) => `pg_catalog.pg_has_role(${owner}, ${role}, ${becomes})`;
  if (roles === 'session_user') return trusts('session_user');
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

/** Whether Headgate's role can become the role `owner`, and may create schemas in the database. */
export function assumableSql(owner: string): string {
  return (
    `(pg_catalog.pg_has_role(${owner}, ${becomes}) and ` +
    `pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'))`
  );
}

/** CASCADE, SET NULL, SET DEFAULT */
const passedOn = `array['c', 'n', 'd']::pg_catalog."char"[]`;

/** When rows change other rows by a foreign key: requests change or delete rows only of a table with a primary key. */
type Changes = 'keyed' | 'always';

const changed = (relation: string, changes: Changes): string =>
  changes === 'always'
    ? 'true'
    : `(v.oid operator(pg_catalog.<>) ${relation} or exists (
          select from pg_catalog.pg_index p where p.indrelid operator(pg_catalog.=) v.oid and p.indisprimary))`;

/**
 * From PostgreSQL 18 on, everything that a foreign key changes in another table runs with the rights of that table's owner,
 * triggers after the statement included, as its lookups do: that table then takes no part in a function of the first table's owner.
 */
export const withOwnRights = `pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.>=) 180000`;

/** The foreign keys that refer to the relation `v` (an oid), some twice. Nothing indexes pg_constraint by confrelid: without pg_depend each look reads all of it. */
export const referringSql = (v: string): string => `
    select k.* from pg_catalog.pg_depend d cross join lateral (
      select f.* from pg_catalog.pg_constraint f where f.oid operator(pg_catalog.=) d.objid offset 0) as k
    where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid operator(pg_catalog.=) ${v}
      and d.classid operator(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
      and k.contype operator(pg_catalog.=) 'f' and k.confrelid operator(pg_catalog.=) ${v}`;

/** Whether rows of `k`, a foreign key, change with those that they refer to. */
const cascadesSql = (k: string): string =>
  `(${k}.confdeltype operator(pg_catalog.=) any (${passedOn}) or ${k}.confupdtype operator(pg_catalog.=) any (${passedOn}))`;

/**
 * The relations, as `oid`, whose code a row of the relation `v` (an oid) may run next: its partitions and child tables, or the tables that it
 * is a partition of; the relations behind an automatically updatable view; and, as `cascades`, tables whose rows change with a deleted or
 * changed one, if `passes`. `s`: an alias of pg_class for `v`.
 */
export const nextSql = (v: string, s: string, passes: string): string => `
      select i.inhrelid as oid, false as cascades from pg_catalog.pg_inherits i
      where ${s}.relhassubclass and i.inhparent operator(pg_catalog.=) ${v}
      union all
      select i.inhparent, false from pg_catalog.pg_inherits i where ${s}.relispartition and i.inhrelid operator(pg_catalog.=) ${v}
      union all
      select k.conrelid, true from (${referringSql(v)}) as k where ${s}.relhastriggers and ${cascadesSql('k')} and ${passes}
      union all
      select d.refobjid, false from pg_catalog.pg_rewrite w join pg_catalog.pg_depend d
        on d.classid operator(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid operator(pg_catalog.=) w.oid
      where ${s}.relkind operator(pg_catalog.=) 'v' and w.ev_class operator(pg_catalog.=) ${v}
        and w.ev_type operator(pg_catalog.=) '1' and not exists (
          select from pg_catalog.pg_trigger t where t.tgrelid operator(pg_catalog.=) ${v}
            and t.tgtype operator(pg_catalog.&) 68::pg_catalog.int2 operator(pg_catalog.=) 68)
        and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass`;

/**
 * A query for the oids of all relations whose code a row of `relation` may run. `inFunction`: only those whose code runs with the rights of the
 * owner of `relation`. For many relations at once: reach.ts.
 */
export function involvedSql(relation: string, changes: Changes | 'inFunction'): string {
  const passes =
    changes === 'inFunction'
      ? `not ${withOwnRights} and ${changed(relation, 'keyed')}`
      : changed(relation, changes);
  return `
  with recursive involved (oid) as (
    select ${relation}
    union
    select found.oid from involved v join pg_catalog.pg_class s on s.oid operator(pg_catalog.=) v.oid
    cross join lateral (${nextSql('v.oid', 's', passes)}
    ) as found
  )
  select oid from involved`;
}

/**
 * As involvedSql, with the tables that foreign keys look up. PostgreSQL does the lookup as the owner of such a table, and planning it runs
 * that owner's code (an expression in CREATE STATISTICS is enough); a cursor or a deferred trigger that this code leaves behind runs at COMMIT
 * with the rights of the session. Whether there are triggers is looked up one by one, as in ownersSql.
 */
export function lookedIntoSql(relation: string, changes: Changes): string {
  return `
  with involved as (${involvedSql(relation, changes)})
  select v.oid from involved v
  union
  select pg_catalog.unnest(array[k.conrelid, k.confrelid]) from ${keysSql(relation, changes)}`;
}

/** Foreign keys of the relations in `involved`. */
const keysSql = (relation: string, changes: Changes): string => `involved v
  cross join lateral (
    select from pg_catalog.pg_class s where s.oid operator(pg_catalog.=) v.oid and s.relhastriggers offset 0) as s
  join pg_catalog.pg_constraint k on k.contype operator(pg_catalog.=) 'f'
    and (k.conrelid operator(pg_catalog.=) v.oid or k.confrelid operator(pg_catalog.=) v.oid and ${changed(relation, changes)})`;

/** Whether a foreign key makes a row of `relation` look into another table, whose owner no lock on this one holds. For many: reach.ts. */
export function joinedSql(relation: string, changes: Changes): string {
  return `exists (
    with involved as (${involvedSql(relation, changes)})
    select from ${keysSql(relation, changes)}
    where k.conrelid operator(pg_catalog.<>) k.confrelid)`;
}

/** The same question as lookedIntoSql's about a table that runs no code of its own, and passes nothing on, and much quicker to plan. */
export function joinsTrustedSql(relation: string): string {
  return `not exists (
    select from pg_catalog.pg_constraint k join pg_catalog.pg_class r on r.oid operator(pg_catalog.=) k.conrelid or r.oid operator(pg_catalog.=) k.confrelid
    where k.contype operator(pg_catalog.=) 'f' and (k.conrelid operator(pg_catalog.=) ${relation} or k.confrelid operator(pg_catalog.=) ${relation})
      and not ${trustedSql('r.relowner')})`;
}

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

/**
 * Whether a statement that names the types of the columns may mean others than these: their owner, or that of their schema, is a role whose
 * code must not run, and can rename them at any moment and put a domain in their place. No lock on the table prevents that.
 */
export function renamableSql(c: string): string {
  return `exists (
      select from pg_catalog.pg_attribute a join pg_catalog.pg_type y on y.oid operator(pg_catalog.=) a.atttypid
      join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) y.typnamespace
      join pg_catalog.pg_database d on d.datname operator(pg_catalog.=) pg_catalog.current_database()
      where a.attrelid operator(pg_catalog.=) ${c}.oid and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
        and y.oid operator(pg_catalog.>=) ${firstUserOid}::pg_catalog.oid
        and not (${trustedSql('y.typowner')} and ${trustedSql(
          `case when pg_catalog.pg_get_userbyid(n.nspowner) operator(pg_catalog.=) 'pg_database_owner' then d.datdba else n.nspowner end`,
        )}))`;
}

/** Functions of PostgreSQL's own that are not immutable and run no user code. */
const harmless = [
  'now',
  'statement_timestamp',
  'transaction_timestamp',
  'clock_timestamp',
  'timeofday',
  'random',
  'gen_random_uuid',
  'uuidv4',
  'uuidv7',
  'nextval',
  'txid_current',
  'pg_current_xact_id',
  'to_char',
  'date',
  'timestamp',
  'timestamptz',
  'timezone',
  'date_trunc',
  'date_part',
  'extract',
  'to_timestamp',
];

/**
 * Nodes, in PostgreSQL 14 to 18, that run what they do not name: checks of domains (JSON_VALUE … RETURNING), casts to
 * json (JSON_OBJECT).
 */
const silentNodes = `array['%{JSONEXPR%', '%{JSONCONSTRUCTOREXPR%']`;

/**
 * Whether storing a row runs nothing but functions of PostgreSQL's own that do only what they are called for: true for a plain
 * table whose expressions call only such functions. `set_config` in a CHECK counts as code, and so does anything that cannot be
 * determined. Defaults are printed, and parsed again with the rows: casts of user-defined types, which their owner may have created
 * since, count as code unless the whole default is a constant. `outsider`: see CodeRow.
 */
export function inertSql(c: string, outsider: string): string {
  return `(${c}.relkind = 'r' and not ${c}.relhasrules and not ${c}.relrowsecurity and not ${c}.relispartition
    and not exists (select from pg_catalog.pg_trigger t where t.tgrelid = ${c}.oid and not t.tgisinternal)
    and not exists (select from pg_catalog.pg_attribute a
      where a.attrelid = ${c}.oid and a.attnum > 0 and not a.attisdropped and ${typeRunsCode('a.atttypid')})
    and not exists (select from pg_catalog.pg_statistic_ext s where s.stxrelid = ${c}.oid and s.stxexprs is not null)
    and case when ${c}.relhastriggers then ${outsider} is null and ${plainForeignKeysSql(c)} else true end
    and not exists (
      select from pg_catalog.pg_attrdef d join pg_catalog.pg_depend p on p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
        and p.objid = d.oid and p.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
      where d.adrelid = ${c}.oid and d.adbin::pg_catalog.text !~ '^[{]CONST [^{]*$')
    and not exists (
      select from (
        select d.adbin::pg_catalog.text as tree from pg_catalog.pg_attrdef d where d.adrelid = ${c}.oid
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
        else p.oid >= ${firstUserOid}::pg_catalog.oid or not (p.provolatile = 'i'
          or p.proname in (${harmless.map((name) => `'${name}'`).join(', ')})
          or p.proname ~ '^(timestamptz|timestamp|date|timetz|time|interval)_') end))`;
}

/** Evaluated only for relations that have triggers, as both sides of a foreign key do. */
function plainForeignKeysSql(c: string): string {
  return `not exists (select from (
        select k.* from pg_catalog.pg_constraint k where k.conrelid = ${c}.oid and k.contype = 'f' union all ${referringSql(`${c}.oid`)}
      ) as k join pg_catalog.pg_attribute a
        on a.attrelid = k.conrelid and a.attnum = any (k.conkey) or a.attrelid = k.confrelid and a.attnum = any (k.confkey)
        where a.atttypid >= ${firstUserOid}::pg_catalog.oid)
      and not exists (select from (${referringSql(`${c}.oid`)}) as k where ${cascadesSql('k')})`;
}

/**
 * Whether this trigger (an alias of pg_trigger) may run a user's code at COMMIT, outside of everything that confines it to its owner's
 * rights. Those of foreign keys and unique constraints run PostgreSQL's own code, unless types or expressions are user-defined.
 */
export function lateCodeSql(t: string): string {
  return `(${t}.tgdeferrable and not exists (
      select from pg_catalog.pg_constraint k where k.oid operator(pg_catalog.=) ${t}.tgconstraint and case
        when k.contype operator(pg_catalog.=) 'f' then not exists (
          select from pg_catalog.pg_attribute a
          where (a.attrelid operator(pg_catalog.=) k.conrelid and a.attnum operator(pg_catalog.=) any (k.conkey)
              or a.attrelid operator(pg_catalog.=) k.confrelid and a.attnum operator(pg_catalog.=) any (k.confkey))
            and a.atttypid operator(pg_catalog.>=) ${firstUserOid}::pg_catalog.oid)
        when k.contype operator(pg_catalog.=) any (array['u', 'p', 'x']::pg_catalog."char"[]) then not exists (
          select from pg_catalog.pg_index i where i.indexrelid operator(pg_catalog.=) k.conindid
            and (i.indexprs is not null or i.indpred is not null))
        else false end))`;
}
