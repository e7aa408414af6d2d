/** How many refused requests of one table are kept in a row, and then per second. The clock comes in. */
import type { Limits } from '../tables/limits.ts';

interface Bucket {
  left: number;
  atMs: number;
}

export class Rates {
  readonly #limits: Pick<Limits, 'rejectedBurst' | 'rejectedPerSecond' | 'rejectedTablesMax'>;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limits: Pick<Limits, 'rejectedBurst' | 'rejectedPerSecond' | 'rejectedTablesMax'>) {
    this.#limits = limits;
  }

  /** Whether one more of this key may be kept at this moment of a monotonic clock, ms. */
  take(key: string, nowMs: number): boolean {
    const { rejectedBurst, rejectedPerSecond, rejectedTablesMax } = this.#limits;
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      // Whoever comes to many tables at once starts all of them anew; the queue behind this has a bound of its own.
      if (this.#buckets.size >= rejectedTablesMax) this.#buckets.clear();
      bucket = { left: rejectedBurst, atMs: nowMs };
      this.#buckets.set(key, bucket);
    }
    const gained = ((nowMs - bucket.atMs) / 1_000) * rejectedPerSecond;
    bucket.left = Math.min(rejectedBurst, bucket.left + gained);
    bucket.atMs = nowMs;
    if (bucket.left < 1) return false;
    bucket.left -= 1;
    return true;
  }
}
