/**
 * Work by key: what must be examined, now or later. A key is processed once at a time; if added during that, it is
 * processed again afterwards; if added twice before, only once. The callers bound the number of keys
 * (`limits.operatorResourcesMax`), `operatorReconcilesMax` the number in progress.
 *
 *   waiting → working → (again → waiting | later → a timer → waiting | gone)
 */
import type { Limits } from '../config/limits.ts';

/** Processes a key; resolves with the ms after which to do so again, or null if the key is gone. Never rejects. */
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

  /** Accepts nothing new; resolves once running work has ended. */
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
