/**
 * Counts how many requests came to each table in each minute, and their outcomes, for headgate.traffic_minute. Takes observations, returns the
 * parameters of `addTraffic`; what is taken is forgotten here, so that nothing is counted twice. Holds as many tables and minutes as there is room
 * for, and then drops the oldest. Time is an argument.
 */
import type { Limits } from '../config/limits.ts';
import { tookBoundsMs } from '../observe/durations.ts';
import type { Observation } from '../observe/observations.ts';
import { refusals } from '../errors/refusals.ts';
import { standing } from './journal-session.ts';

export type CountedAnswer = Extract<Observation, { kind: 'request.answered' | 'batch.answered' }>;

const outcomes = ['stored', 'unauthorized', 'refused', 'unavailable'] as const;

interface Count {
  readonly relation: number;
  /** Since 1970. */
  readonly minute: number;
  readonly requests: Record<(typeof outcomes)[number], number>;
  rows: number;
  stale: number;
  /** Of those stored: kept on disk first. */
  spooled: number;
  readonly took: number[];
  lastMs: number;
}

/** Requests since the last one that was stored. Times are in ms since 1970. */
interface SinceStored {
  storedAtMs: number | null;
  /** Of the first of them; null: there are none. */
  sinceMs: number | null;
  lastMs: number;
  requests: Record<Exclude<(typeof outcomes)[number], 'stored'>, number>;
}

type TrafficBounds = Pick<Limits, 'trafficTablesMax' | 'trafficWaitingMax' | 'trafficFlushMs'>;

export class TrafficCounts {
  readonly #limits: TrafficBounds;
  /** Counts of the present minute, by oid. */
  #now = new Map<number, Count>();
  #minute = 0;
  /** Counts of earlier minutes, the oldest first. */
  #before: Count[] = [];
  /** Of those that were not taken yet, by oid. */
  #since = new Map<number, SinceStored>();
  #writtenAtMs = Number.NEGATIVE_INFINITY;

  constructor(limits: TrafficBounds) {
    this.#limits = limits;
  }

  /** `relation`: pg_class.oid; `nowMs`: since 1970. A handshake is no request that stores anything. */
  add(relation: number, answered: CountedAnswer, nowMs: number): void {
    if (answered.code === 'handshake') return;
    const minute = Math.floor(nowMs / 60_000);
    if (minute !== this.#minute) this.#turn(minute);
    let count = this.#now.get(relation);
    if (count === undefined) {
      if (this.#now.size >= this.#limits.trafficTablesMax) return;
      count = newCount(relation, minute);
      this.#now.set(relation, count);
    }
    const outcome = outcomeOf(answered);
    count.requests[outcome] += 1;
    count.rows += answered.rows;
    count.stale += answered.stale ?? 0;
    if (answered.code === 'spooled') count.spooled += 1;
    if (!isStalled(answered)) {
      const found = tookBoundsMs.findIndex((bound) => answered.seconds * 1_000 <= bound);
      const place = found === -1 ? tookBoundsMs.length : found;
      count.took[place] = (count.took[place] ?? 0) + 1;
    }
    count.lastMs = nowMs;
    this.#addSince(relation, outcome, nowMs);
  }

  #addSince(relation: number, outcome: (typeof outcomes)[number], nowMs: number): void {
    let since = this.#since.get(relation);
    if (since === undefined) {
      if (this.#since.size >= this.#limits.trafficTablesMax) return;
      since = newSince();
      this.#since.set(relation, since);
    }
    since.lastMs = nowMs;
    if (outcome === 'stored') {
      since.storedAtMs = nowMs;
      if (since.sinceMs === null) return;
      since.sinceMs = null;
      since.requests = noneSince();
    } else {
      since.sinceMs ??= nowMs;
      since.requests[outcome] += 1;
    }
  }

  /** `nowMs`: by a monotonic clock. null: there is nothing to write, or not yet. */
  take(nowMs: number, atOnce: boolean): readonly unknown[] | null {
    if (this.#now.size + this.#before.length === 0) return null;
    if (!atOnce && nowMs - this.#writtenAtMs < this.#limits.trafficFlushMs) return null;
    this.#writtenAtMs = nowMs;
    this.#turn(this.#minute);
    // Two counts for one slot cannot be written at once: if nothing could be written for a day, the later one stays.
    const places = new Map(this.#before.splice(0).map((it) => [`${it.relation}/${it.minute % 1440}`, it]));
    const since = this.#since;
    this.#since = new Map();
    return trafficValues([...places.values()], since);
  }

  #turn(minute: number): void {
    this.#before.push(...this.#now.values());
    const over = this.#before.length - this.#limits.trafficWaitingMax;
    if (over > 0) this.#before.splice(0, over);
    this.#now = new Map();
    this.#minute = minute;
  }
}

function newCount(relation: number, minute: number): Count {
  const requests = { stored: 0, unauthorized: 0, refused: 0, unavailable: 0 };
  const took = Array.from({ length: tookBoundsMs.length + 1 }, () => 0);
  return { relation, minute, requests, rows: 0, stale: 0, spooled: 0, took, lastMs: 0 };
}

const noneSince = (): SinceStored['requests'] => ({ unauthorized: 0, refused: 0, unavailable: 0 });

const newSince = (): SinceStored => ({ storedAtMs: null, sinceMs: null, lastMs: 0, requests: noneSince() });

/** How long it took says how slow its sender was: anybody can let it take as long as is allowed. */
const isStalled = ({ code }: CountedAnswer): boolean =>
  code === 'request_timeout' || code === 'request_aborted';

/** A sender that gets 429 sends again, as one that gets 503. */
function outcomeOf({ code }: CountedAnswer): (typeof outcomes)[number] {
  if (code === 'committed' || code === 'spooled' || code === 'handshake') return 'stored';
  const { status } = refusals[code];
  if (status >= 500 || status === 429) return 'unavailable';
  return status === 401 ? 'unauthorized' : 'refused';
}

/** The parameters of `addTraffic`. */
function trafficValues(
  counts: readonly Count[],
  sinceOf: ReadonlyMap<number, SinceStored>,
): readonly unknown[] {
  const since = [...sinceOf.values()];
  const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1_000);
  return [
    counts.map(({ relation }) => relation),
    counts.map(({ minute }) => minute),
    ...outcomes.map((outcome) => counts.map(({ requests }) => requests[outcome])),
    counts.map(({ rows }) => rows),
    counts.map(({ took }) => `{${took.join(',')}}`),
    counts.map(({ lastMs }) => lastMs / 1_000),
    counts.map(({ stale }) => stale),
    counts.map(({ spooled }) => spooled),
    [...sinceOf.keys()],
    since.map(({ lastMs }) => lastMs / 1_000),
    since.map(({ storedAtMs }) => seconds(storedAtMs)),
    since.map(({ sinceMs }) => seconds(sinceMs)),
    ...sinceStored.map((outcome) => since.map(({ requests }) => requests[outcome])),
  ];
}

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
 * count since then. A crash may lose what was written in its last second. Every name is qualified except `unnest` of several arrays, which is syntax
 * and means PostgreSQL's own.
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
