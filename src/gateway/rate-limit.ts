/**
 * A bucket of tokens for each address: takes an address and a time, gives whether one more request may pass. Bounded in
 * addresses: the one that was seen longest ago is forgotten first, which can only let it pass. Pure but for its memory.
 */
export class RateLimit {
  readonly #perSecond: number;
  readonly #addressesMax: number;
  /** In order of their last request. */
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  /** `perSecond` is also how many may come at once; 0: any number. */
  constructor(perSecond: number, addressesMax: number) {
    this.#perSecond = perSecond;
    this.#addressesMax = addressesMax;
  }

  take(address: string, nowMs: number): boolean {
    if (this.#perSecond === 0) return true;
    const known = this.#buckets.get(address);
    this.#buckets.delete(address);
    const bucket = known ?? { tokens: this.#perSecond, atMs: nowMs };
    const earned = ((nowMs - bucket.atMs) / 1_000) * this.#perSecond;
    bucket.tokens = Math.min(this.#perSecond, bucket.tokens + Math.max(0, earned));
    bucket.atMs = nowMs;
    this.#buckets.set(address, bucket);
    if (this.#buckets.size > this.#addressesMax) {
      for (const oldest of this.#buckets.keys()) {
        this.#buckets.delete(oldest);
        break;
      }
    }
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }
}
