/** How much time of a pass the tables of each owner may take: code of one owner that is slow must not keep the tables of others from their turn. */
export class OwnersTime {
  readonly #mostMs: number;
  readonly #clock: () => number;
  readonly #spentMs = new Map<string, number>();

  /** `clock`: a monotonic one, ms. */
  constructor(mostMs: number, clock: () => number) {
    this.#mostMs = mostMs;
    this.#clock = clock;
  }

  /** What `work` on a table of this owner resolves with, or true, there is something left, if the owner's time is over. */
  async take(owner: string, work: () => Promise<boolean>): Promise<boolean> {
    const spentMs = this.#spentMs.get(owner) ?? 0;
    if (spentMs > this.#mostMs) return true;
    const beganMs = this.#clock();
    try {
      return await work();
    } finally {
      this.#spentMs.set(owner, spentMs + this.#clock() - beganMs);
    }
  }
}
