/**
 * Work by key: what is to be looked at, now or later. A key is worked on once at a time; added while that runs, it is
 * worked on again afterwards; added twice before, once. The number of keys is bounded by who adds them
 * (`limits.operatorResourcesMax`), the number at work by `operatorReconcilesMax`.
 *
 *   waiting → working → (again → waiting | later → a timer → waiting | gone)
 */
import type { Limits } from '../tables/limits.ts';

/** Works on a key; resolves with the ms after which it is to be looked at again, or null when it is gone. Never rejects. */
export type Work = (key: string) => Promise<number | null>;

export class Workers {
  readonly #work: Work;
  readonly #limits: Pick<Limits, 'operatorReconcilesMax'>;
  readonly #waiting = new Set<string>();
  readonly #working = new Map<string, Promise<void>>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #closed = false;

  constructor(work: Work, limits: Pick<Limits, 'operatorReconcilesMax'>) {
    this.#work = work;
    this.#limits = limits;
  }

  add(key: string): void {
    if (this.#closed) return;
    this.#forgetTimer(key);
    this.#waiting.add(key);
    this.#fill();
  }

  /** Takes nothing new; resolves when what runs has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.clear();
    for (const key of this.#timers.keys()) this.#forgetTimer(key);
    await Promise.all(this.#working.values());
  }

  #fill(): void {
    for (const key of this.#waiting) {
      if (this.#working.size >= this.#limits.operatorReconcilesMax) return;
      if (this.#working.has(key)) continue;
      this.#waiting.delete(key);
      this.#working.set(key, this.#run(key));
    }
  }

  async #run(key: string): Promise<void> {
    const laterMs = await this.#work(key);
    this.#working.delete(key);
    if (this.#closed) return;
    if (laterMs !== null && !this.#waiting.has(key)) {
      this.#timers.set(
        key,
        setTimeout(() => this.add(key), laterMs),
      );
    }
    this.#fill();
  }

  #forgetTimer(key: string): void {
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }
}
