/**
 * A bucket of tokens for each name, e.g. an address: `burst` may pass at once, and `count` are earned evenly over
 * `perMs`. Takes a name and a time, returns whether one more may pass. The number of names is bounded: the one whose
 * last request is oldest is forgotten first, which can only let it pass.
 *
 * Several processes share one rate by telling each other what they let pass (`told`, `charge`): what others took may
 * leave the bucket below empty, so that at most the burst of each process, and what arrives between two exchanges,
 * passes beyond the rate.
 */
import type { Rate } from '../kit/rate.ts';
import { limits } from '../config/limits.ts';

/** Names, and how many passed for each. */
export type RateCounts = readonly (readonly [name: string, count: number])[];

export class RateLimit {
  readonly #stepMs: number;
  readonly #spanMs: number;
  readonly #namesMax: number;
  /** When each bucket will be full again, in order of its last request; full buckets need not be remembered. */
  readonly #fullAt = new Map<string, number>();
  /** What was let pass since it was last told; null: it is not shared. */
  readonly #taken: Map<string, number> | null;

  /** `shared`: what passes is recorded, to be told to other processes. */
  constructor({ count, perMs, burst }: Rate, namesMax: number, shared = false) {
    this.#taken = shared ? new Map() : null;
    this.#stepMs = perMs / count;
    this.#spanMs = this.#stepMs * burst;
    this.#namesMax = namesMax;
  }

  get names(): number {
    return this.#fullAt.size;
  }

  /** 0: one more may pass, and is counted. Otherwise the number of ms until one may; it is not counted. */
  take(name: string, nowMs: number): number {
    const known = this.#fullAt.get(name) ?? nowMs;
    const fullAt = Math.max(known, nowMs) + this.#stepMs;
    const early = fullAt - nowMs - this.#spanMs;
    // A rounding error must not cost a token that has just been earned.
    if (early > 1e-6) return early;
    this.#fill(name, fullAt);
    // A name that is left out lets other processes pass more than they should, but no more than without sharing.
    if (this.#taken !== null && (this.#taken.size < limits.rateToldNamesMax || this.#taken.has(name)))
      this.#taken.set(name, (this.#taken.get(name) ?? 0) + 1);
    return 0;
  }

  /** What was let pass since the last call, by name. */
  told(): RateCounts {
    const taken = [...(this.#taken ?? [])];
    this.#taken?.clear();
    return taken;
  }

  /** Counts what others have let pass. */
  charge(taken: RateCounts, nowMs: number): void {
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
