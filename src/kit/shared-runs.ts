/**
 * A job that any number of callers ask for: those that ask while it runs share the next run, so that each sees one that began after its call. Takes the
 * job and a clock in ms; a run rejects as its job does.
 */
import { setTimeout as delay } from 'node:timers/promises';

export class SharedRuns {
  readonly #job: () => Promise<void>;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  /** Ends the pause before the next run; null: there is no pause. */
  #hurry: AbortController | null = null;
  /** When the last run began that only patient callers had requested. */
  #lastPatientMs = Number.NEGATIVE_INFINITY;
  readonly #clock: () => number;

  constructor(job: () => Promise<void>, clock: () => number) {
    this.#job = job;
    this.#clock = clock;
  }

  /**
   * Rejects if the run that the caller waits for fails. `pauseMs`: start at least this long after the last run that
   * only such patient callers had requested; a caller without a pause starts the run for all of them.
   */
  run(pauseMs = 0): Promise<void> {
    if (pauseMs === 0) this.#hurry?.abort();
    this.#next ??= this.#begin(pauseMs);
    return this.#next;
  }

  /** Resolves when the current run has ended, with or without an error; at once if none is running. */
  async current(): Promise<void> {
    await this.#running?.catch(() => {});
  }

  async #begin(pauseMs: number): Promise<void> {
    const hurry = pauseMs === 0 ? null : new AbortController();
    this.#hurry = hurry;
    // The failure of the previous run belongs to its own callers.
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
