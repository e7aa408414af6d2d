/**
 * The statements of the reject room, and their parameters. Every name is qualified except `unnest` of several arrays, which is
 * syntax and means PostgreSQL's own.
 */
import { limits } from '../config/limits.ts';
import type { AskedHandshake } from '../types/journal.ts';
import type { Description } from './redact.ts';
import { outcomes } from './traffic.ts';
import { tookBoundsMs } from '../observe/durations.ts';

/**
 * Rows that refer to a table's own row in the catalog would wait for a transaction in which it is dropped, which its owner may leave open, and
 * with them those of all other tables. `oids`: a parameter.
 */
const standing = (oids: string): string => `
select w.relation from headgate.webhook_table w where w.relation = any (${oids}::oid[]) for key share skip locked`;

/**
 * Without waiting for the disk: what a crash takes away was refused anyway. Requests of a table that has been dropped meanwhile, or is being
 * dropped, are not stored.
 */
export const insertRejected = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true)),
standing as materialized (${standing('$2')})
insert into headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status, code, reason,
  authenticated, remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error, cause, sender, event, traceparent)
select r.received_at, w.relation, r.schema_name, r.table_name, r.door, r.status, r.code, r.reason,
  r.authenticated, r.remote_address, r.method, r.target, r.headers,
  array(select pg_catalog.jsonb_array_elements_text(r.headers_left_out)), r.headers_masked, r.body, r.body_bytes,
  r.engine_error, r.cause, r.sender, r.event, r.traceparent
from unhurried, unnest($1::timestamptz[], $2::oid[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[],
    $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::jsonb[], $14::jsonb[], $15::jsonb[], $16::bytea[],
    $17::bigint[], $18::text[], $19::jsonb[], $20::text[], $21::text[], $22::text[])
  with ordinality as r (received_at, relation, schema_name, table_name, door, status, code, reason, authenticated,
    remote_address, method, target, headers, headers_left_out, headers_masked, body, body_bytes, engine_error, cause, sender, event, traceparent, place)
join standing w on w.relation = r.relation
order by r.place
returning id::text as id, relation::oid::text as oid, code, received_at, remote_address`;

export interface WrittenRow {
  readonly id: string;
  readonly oid: string;
  readonly code: string;
  readonly received_at: Date;
  readonly remote_address: string;
}

export function insertValues(rows: readonly Description[]): unknown[] {
  return [
    rows.map((row) => row.receivedAt.toISOString()),
    rows.map((row) => row.relation),
    rows.map((row) => row.schema),
    rows.map((row) => row.table),
    rows.map((row) => row.door),
    rows.map((row) => row.status),
    rows.map((row) => row.code),
    rows.map((row) => row.reason),
    rows.map((row) => row.authenticated),
    rows.map((row) => row.remoteAddress),
    rows.map((row) => row.method),
    rows.map((row) => row.target),
    rows.map((row) => JSON.stringify(row.headers)),
    rows.map((row) => JSON.stringify(row.leftOut)),
    rows.map((row) => JSON.stringify(row.masked)),
    rows.map((row) => row.body),
    rows.map((row) => row.bodyBytes),
    rows.map((row) => row.engineError),
    rows.map(({ cause }) => (cause === undefined ? null : JSON.stringify(cause))),
    rows.map(({ sender }) => sender),
    rows.map(({ event }) => event),
    rows.map(({ traceparent }) => traceparent),
  ];
}

/**
 * $1 rows, $2 bytes, $3 days. Requests that had been accepted (spooled, or kept apart) stay until their owner deletes them: no sender has them any more. Of the
 * others the newest stay; half of the rows is for those that VALIDATE had accepted, so that a flood of forged requests does
 * not displace them. One Headgate at a time does it, and none waits for another, or for an owner who is deleting one.
 */
export const trimRejected = `
with mine as materialized (select from headgate.trimming for update skip locked), ranked as (
  select r.id, r.received_at, r.authenticated, coalesce(pg_catalog.octet_length(r.body), 0) as bytes,
    pg_catalog.row_number() over (partition by r.authenticated order by r.id desc) as place
  from headgate.rejected_requests r where r.door <> 'spool' and r.status >= 300
), ordered as (
  select k.id, k.received_at, pg_catalog.row_number() over newest as place, pg_catalog.sum(k.bytes) over newest as bytes
  from ranked k
  window newest as (order by (k.authenticated and k.place <= ($1::bigint + 1) / 2) desc, k.id desc)
)
delete from headgate.rejected_requests r where r.id in (
  select q.id from headgate.rejected_requests q where q.id in (
    select o.id from ordered o, mine
    where o.place > $1::bigint or o.bytes > $2::bigint or o.received_at < pg_catalog.now() - pg_catalog.make_interval(days => $3))
  for update skip locked)`;

/**
 * $1 tables, $2 documents, $3 keys. The first keys stay; several processes write one table's row in turn. What comes while its owner forgets
 * them is not counted.
 */
export const addIgnored = `
with standing as materialized (${standing('$1')}), turn as materialized (select from headgate.trimming for update), free as materialized (
  select k.relation from turn, headgate.ignored_keys k where k.relation = any ($1::oid[]) for no key update of k skip locked)
insert into headgate.ignored_keys as k (relation, documents, keys)
select w.relation, r.documents, array(select pg_catalog.jsonb_array_elements_text(r.keys))
from unnest($1::oid[], $2::bigint[], $3::jsonb[]) as r (relation, documents, keys)
join standing w on w.relation = r.relation
where w.relation in (select f.relation from free f)
  or not exists (select from headgate.ignored_keys k where k.relation = w.relation)
order by r.relation
on conflict (relation) do update set documents = k.documents + excluded.documents, last_at = pg_catalog.now(),
  keys = array(select n.key from unnest(k.keys || excluded.keys) with ordinality as n (key, place)
    group by n.key order by pg_catalog.min(n.place) limit ${limits.ignoredKeysMax})`;

/** Marked before they run, and waited for: a retry that may have stored its rows is never begun again automatically. */
export const takeRetries = `
update headgate.rejected_requests r set retry_outcome = 'running', retried_at = pg_catalog.now()
from (
  select q.id from headgate.rejected_requests q where q.retry_outcome = 'waiting'
  order by q.id limit $1 for update skip locked
) as taken, pg_catalog.pg_class c, pg_catalog.pg_namespace n
where r.id = taken.id and c.oid = r.relation and n.oid = c.relnamespace
returning r.id::text, c.oid::text as oid, n.nspname::text as schema, c.relname::text as "table", r.method, r.target, r.headers,
  r.headers_left_out, r.received_at, r.remote_address, r.body, r.body_bytes::text, r.authenticated or r.retry_forced as allowed,
  r.door, r.code, r.traceparent`;

export interface TakenRow {
  readonly id: string;
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly headers_left_out: readonly string[];
  readonly received_at: Date;
  readonly remote_address: string;
  readonly body: Buffer | null;
  readonly body_bytes: string | null;
  readonly allowed: boolean;
  readonly door: string;
  readonly code: string;
  readonly traceparent: string | null;
}

/**
 * A row that its owner is deleting is not waited for. A request whose id another delivery has taken meanwhile is from then on kept for that:
 * the next retry stores it.
 */
export const settleRetries = `
update headgate.rejected_requests r set retry_outcome = s.outcome, retry_reason = s.reason, engine_error = coalesce(s.engine_error, r.engine_error),
  code = case when s.outcome = 'delivery_differs' then s.outcome else r.code end
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as s (id, outcome, reason, engine_error)
where r.id = s.id and r.id in (
  select q.id from headgate.rejected_requests q where q.id = any ($1::bigint[]) and q.retry_outcome = 'running'
  for no key update skip locked)`;

/** $1: how many ids, and how many tombstones, of each table. Returns the larger number of those that went. */
export const forgetDeliveries = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true))
select greatest(headgate.forget_old('headgate.delivery', 'stored_at', 'dedupe', $1::int),
  headgate.forget_old('headgate.tombstone', 'deleted_at', 'version', $1::int)) as went from unhurried`;

/** For tables that still exist; the newest `handshakesKeptMax` of the database stay. */
export const insertHandshakes = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true)),
standing as materialized (${standing('$2')})
insert into headgate.handshake_log (asked_at, relation, schema_name, table_name, method, remote_address, rule, status, outcome)
select h.asked_at, w.relation, h.schema_name, h.table_name, h.method, h.remote_address, h.rule, h.status, h.outcome
from unhurried, unnest($1::timestamptz[], $2::oid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::text[])
  with ordinality as h (asked_at, relation, schema_name, table_name, method, remote_address, rule, status, outcome, place)
join standing w on w.relation = h.relation
order by h.place`;

export function handshakeValues(rows: readonly AskedHandshake[]): unknown[] {
  return [
    rows.map(({ askedAtMs }) => new Date(askedAtMs).toISOString()),
    rows.map(({ target }) => target.oid),
    rows.map(({ target }) => target.schema),
    rows.map(({ target }) => target.table),
    rows.map(({ method }) => method),
    rows.map(({ remoteAddress }) => remoteAddress),
    rows.map(({ place }) => place),
    rows.map(({ status }) => status),
    rows.map(({ outcome }) => outcome),
  ];
}

export const trimHandshakes = `
delete from headgate.handshake_log h where h.id in (
  select q.id from headgate.handshake_log q
  where q.id <= (select pg_catalog.max(m.id) from headgate.handshake_log m) - ${limits.handshakesKeptMax} for update skip locked)`;

const sinceStored = outcomes.filter((it) => it !== 'stored');
const summed = [...outcomes, 'spooled'] as const;
const took = [...tookBoundsMs, 0].map((_, i) => `pg_catalog.sum(t.took[${i + 1}])`);

/** For rows of `m`: added to what is there, if that is of the same time. */
const added = (period: 'minute' | 'hour' | 'at', names: readonly string[]): string => `
  ${period} = excluded.${period},
  ${names.map((it) => `${it} = excluded.${it} + case when m.${period} = excluded.${period} then m.${it} else 0 end`).join(',\n  ')},
  took = case when m.${period} = excluded.${period} then headgate.added(m.took, excluded.took) else excluded.took end`;

/**
 * $1 tables, $2 minutes, $3 to $6 requests by outcome, $7 rows, $8 durations, $9 the last request, $10 stale rows, $11 requests that were kept
 * on disk. $12 tables, $13 the last request, $14 the last one that was stored, $15 the first one after it, $16 to $18 how many since then. A table has a
 * row for each minute of a day, which the next day overwrites, one for each hour of 31 days, and one for what came since the last stored one; each owner,
 * and all of them together (''), has such rows of minutes and hours, too. Nothing is ever deleted, and `last_at` is when the last request came. Processes add to each other's counts; requests before one that another process has stored do not
 * count since then. A crash may lose what was written in its last second.
 */
export const addTraffic = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true)),
standing as materialized (${standing('$1')}),
told as materialized (
  select w.relation, r.minute, r.stored, r.unauthorized, r.refused, r.unavailable, r.rows, r.took::int[] as took,
    pg_catalog.to_timestamp(r.last) as last_at, r.stale, r.spooled
  from unhurried, unnest($1::oid[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
      $9::float8[], $10::bigint[], $11::bigint[])
    as r (relation, minute, stored, unauthorized, refused, unavailable, rows, took, last, stale, spooled)
  join standing w on w.relation = r.relation
),
hours as (
  insert into headgate.traffic_hour as m (relation, slot, hour, ${summed.join(', ')}, took)
  select t.relation, (t.minute / 60) % 744, pg_catalog.to_timestamp((t.minute / 60) * 3600.0),
    ${summed.map((it) => `pg_catalog.sum(t.${it})`).join(', ')}, array[${took.join(', ')}]::int[]
  from told t
  group by t.relation, t.minute / 60
  order by t.relation, (t.minute / 60) % 744
  on conflict (relation, slot) do update set${added('hour', summed)}
  where m.hour <= excluded.hour
),
since as (
  insert into headgate.traffic_since as m (relation, last_at, stored_at, since, unauthorized, refused, unavailable)
  select w.relation, pg_catalog.to_timestamp(r.last), pg_catalog.to_timestamp(r.stored), pg_catalog.to_timestamp(r.since), r.unauthorized, r.refused, r.unavailable
  from unnest($12::oid[], $13::float8[], $14::float8[], $15::float8[], $16::bigint[], $17::bigint[], $18::bigint[])
    as r (relation, last, stored, since, unauthorized, refused, unavailable)
  join standing w on w.relation = r.relation
  order by w.relation
  on conflict (relation) do update set
    last_at = greatest(m.last_at, excluded.last_at), stored_at = greatest(m.stored_at, excluded.stored_at),
    since = least(case when m.since < excluded.stored_at then null else m.since end, case when excluded.since < m.stored_at then null else excluded.since end),
    ${sinceStored.map((it) => `${it} = case when m.since < excluded.stored_at then 0 else m.${it} end + case when excluded.since < m.stored_at then 0 else excluded.${it} end`).join(',\n    ')}
),
totals as (
  insert into headgate.traffic_total as m (owner_oid, owner, per, slot, at, ${summed.join(', ')}, took)
  select o.oid, o.owner, p.per, (t.minute / p.minutes) % p.slots, pg_catalog.to_timestamp((t.minute / p.minutes) * p.minutes * 60.0),
    ${summed.map((it) => `pg_catalog.sum(t.${it})`).join(', ')}, array[${took.join(', ')}]::int[]
  from told t
  join pg_catalog.pg_class c on c.oid = t.relation
  join pg_catalog.pg_roles r on r.oid = c.relowner
  cross join lateral (values (0::oid, ''::name), (r.oid, r.rolname)) as o (oid, owner)
  cross join (values ('minute', 1, 1440), ('hour', 60, 744)) as p (per, minutes, slots)
  where t.minute / p.minutes > (select pg_catalog.max(l.minute) from told l) / p.minutes - p.slots
  group by o.oid, o.owner, p.per, p.minutes, p.slots, t.minute / p.minutes
  order by 1, 2, 3, 4
  on conflict (owner_oid, owner, per, slot) do update set${added('at', summed)}
  where m.at <= excluded.at
)
insert into headgate.traffic_minute as m
  (relation, slot, minute, ${summed.join(', ')}, rows, took, last_at, stale)
select t.relation, t.minute % 1440, pg_catalog.to_timestamp(t.minute * 60.0), ${summed.map((it) => `t.${it}`).join(', ')}, t.rows,
  t.took, t.last_at, t.stale
from told t
order by t.relation, t.minute % 1440
on conflict (relation, slot) do update set${added('minute', [...summed, 'rows', 'stale'])},
  last_at = greatest(m.last_at, excluded.last_at)
where m.minute <= excluded.minute`;
