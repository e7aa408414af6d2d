/**
 * Runs one job, again and again, on behalf of many callers: each caller waits for a run that began after its call,
 * so that it sees everything that was true when it called, and any number of callers cost two runs at most.
 */
import { setTimeout as delay } from 'node:timers/promises';

export class Refresher {
  readonly #job: () => Promise<void>;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  /** Ends the pause before the next run; null: it does not pause. */
  #hurry: AbortController | null = null;
  /** When the last run began that only patient callers had asked for. */
  #lastPatientMs = Number.NEGATIVE_INFINITY;
  readonly #clock: () => number;

  constructor(job: () => Promise<void>, clock: () => number) {
    this.#job = job;
    this.#clock = clock;
  }

  /**
   * Rejects as the run does that the caller waited for. `pauseMs`: at least this long after the last run that only such
   * patient callers had asked for; whoever asks without a pause takes them along.
   */
  run(pauseMs = 0): Promise<void> {
    if (pauseMs === 0) this.#hurry?.abort();
    this.#next ??= this.#begin(pauseMs);
    return this.#next;
  }

  /** Resolves when the run that is under way has ended, however it did; at once when there is none. */
  async current(): Promise<void> {
    await this.#running?.catch(() => {});
  }

  async #begin(pauseMs: number): Promise<void> {
    const hurry = pauseMs === 0 ? null : new AbortController();
    this.#hurry = hurry;
    // The failure of the run before belongs to its own callers.
    await this.#running?.catch(() => {});
    const wait = this.#lastPatientMs + pauseMs - this.#clock();
    if (hurry !== null && wait > 0)
      await delay(wait, undefined, { signal: hurry.signal }).catch(() => undefined);
    if (hurry?.signal.aborted === false) this.#lastPatientMs = this.#clock();
    this.#running = this.#next;
    this.#next = null;
    this.#hurry = null;
    await this.#job();
  }
}
