/**
 * Reports a disk that fails once for all failures of one kind, and their number once it works again: a full disk fails for every request.
 * Takes what happens, returns nothing.
 */
import type { Observe } from '../observe/observations.ts';

export class DiskReport {
  readonly #database: string;
  readonly #observe: Observe;
  #reason = '';
  #failures = 0;

  constructor(database: string, observe: Observe) {
    this.#database = database;
    this.#observe = observe;
  }

  readonly failed = (error: unknown): void => {
    const reason = error instanceof Error ? error.message : String(error);
    // Messages of the system name a path, which is another one each time.
    const kind = (error as NodeJS.ErrnoException | null)?.code ?? reason;
    this.#failures += 1;
    if (kind !== this.#reason) this.#observe({ kind: 'spool.failed', database: this.#database, reason });
    this.#reason = kind;
  };

  readonly worked = (): void => {
    if (this.#failures === 0) return;
    this.#observe({ kind: 'spool.works', database: this.#database, failures: this.#failures });
    this.#failures = 0;
    this.#reason = '';
  };
}
