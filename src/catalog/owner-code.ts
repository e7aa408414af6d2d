/**
 * Whose code runs when rows are stored in a relation, as SQL over PostgreSQL's own catalog: triggers, defaults, checks,
 * domains, generated columns, index expressions, policies and rules are their owner's code. Texts only; every name is
 * qualified, so that they mean the same under any search_path. On PostgreSQL 14 to 18, with the schema `headgate` or without.
 */

/** The first oid of what users make: everything below is PostgreSQL's own (FirstNormalObjectId). */
const firstUserOid = 16_384;

/** What says that a role can become another: SET ROLE, which versions before 16 allow to every member. */
const becomes =
  `case when pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.>=) 160000 ` +
  `then 'SET' else 'MEMBER' end`;

/**
 * Whether the role `owner` (an oid) could do all that Headgate's role can: it is that role, a superuser, or can become it.
 * Its code may run in Headgate's session, and then RESET ROLE leads to the role that logged in: asked of both, and inside a
 * function of another role of the latter.
 */
export function trustedSql(owner: string, roles: 'both' | 'session_user' = 'both'): string {
  const trusts = (role: string) => `pg_catalog.pg_has_role(${owner}, ${role}, ${becomes})`;
  if (roles === 'session_user') return trusts('session_user');
  return `(${trusts('current_user')} and (current_user operator(pg_catalog.=) session_user or ${trusts('session_user')}))`;
}

/** Whether Headgate's role can become the role `owner`, and make things. */
export function assumableSql(owner: string): string {
  return (
    `(pg_catalog.pg_has_role(${owner}, ${becomes}) and ` +
    `pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'))`
  );
}

/** CASCADE, SET NULL, SET DEFAULT */
const passedOn = `array['c', 'n', 'd']::pg_catalog."char"[]`;

/** When rows change others by a foreign key: requests change or delete rows only of a table with a primary key. */
type Changes = 'keyed' | 'always';

const changed = (relation: string, changes: Changes): string =>
  changes === 'always'
    ? 'true'
    : `(v.oid operator(pg_catalog.<>) ${relation} or exists (
          select from pg_catalog.pg_index p where p.indrelid operator(pg_catalog.=) v.oid and p.indisprimary))`;

/**
 * From PostgreSQL 18 on whatever a foreign key changes elsewhere runs, triggers behind the statement too, with the rights of that table's owner, as what it looks
 * into does: it takes no part then in a function of the owner of the first.
 */
const withOwnRights = `pg_catalog.current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.>=) 180000`;

/**
 * A query for the oids of all relations whose code a row of `relation` may run: its partitions and tables that inherit from it, or the
 * table it is one of; what a view that PostgreSQL updates by itself shows; and tables whose rows change with a deleted or changed one.
 * `inFunction`: with the rights of the owner of `relation`.
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
    cross join lateral (
      select i.inhrelid as oid from pg_catalog.pg_inherits i
      where s.relhassubclass and i.inhparent operator(pg_catalog.=) v.oid
      union all
      select i.inhparent from pg_catalog.pg_inherits i where s.relispartition and i.inhrelid operator(pg_catalog.=) v.oid
      union all
      select k.conrelid from pg_catalog.pg_constraint k
      where s.relhastriggers and k.confrelid operator(pg_catalog.=) v.oid and k.contype operator(pg_catalog.=) 'f'
        and (k.confdeltype operator(pg_catalog.=) any (${passedOn}) or k.confupdtype operator(pg_catalog.=) any (${passedOn})) and ${passes}
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
  select oid from involved`;
}

/**
 * Those, and the tables that foreign keys of theirs look into. PostgreSQL looks as the owner of such a table, and planning that runs his code (an expression of
 * CREATE STATISTICS is enough); a cursor or a deferred trigger that it leaves runs at COMMIT with the rights of the session. Whether there are
 * triggers is looked up one by one, as in ownersSql.
 */
export function lookedIntoSql(relation: string, changes: Changes): string {
  return `
  with involved as (${involvedSql(relation, changes)})
  select v.oid from involved v
  union
  select pg_catalog.unnest(array[k.conrelid, k.confrelid]) from involved v
  cross join lateral (
    select from pg_catalog.pg_class s where s.oid operator(pg_catalog.=) v.oid and s.relhastriggers offset 0) as s
  join pg_catalog.pg_constraint k on k.contype operator(pg_catalog.=) 'f'
    and (k.conrelid operator(pg_catalog.=) v.oid or k.confrelid operator(pg_catalog.=) v.oid and ${changed(relation, changes)})`;
}

/**
 * A query for the owners of the relations of `oids`, each once, with what they are called. They are looked up one by one: behind a
 * condition on the owner PostgreSQL would read all relations of the database instead, for each table that it asks about.
 */
export function ownersSql(oids: string): string {
  return `select distinct c.relowner, pg_catalog.pg_get_userbyid(c.relowner) as name
  from (${oids}) as v cross join lateral (
    select s.relowner from pg_catalog.pg_class s where s.oid operator(pg_catalog.=) v.oid offset 0) as c`;
}

/**
 * The version of what a relation's rows run through, as one text: its columns, dropped ones too, and whatever of triggers,
 * checks, rules, policies and index expressions there is. Rows of the catalog are told by the transactions that wrote them.
 * The function headgate.confirm() computes the same (functions/committing.sql). `c`: an alias of pg_class.
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

/** Types whose values run code of their own when they are read: domains, and what may hold one. */
const typeRunsCode = (type: string) => `exists (
      select from pg_catalog.pg_type y left join pg_catalog.pg_type e on e.oid operator(pg_catalog.=) y.typelem
      where y.oid operator(pg_catalog.=) ${type} and (
        y.oid operator(pg_catalog.>=) ${firstUserOid}::pg_catalog.oid and y.typtype not in ('b', 'e')
        or e.oid operator(pg_catalog.>=) ${firstUserOid}::pg_catalog.oid and e.typtype not in ('b', 'e')))`;

/** Functions of PostgreSQL's own that are not immutable and run nobody's code. */
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

/** Of PostgreSQL 14 to 18 the nodes that run what they do not name: checks of domains (JSON_VALUE … RETURNING), and casts to json (JSON_OBJECT). */
const silentNodes = `array['%{JSONEXPR%', '%{JSONCONSTRUCTOREXPR%']`;

/**
 * Whether storing a row runs nothing but functions of PostgreSQL's own that do only what they are called for: true for a
 * plain table whose expressions call such functions alone. `set_config` in a CHECK is code; what cannot be told is code too. Defaults are printed and
 * read again with the rows: casts of somebody's types, which he may have made since, are code unless the whole of it is a constant.
 */
export function inertSql(c: string): string {
  return `(${c}.relkind = 'r' and not ${c}.relhasrules and not ${c}.relrowsecurity and not ${c}.relispartition
    and not exists (select from pg_catalog.pg_trigger t where t.tgrelid = ${c}.oid and not t.tgisinternal)
    and not exists (select from pg_catalog.pg_attribute a
      where a.attrelid = ${c}.oid and a.attnum > 0 and not a.attisdropped and ${typeRunsCode('a.atttypid')})
    and not exists (select from pg_catalog.pg_statistic_ext s where s.stxrelid = ${c}.oid and s.stxexprs is not null)
    and case when ${c}.relhastriggers then ${plainForeignKeysSql(c)} else true end
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

/**
 * Both sides of a foreign key have triggers: only of relations that have some is this asked, because it reads all constraints of
 * the database.
 */
function plainForeignKeysSql(c: string): string {
  return `not exists (select from pg_catalog.pg_constraint k join pg_catalog.pg_attribute a
        on a.attrelid = k.conrelid and a.attnum = any (k.conkey) or a.attrelid = k.confrelid and a.attnum = any (k.confkey)
        where k.contype = 'f' and (k.conrelid = ${c}.oid or k.confrelid = ${c}.oid) and a.atttypid >= ${firstUserOid}::pg_catalog.oid)
      and not exists (select from pg_catalog.pg_constraint k
        where k.contype = 'f' and k.confrelid = ${c}.oid and (k.confdeltype = any (${passedOn}) or k.confupdtype = any (${passedOn})))
      and not exists (select from (${ownersSql(lookedIntoSql(`${c}.oid`, 'keyed'))}) as o where not ${trustedSql('o.relowner')})`;
}

/**
 * Whether this trigger (an alias of pg_trigger) may run somebody's code at COMMIT, behind everything that holds it to its
 * owner's rights. Those of foreign keys and unique constraints run PostgreSQL's own, unless types or expressions are not.
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
