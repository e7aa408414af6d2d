/**
 * Counts how many requests came to each table in each minute, and their outcomes, for headgate.traffic_minute. Takes observations, returns the
 * parameters of `addTraffic`; what is taken is forgotten here, so that nothing is counted twice. Holds as many tables and minutes as there is room
 * for, and then drops the oldest. Time is an argument.
 */
import type { Limits } from '../config/limits.ts';
import { tookBoundsMs } from '../observe/durations.ts';
import type { Observation } from '../observe/observations.ts';
import { refusals } from '../errors/refusals.ts';
import { trafficValues } from './traffic-statement.ts';
import type { Count, outcomes, SinceStored } from './traffic-statement.ts';

export type CountedAnswer = Extract<Observation, { kind: 'request.answered' | 'batch.answered' }>;

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
    const found = tookBoundsMs.findIndex((bound) => answered.seconds * 1_000 <= bound);
    const place = found === -1 ? tookBoundsMs.length : found;
    count.took[place] = (count.took[place] ?? 0) + 1;
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

/** A sender that gets 429 sends again, as one that gets 503. */
function outcomeOf({ code }: CountedAnswer): (typeof outcomes)[number] {
  if (code === 'committed' || code === 'spooled' || code === 'handshake') return 'stored';
  const { status } = refusals[code];
  if (status >= 500 || status === 429) return 'unavailable';
  return status === 401 ? 'unauthorized' : 'refused';
}
