/**
 * What is reported of the disk of one database: that it fails, once, and works again; what can no longer be read, and where it was put aside.
 * Takes errors and parts of files, reports them as observations; never throws.
 */
import { join } from 'node:path';
import type { Observe } from '../observe/observations.ts';
import type { SpoolFiles } from './files.ts';
import { spoolIds } from './spool-folder.ts';

/** A part that can no longer be read. */
export interface UnreadablePart {
  /** Name of the segment's file, or of the copy. */
  readonly segment: string;
  readonly bytes: number;
  /** `unfinished`: it was being written when the process ended, and no sender was told that it is kept. */
  readonly reason:
    | 'damaged'
    | 'its header is damaged'
    | 'no header'
    | 'of another spool'
    | 'the file is missing'
    | 'the file was cut'
    | 'unfinished';
  /** Where it was put aside; null: nothing is left of it. */
  readonly kept: string | null;
  /** How many requests were in it; null: nothing tells. */
  readonly requests: number | null;
}

/** A file of `quarantine/`. */
interface Quarantined {
  readonly path: string;
  /** null: nothing tells whose requests were in it. */
  readonly oid: number | null;
  readonly requests: number | null;
}

/** The folder of what was put aside of a spool (quarantine.ts). */
export function quarantineIn(spoolFolder: string): string {
  return join(spoolFolder, 'quarantine');
}

/** What was put aside of a spool, and has not been removed by a person. */
export async function quarantinedIn(files: SpoolFiles, spoolFolder: string): Promise<readonly Quarantined[]> {
  const folder = quarantineIn(spoolFolder);
  return (await files.list(folder)).toSorted().map((name) => {
    const [, oid, requests] = /^\d+-\d+(?:-table-(\d+))?(?:-requests-(\d+))?\.bin$/.exec(name) ?? [];
    return {
      path: join(folder, name),
      oid: oid === undefined ? null : Number(oid),
      requests: requests === undefined ? null : Number(requests),
    };
  });
}

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
