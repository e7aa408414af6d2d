/**
 * A bucket of tokens for each name, e.g. an address: `burst` may come at once, and `count` are earned evenly over
 * `perMs`. Takes a name and a time, gives whether one more may pass. Bounded in names: the one that came longest ago is
 * forgotten first, which can only let it pass.
 *
 * Several processes keep to one rate together by telling each other what they let pass (`told`, `charge`): what others
 * took makes the bucket emptier than empty, so that beyond the rate no more than the burst of each passes, and what comes
 * between two tellings.
 */
import type { Rate } from '../kit/rate.ts';
import { limits } from '../tables/limits.ts';

/** Names, and how many passed. */
export type Taken = readonly (readonly [name: string, count: number])[];

export class RateLimit {
  readonly #stepMs: number;
  readonly #spanMs: number;
  readonly #namesMax: number;
  /** When each bucket will be full again, in order of its last request; a full one need not be known. */
  readonly #fullAt = new Map<string, number>();
  /** What was let pass since it was last told; null: nobody asks. */
  readonly #taken: Map<string, number> | null;

  /** `shared`: what passes is kept to be told to others. */
  constructor({ count, perMs, burst }: Rate, namesMax: number, shared = false) {
    this.#taken = shared ? new Map() : null;
    this.#stepMs = perMs / count;
    this.#spanMs = this.#stepMs * burst;
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
    this.#fill(name, fullAt);
    // A name that is left out lets others pass more than they should, and no more than without all this.
    if (this.#taken !== null && (this.#taken.size < limits.rateToldNamesMax || this.#taken.has(name)))
      this.#taken.set(name, (this.#taken.get(name) ?? 0) + 1);
    return 0;
  }

  /** What was let pass since this was asked last, by name. */
  told(): Taken {
    const taken = [...(this.#taken ?? [])];
    this.#taken?.clear();
    return taken;
  }

  /** Counts what others have let pass. */
  charge(taken: Taken, nowMs: number): void {
    for (const [name, count] of taken) {
      const fullAt = Math.max(this.#fullAt.get(name) ?? nowMs, nowMs) + this.#stepMs * count;
      this.#fill(name, fullAt);
    }
  }

  #fill(name: string, fullAt: number): void {
    this.#fullAt.delete(name);
    this.#fullAt.set(name, fullAt);
    if (this.#fullAt.size > this.#namesMax) this.#forgetOldest();
  }

  #forgetOldest(): void {
    for (const oldest of this.#fullAt.keys()) {
      this.#fullAt.delete(oldest);
      return;
    }
  }
}
