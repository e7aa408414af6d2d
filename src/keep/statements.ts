/**
 * The statements of the keep room. Every name means PostgreSQL's own: they run with search_path = pg_catalog, pg_temp, in
 * transactions that set this themselves, because a pooler may lend a session to others.
 */
import { holdCodeBlock } from '../relations/lock-code.ts';
import { trustedSql } from '../relations/owner-code.ts';
import {
  namesAsParsed,
  quoteIdentifier as quote,
  quoteLiteral,
  stillNames,
  timeText,
} from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';

const pins = (
  idleMs: number,
): string => `set local search_path = pg_catalog, pg_temp; set local synchronous_commit = off;
set local lock_timeout = ${limits.keepLockMs}; set local statement_timeout = ${limits.keepStatementMs};
set local idle_in_transaction_session_timeout = ${idleMs}`;
/** Without waiting for the disk: what a crash brings back is removed again. */
export const begin = `begin isolation level read committed; ${pins(limits.keepStatementMs)}`;
/** The same while rows are removed in another session. */
export const beginLong = `begin isolation level read committed; ${pins(4 * limits.keepStatementMs)}`;
/** Again after code of an owner, which may have changed them. */
export const again = pins(limits.keepStatementMs);

export interface KeptTable {
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
  /** The owner's oid. */
  readonly owner: string;
  /** It is Headgate's role. */
  readonly own: boolean;
  readonly keep: string;
  /** Only rows for which it is true are removed; null: all. */
  readonly condition: string | null;
  /** The column that INCLUDE TIMESTAMP fills; null: none. */
  readonly arrival: string | null;
}

/** The tables of different owners in turn, and those of one in any order: none of them is always the last. */
export const keptTables = `select w.relation::oid::text as oid, n.nspname::text as schema, c.relname::text as "table", c.relowner::text as owner, pg_get_userbyid(c.relowner) = current_user as own, w.options ->> 'keep' as keep, w.options ->> 'keep_if' as condition,
  headgate.placed(w.relation, (select i.value from jsonb_array_elements(w.includes) i where i.value ->> 'what' = 'timestamp' limit 1))::text as arrival
from headgate.webhook_table w join pg_class c on c.oid = w.relation join pg_namespace n on n.oid = c.relnamespace
where w.options ->> 'keep' <> 'all'
order by row_number() over (partition by c.relowner order by random()), c.relowner`;

export interface Cutoff {
  readonly cutoff: string;
}

export interface ReportedReason {
  readonly said: string | null;
}

const said = (value: string): string => `coalesce(${value}, '') as said`;

export interface Leaf {
  readonly oid: string;
  /** As relationName() quotes it. */
  readonly name: string;
}

/** $1 oid: the table, or its partitions. */
export const leaves = `select c.oid::text as oid, format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""')) as name
from (
  select p.relid from pg_partition_tree($1::oid) p where p.isleaf
  union select $1::oid
) as l join pg_class c on c.oid = l.relid join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' order by c.oid`;

/** One of several Headgates gets the row. */
export const myTurn = 'select from headgate.keeping for update skip locked';

/**
 * In the session that removes its rows. Prevents from here on: another owner, trigger, rule, policy, index or column. HG003: code of another role
 * would run with the rights of this session (relations/lock-code.ts).
 */
export const hold = ({ oid, name }: Leaf, { owner }: Pick<KeptTable, 'owner'>): string =>
  holdCodeBlock({
    relation_name: name,
    relation: oid,
    mark: null,
    owner,
    writer: '',
    needs: [],
    columns: [],
  });

/** What is known about a table under the lock. */
export interface LockedTable {
  /** It is the table that was meant. */
  readonly same: boolean;
  /** A role that could rename the schema meanwhile, so that the name means another table, whose code would run in a superuser's session; null: none. */
  readonly landlord: string | null;
  /** Somebody else could rename the schema meanwhile: what cannot compare the name in the moment in which it is read is left out. */
  readonly rented: boolean;
  /** The column holds the time of arrival. */
  readonly timed: boolean;
  /** An index finds the oldest rows. */
  readonly indexed: boolean;
  /** Locking its rows needs no right, and is subject to no policy, beyond those of removing them. */
  readonly lockable: boolean;
  /** A column that keep_if names, of a type whose casts may be code of another role; null: none. */
  readonly strange: string | null;
}

/** Casts belong to whoever owns a type. Comparisons of an enum or a plain domain are PostgreSQL's own. */
const strangeSql = (condition: string | null): string =>
  condition === null
    ? 'null::text'
    : `(select a.attname::text from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_roles r on r.oid = t.typowner
    cross join (select ${quoteLiteral(condition)}::text as text) k cross join lateral (select replace(a.attname, '"', '""') as text) n
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and t.oid >= 16384
      and (position(n.text in k.text) > 0 or position(n.text in lower(k.text)) > 0)
      and not (t.typtype in ('e', 'd') and t.typbasetype < 16384 and (r.rolsuper or t.typowner = c.relowner)) limit 1)`;

/** A schema has no lock. `public` belongs, by way of a role, to the owner of the database. */
const landlordSql = `select r.rolname::text from pg_namespace n join pg_database d on d.datname = current_database()
    join pg_roles r on r.oid = case when pg_get_userbyid(n.nspowner) = 'pg_database_owner' then d.datdba else n.nspowner end
    where n.oid = c.relnamespace and not ${trustedSql('r.oid')}`;

export function looked(
  { name, oid }: Leaf,
  arrival: string,
  { own, condition }: Pick<KeptTable, 'own' | 'condition'>,
): string {
  return `select to_regclass(${quoteLiteral(name)})::oid = ${oid} as same,
  case when ${own} or (select r.rolsuper from pg_roles r where r.rolname = current_user) then (${landlordSql}) end as landlord, exists (${landlordSql}) as rented,
  exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = ${quoteLiteral(arrival)} and a.atttypid = 'timestamptz'::regtype) as timed,
  exists (select from pg_index i join pg_class ic on ic.oid = i.indexrelid join pg_am m on m.oid = ic.relam join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
    where i.indrelid = c.oid and i.indisvalid and i.indpred is null and m.amname = 'btree' and a.attname = ${quoteLiteral(arrival)}) as indexed,
  has_table_privilege(c.oid, 'UPDATE') and not (c.relrowsecurity and (c.relforcerowsecurity or not pg_has_role(c.relowner, 'USAGE'))) as lockable,
  ${strangeSql(condition)} as strange
from pg_class c where c.oid = ${oid}`;
}

/** About how many rows there are: the statistics may be outdated. */
export const estimated = `select pg_stat_get_live_tuples($1::oid)::text as rows`;

export const ageCutoff = (span: string): string =>
  `select ${timeText(`now() - interval ${quoteLiteral(span)}`)} as cutoff`;

/** The size of a row on the disk, estimated from a sample: an expression, and its parts. $1 oid. */
export const rowSize = `select '28 + ' || string_agg(format('coalesce(pg_column_size(t.%I), 0)', a.attname), ' + ') as size
from pg_attribute a where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped`;

/** How many rows there may be so that they take no more than `keep`; empty: there are none. */
export const rowsWithin = ({ oid, name }: Leaf, size: string, keep: string, rows: number): string =>
  `select ${said(`floor(pg_size_bytes(${quoteLiteral(keep)}) / avg(${size}))::bigint::text`)}
from only ${name} t tablesample system (${Math.min(100, (100 * limits.keepSampleRows) / Math.max(1, rows))}) where ${namesAsParsed('headgate', name, oid)}`;

/** The arrival of the oldest row that stays; empty: all stay. */
export const rowsCutoff = ({ oid, name }: Leaf, arrival: string, keep: string): string =>
  `select ${said(`(select ${timeText(`t.${quote(arrival)}`)} from only ${name} t where t.${quote(arrival)} is not null
order by t.${quote(arrival)} offset greatest((select count(*) from only ${name}) - ${keep}, 0) limit 1)`)} where ${namesAsParsed('headgate', name, oid)}`;

/** For `outlived`: PostgreSQL writes the bounds of a partition as this setting wants it. Neither a trigger nor a function of a user runs after it. */
export const plainBounds = `set local datestyle = 'ISO, YMD'`;

/**
 * A partition for a range of the arrival alone: returns about how many rows it has, if all of them are older because the range ends
 * before, and no trigger and no other table has to learn of each row. $1 oid, $2 the column, $3 cutoff.
 */
export const outlived = (
  name: string,
): string => `select greatest(1, pg_stat_get_live_tuples(c.oid))::text as rows
from pg_class c join pg_inherits i on i.inhrelid = c.oid join pg_partitioned_table p on p.partrelid = i.inhparent
join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
where c.oid = $1::oid and c.relispartition and p.partstrat = 'r' and p.partnatts = 1 and a.attname = $2
  and (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO [(]''([^'']+)''[)]$'))[1]::timestamptz <= $3::timestamptz
  and not exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal)
  and not exists (select from pg_constraint k where k.contype = 'f' and k.confrelid = c.oid) and exists (select from only ${name})`;

/** Removes all of its rows at once, and frees their space. Nobody waits for it longer than it may wait itself. */
export const empty = (name: string): string => `truncate table only ${name}`;

/** Until statistics tell how many old rows there are, PostgreSQL assumes a few, and would read and sort them all for each transaction. */
export const byIndex = 'set local enable_sort = off; set local enable_bitmapscan = off';

/** The condition of an owner, checked by rowConditionProblem(): every name in it is a column, or PostgreSQL's own. */
const onlyIf = (condition: string | null): string => (condition === null ? '' : `and (${condition})`);

/**
 * Removes the next rows; returns their number, a space, and the arrival of the last of them. A row that is changed meanwhile is another row, and
 * stays, and so does one that somebody holds, if `lockable`. With `indexed` they are the oldest: `from` saves reading the index entries of those before. `most`: rows.
 */
export const remove = (
  { oid, name }: Leaf,
  arrival: string,
  cutoff: string,
  from: string,
  { indexed, lockable }: Pick<LockedTable, 'indexed' | 'lockable'>,
  most: number,
  condition: string | null,
): string =>
  `with gone as (delete from only ${name} where ${stillNames(name, oid)} and ctid = any (array(
  select t.ctid from only ${name} t where t.${quote(arrival)} < ${quoteLiteral(cutoff)}::timestamptz and t.${quote(arrival)} >= ${quoteLiteral(from)}::timestamptz ${onlyIf(condition)}
  ${indexed ? `order by t.${quote(arrival)}` : ''} limit ${most} ${lockable ? 'for update skip locked' : ''})) returning ${quote(arrival)} as arrived)
select ${said(`concat_ws(' ', count(*), ${indexed ? timeText('max(g.arrived)') : `'-infinity'`})`)} from gone g`;

/** $1 oid, $2 and $3 its names, $4 keep, $5 rows, $6 cutoff, $7 reason. A reason that was the last one is not logged twice. */
export const logged = `insert into headgate.keep_log (relation, schema_name, table_name, keep, rows, older_than, reason)
select w.relation, $2, $3, $4, $5::bigint, $6::timestamptz, $7::text from headgate.webhook_table w
where w.relation = $1::oid and ($7::text is null or $7::text is distinct from (
  select k.reason from headgate.keep_log k where k.relation = w.relation order by k.id desc limit 1))
returning id::text as id`;

/** $1 id, $2 additional rows. */
export const loggedMore = `update headgate.keep_log set rows = rows + $2::bigint, ended_at = clock_timestamp() where id = $1::bigint`;

export const trimmed = `delete from headgate.keep_log
where id <= (select max(m.id) from headgate.keep_log m) - ${limits.keepLoggedMax}`;
