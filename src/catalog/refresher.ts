/**
 * Runs one job, again and again, on behalf of many callers: each caller waits for a run that began after its call,
 * so that it sees everything that was true when it called, and any number of callers cost two runs at most.
 */
import { setTimeout as delay } from 'node:timers/promises';

export class Refresher {
  readonly #job: () => Promise<void>;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #lastStartMs = Number.NEGATIVE_INFINITY;
  readonly #clock: () => number;

  constructor(job: () => Promise<void>, clock: () => number) {
    this.#job = job;
    this.#clock = clock;
  }

  /** Rejects as the run does that the caller waited for. `pauseMs`: at least this long after the last start. */
  run(pauseMs = 0): Promise<void> {
    this.#next ??= this.#begin(pauseMs);
    return this.#next;
  }

  async #begin(pauseMs: number): Promise<void> {
    // The failure of the run before belongs to its own callers.
    await this.#running?.catch(() => {});
    const wait = this.#lastStartMs + pauseMs - this.#clock();
    if (wait > 0) await delay(wait);
    this.#lastStartMs = this.#clock();
    this.#running = this.#next;
    this.#next = null;
    await this.#job();
  }
}
