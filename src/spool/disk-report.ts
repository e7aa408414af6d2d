/**
 * Reports a disk that fails once for all failures of one kind, and their number once it works again: a full disk fails for every request.
 * Takes what happens, returns nothing.
 */
import type { Observe } from '../observe/observations.ts';

interface DiskReportOptions {
  readonly database: string;
  readonly observe: Observe;
}

export class DiskReport {
  readonly #options: DiskReportOptions;
  #reason = '';
  #failures = 0;

  constructor(options: DiskReportOptions) {
    this.#options = options;
  }

  readonly failed = (error: unknown): void => {
    const { database, observe } = this.#options;
    const reason = error instanceof Error ? error.message : String(error);
    // Messages of the system name a path, which is another one each time.
    const kind = (error as NodeJS.ErrnoException | null)?.code ?? reason;
    this.#failures += 1;
    if (kind !== this.#reason) observe({ kind: 'spool.failed', database, reason });
    this.#reason = kind;
  };

  readonly worked = (): void => {
    if (this.#failures === 0) return;
    const { database, observe } = this.#options;
    observe({ kind: 'spool.works', database, failures: this.#failures });
    this.#failures = 0;
    this.#reason = '';
  };
}
