/**
 * What is reported of the disk of one database: that it fails, once, and works again; what can no longer be read, and where it was put aside.
 * Takes errors and parts of files, reports them as observations; never throws.
 */
import { join } from 'node:path';
import type { Observe } from '../observe/observations.ts';
import type { SpoolFiles } from './files.ts';
import { quarantinedIn } from './quarantine.ts';
import type { Quarantined, UnreadablePart } from './quarantine.ts';
import { spoolIds } from './spool-folder.ts';

export class DiskHealth {
  readonly #database: string;
  readonly #observe: Observe;
  readonly #files: SpoolFiles;
  readonly #folder: string;
  #reason = '';
  #failures = 0;
  #quarantined: readonly Quarantined[] = [];

  /** `folder`: that of the database. */
  constructor(database: string, observe: Observe, files: SpoolFiles, folder: string) {
    this.#database = database;
    this.#observe = observe;
    this.#files = files;
    this.#folder = folder;
  }

  failed(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    // Messages of the system name a path, which is another one each time.
    const kind = (error as NodeJS.ErrnoException | null)?.code ?? reason;
    this.#failures += 1;
    if (kind !== this.#reason) this.#observe({ kind: 'spool.failed', database: this.#database, reason });
    this.#reason = kind;
  }

  /** Called when a segment was made. */
  worked(): void {
    if (this.#failures === 0) return;
    this.#observe({ kind: 'spool.works', database: this.#database, failures: this.#failures });
    this.#failures = 0;
    this.#reason = '';
  }

  /** Something can no longer be read that could be when its spool was opened, or when it was written. */
  damaged({ segment, bytes, reason, kept: place, requests }: UnreadablePart): void {
    if (reason === 'unfinished') return;
    const database = this.#database;
    this.#observe({ kind: 'spool.damaged', database, segment, bytes, requests, reason, place });
    void this.lookAside();
  }

  /** What was put aside because it cannot be read, and has not been removed by a person, as of the last look. */
  get quarantined(): readonly Quarantined[] {
    return this.#quarantined;
  }

  /** Looks at it again. Never rejects. */
  async lookAside(): Promise<void> {
    const [files, folder] = [this.#files, this.#folder];
    try {
      const ids = await spoolIds(files, folder);
      const all = await Promise.all(ids.map((id) => quarantinedIn(files, join(folder, id))));
      this.#quarantined = all.flat();
    } catch (error) {
      this.failed(error);
    }
  }
}
