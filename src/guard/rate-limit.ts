/**
 * A bucket of tokens for each name, e.g. an address: `count` may come at once, and are earned again evenly over
 * `perMs`. Takes a name and a time, gives whether one more may pass. Bounded in names: the one that came longest ago is
 * forgotten first, which can only let it pass.
 */
import type { Rate } from '../kit/rate.ts';

export class RateLimit {
  readonly #stepMs: number;
  readonly #spanMs: number;
  readonly #namesMax: number;
  /** When each bucket will be full again, in order of its last request; a full one need not be known. */
  readonly #fullAt = new Map<string, number>();

  constructor({ count, perMs }: Rate, namesMax: number) {
    this.#stepMs = perMs / count;
    this.#spanMs = perMs;
    this.#namesMax = namesMax;
  }

  get names(): number {
    return this.#fullAt.size;
  }

  /** 0: one more may pass, and is counted. Otherwise in how many ms one may; it is not counted. */
  take(name: string, nowMs: number): number {
    const known = this.#fullAt.get(name) ?? nowMs;
    const fullAt = Math.max(known, nowMs) + this.#stepMs;
    const early = fullAt - nowMs - this.#spanMs;
    // A hair of floating point must not cost a token that has just been earned.
    if (early > 1e-6) return early;
    this.#fullAt.delete(name);
    this.#fullAt.set(name, fullAt);
    if (this.#fullAt.size > this.#namesMax) this.#forgetOldest();
    return 0;
  }

  #forgetOldest(): void {
    for (const oldest of this.#fullAt.keys()) {
      this.#fullAt.delete(oldest);
      return;
    }
  }
}
