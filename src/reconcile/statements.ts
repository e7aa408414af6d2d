/** The statements of the reconcile room, most of them calls of functions/reconciling.sql, each complete by itself, as Headgate's role. */

/** A table whose turn it is. Times are in ms since 1970, by the sender's clock, unless said. */
export interface TakenTable {
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
  /** The option reconcile. */
  readonly log: string;
  readonly every: string | null;
  readonly dedupe: string | null;
  readonly windowS: number | null;
  /** null: there is none any more. */
  readonly secret: string | null;
  readonly sealId: string | null;
  readonly sealed: string | null;
  /** Whether the table's owner may use the secret. */
  readonly allowed: boolean | null;
  readonly failures: number;
  readonly sinceMs: number;
  readonly readToMs: number | null;
  /** null: no reading has begun. */
  readonly topMs: number | null;
  readonly reachMs: number | null;
  readonly cursor: string | null;
  readonly pages: number;
}

const ms = (name: string) => `(extract(epoch from t.${name}) * 1000)::float8`;

/** $1 whose turn, $2 seconds, $3 tables. */
export const take = `select t.relation::text as oid, t.schema_name as schema, t.table_name as "table", t.log, t.every, t.dedupe,
  t.window_seconds::float8 as "windowS", t.secret, t.seal_id::text as "sealId", t.sealed, t.allowed, t.failures, ${ms('since')} as "sinceMs",
  ${ms('read_to')} as "readToMs", ${ms('walk_top')} as "topMs", ${ms('walk_reach')} as "reachMs", t.walk_cursor as cursor, t.walk_pages as pages
from headgate.take_reconciling($1::uuid, $2::int, $3::int) t`;

const moment = (at: string) => `pg_catalog.to_timestamp(${at}::float8 / 1000)`;

/** $1 oid, $2 whose turn, $3 seconds, $4 entries, $5 top, $6 reach, $7 cursor, $8 read to, $9 settled. */
export const announce = `select a.delivery::text as delivery from headgate.announce($1::oid, $2::uuid, $3::int, $4::jsonb,
  case when $5::float8 is null then null else pg_catalog.jsonb_build_object('top', ${moment('$5')}, 'reach', ${moment('$6')}) end,
  $7::text, ${moment('$8')}, ${moment('$9')}) a`;

/** $1 oid, $2 from, $3 to. */
export const leaveUnread = `insert into headgate.past_window (relation, window_from, window_to)
values ($1::oid, ${moment('$2')}, ${moment('$3')}) on conflict do nothing`;

export interface MissingDelivery {
  readonly delivery: string;
  readonly log: string;
  readonly asked: number;
}

/** $1 oid, $2 whose turn, $3 seconds, $4 settled, $5 forgotten, $6 how many. */
export const missing = `select m.delivery::text as delivery, m.log, m.asked
from headgate.missing($1::oid, $2::uuid, $3::int, ${moment('$4')}, ${moment('$5')}, $6::int) m`;

/** $1 oid, $2 whose turn, $3 seconds, $4 deliveries, $5 ms until they may be asked for again. */
export const noteAsked = `update headgate.announced a
set asked = a.asked operator(pg_catalog.+) 1, next_at = pg_catalog.now() + pg_catalog.make_interval(secs => $5::float8 / 1000), reason = null
from headgate.hold_reconciling($1::oid, $2::uuid, $3::int) r
where a.relation operator(pg_catalog.=) r.relation and a.delivery operator(pg_catalog.=) any ($4::uuid[])`;

/** $1 oid, $2 [{delivery, reason}]. */
export const noteFailed = `update headgate.announced a set reason = pg_catalog.left(f.reason, 240)
from pg_catalog.jsonb_to_recordset($2::jsonb) as f (delivery uuid, reason text)
where a.relation operator(pg_catalog.=) $1::oid::pg_catalog.regclass and a.delivery operator(pg_catalog.=) f.delivery`;

/** $1 oid, $2 whose turn, $3 ms until the next, $4 problem, $5 days. */
export const endTurn = `select e.missing::float8 as missing from headgate.end_turn($1::oid, $2::uuid,
  pg_catalog.now() + pg_catalog.make_interval(secs => $3::float8 / 1000), $4::text, pg_catalog.make_interval(days => $5::int)) e`;

/** The table is not this turn's any more. */
export const notHeld = 'HG007';
