/**
 * The statements of the keep room. Every name means PostgreSQL's own: they run with search_path = pg_catalog, pg_temp, in
 * transactions that set this themselves, because a pooler may lend a session to others.
 */
import { executorCall, executorFit } from '../catalog/executor.ts';
import {
  assumableSql,
  joinedSql,
  lookedIntoSql,
  ownersSql,
  trustedSql,
  versionSql,
} from '../catalog/owner-code.ts';
import { quoteIdentifier as quote, quoteLiteral, timeText } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';

/** Without waiting for the disk: what a crash brings back is removed again. Repeated after code of an owner, which may have changed it. */
export const pins = `set local search_path = pg_catalog, pg_temp; set local synchronous_commit = off;
set local lock_timeout = ${limits.keepLockMs}; set local statement_timeout = ${limits.keepStatementMs};
set local idle_in_transaction_session_timeout = ${limits.keepStatementMs}`;
export const begin = `begin; ${pins}`;

export interface KeptTable {
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
  /** The owner's oid. */
  readonly owner: string;
  readonly keep: string;
  /** The column that INCLUDE TIMESTAMP fills; null: none. */
  readonly arrival: string | null;
}

/** The tables of different owners in turn, and those of one in any order: none of them is always the last. */
export const keptTables = `select w.relation::oid::text as oid, n.nspname::text as schema, c.relname::text as "table", c.relowner::text as owner, w.options ->> 'keep' as keep,
  headgate.placed(w.relation, (select i.value from jsonb_array_elements(w.includes) i where i.value ->> 'what' = 'timestamp' limit 1))::text as arrival
from headgate.webhook_table w join pg_class c on c.oid = w.relation join pg_namespace n on n.oid = c.relnamespace
where w.options ->> 'keep' <> 'all'
order by row_number() over (partition by c.relowner order by random()), c.relowner`;

export interface Cutoff {
  readonly cutoff: string;
}

export interface Said {
  readonly said: string | null;
}

/** One value, which remains after the function of an owner has ended. */
const said = (value: string): string => `set_config('headgate.said', coalesce(${value}, ''), true) as said`;

/** The value that a statement in that function has set. The table's code may have set it instead. */
export const saidThere = `select left(current_setting('headgate.said'), 100) as said`;

export const fit = ({ role, ...code }: Looked): string => `select ${executorFit(role, code)} as fit`;

/** Runs a statement with the rights of the owner. $1 name, $2 oid, $3 version, $4 statement; the others are for rows. */
export const asOwner = ({ role, ownerName }: Looked): string => executorCall(role, { ownerName });

export interface Leaf {
  readonly oid: string;
  readonly name: string;
}

/** $1 oid: the table, or its partitions. */
export const leaves = `select c.oid::text as oid, format('%I.%I', n.nspname, c.relname) as name
from (
  select p.relid from pg_partition_tree($1::oid) p where p.isleaf
  union select $1::oid
) as l join pg_class c on c.oid = l.relid join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' order by c.oid`;

/** One of several Headgates gets the row. */
export const myTurn = 'select from headgate.keeping for update skip locked';

/** Prevents from here on: another owner, trigger, rule, policy, index or column. */
export const lock = (name: string): string => `lock table only ${name} in row exclusive mode`;

/** What is known about a table under the lock. */
export interface Looked {
  /** It is the table that was meant. */
  readonly same: boolean;
  /** Headgate's role. */
  readonly role: string;
  readonly owner: number;
  readonly ownerName: string;
  /** The owner could do all that Headgate's role can, which then removes rows itself; otherwise they are removed with the owner's rights. */
  readonly trusted: boolean;
  readonly assumable: boolean;
  /** A role whose code could run besides the owner's; null: none. */
  readonly stranger: string | null;
  /** Foreign keys join its rows to other tables, whose owners the lock does not hold. */
  readonly joined: boolean;
  /** A role that could rename the schema meanwhile, so that the name means another table; null: none, or it would make no difference. */
  readonly landlord: string | null;
  readonly version: string;
  /** The column holds the time of arrival. */
  readonly timed: boolean;
  /** An index finds the oldest rows. */
  readonly indexed: boolean;
}

/** A schema has no lock. `public` belongs, by way of a role, to the owner of the database. */
const landlordSql = `select r.rolname::text from pg_namespace n join pg_database d on d.datname = current_database()
    join pg_roles r on r.oid = case when pg_get_userbyid(n.nspowner) = 'pg_database_owner' then d.datdba else n.nspowner end
    where n.oid = c.relnamespace and not ${trustedSql('r.oid')}`;

const strangerSql = `(select o.name::text from (${ownersSql(lookedIntoSql('c.oid', 'always'))}) as o where o.relowner <> c.relowner and not ${trustedSql('o.relowner')} order by o.name limit 1)`;

/**
 * After rows that foreign keys join to other tables, and before anything that code of these tables may have left: HG001 if one of them has got
 * an owner whose code must not run. What waits for COMMIT happens before, so that nothing looks into them later.
 */
export const staysSafe = ({ oid }: Leaf): string => `set constraints all immediate; ${pins};
do language plpgsql ${quoteLiteral(`begin
  if exists (select from pg_class c where c.oid = ${oid} and ${strangerSql} is not null) then
    raise exception using errcode = 'HG001', message = 'a table that a foreign key looks into has another owner';
  end if;
end`)}`;

export function looked({ name, oid }: Leaf, arrival: string): string {
  return `select to_regclass(${quoteLiteral(name)})::oid = ${oid} as same, current_user::text as role,
  c.relowner as owner, pg_get_userbyid(c.relowner)::text as "ownerName", ${trustedSql('c.relowner')} as trusted, ${assumableSql('c.relowner')} as assumable,
  ${strangerSql} as stranger, ${joinedSql('c.oid', 'always')} as joined,
  case when ${trustedSql('c.relowner')} then (${landlordSql}) end as landlord, ${versionSql('c')} as version,
  exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = ${quoteLiteral(arrival)} and a.atttypid = 'timestamptz'::regtype) as timed,
  exists (select from pg_index i join pg_class ic on ic.oid = i.indexrelid join pg_am m on m.oid = ic.relam join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
    where i.indrelid = c.oid and i.indisvalid and i.indpred is null and m.amname = 'btree' and a.attname = ${quoteLiteral(arrival)}) as indexed
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
export const rowsWithin = (name: string, size: string, keep: string, rows: number): string =>
  `select ${said(`floor(pg_size_bytes(${quoteLiteral(keep)}) / avg(${size}))::bigint::text`)}
from only ${name} t tablesample system (${Math.min(100, (100 * limits.keepSampleRows) / Math.max(1, rows))})`;

/** The arrival of the oldest row that stays; empty: all stay. */
export const rowsCutoff = (name: string, arrival: string, keep: string): string =>
  `select ${said(`(select ${timeText(`t.${quote(arrival)}`)} from only ${name} t where t.${quote(arrival)} is not null
order by t.${quote(arrival)} offset greatest((select count(*) from only ${name}) - ${keep}, 0) limit 1)`)}`;

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

/**
 * Removes the next rows; returns their number, a space, and the arrival of the last of them. A row that is changed meanwhile is another row, and
 * stays. With `indexed` they are the oldest: `from` saves reading the index entries of those before. `most`: rows.
 */
export const remove = (
  name: string,
  arrival: string,
  cutoff: string,
  from: string,
  indexed: boolean,
  most: number,
): string =>
  `with gone as (delete from only ${name} where ctid = any (array(
  select t.ctid from only ${name} t where t.${quote(arrival)} < ${quoteLiteral(cutoff)}::timestamptz and t.${quote(arrival)} >= ${quoteLiteral(from)}::timestamptz
  ${indexed ? `order by t.${quote(arrival)}` : ''} limit ${most})) returning ${quote(arrival)} as arrived)
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
