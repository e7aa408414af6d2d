/**
 * What is known of a database's webhook tables, and how it is brought up to date: all of them are read, or, where there are many, those whose
 * version has changed (headgate.catalog_versions). What is not among a table's versions is found when all is read, and when a group asks the engine whether
 * the table still is what its requests were checked for (functions/committing.sql).
 */
import type { ClientBase } from 'pg';
import type { Limits } from '../tables/limits.ts';
import { fingerprintOf, pinned, readFingerprint, readSome, readTables, readVersions } from './reading.ts';
import type { TableRows, TableVersions } from './reading.ts';
import { emptySnapshot, nextSnapshot } from './snapshot.ts';
import type { CatalogRow } from './catalog-rows.ts';
import type { Snapshot, SnapshotDeps } from './snapshot.ts';

interface PictureOptions {
  readonly database: string;
  readonly deps: SnapshotDeps;
  readonly limits: Pick<Limits, 'catalogWholeMax' | 'catalogWholeMs'>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

interface Why {
  /** The engine has told of a change. */
  readonly isTold: boolean;
  /** Tables, by oid, that are to be read whatever their versions say; null: all of them. */
  readonly doubted: ReadonlySet<number> | null;
}

const noTables: TableRows = { rows: [], unread: [] };

/** 0 is none, see catalog_versions. */
function hasTables(versions: TableVersions): boolean {
  return versions.size > (versions.has(0) ? 1 : 0);
}

export class Picture {
  readonly #options: PictureOptions;
  #snapshot: Snapshot = emptySnapshot;
  /** Those of the snapshot; null: nothing of it was read over this connection. */
  #versions: TableVersions | null = null;
  #fingerprint = '';
  #wholeAtMs = 0;
  /** Something was read since by itself … */
  #isPatched = false;

  constructor(options: PictureOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** … or something cannot be used for a reason that may be mended elsewhere, as in a table that takes part. */
  get #isDoubtful(): boolean {
    return this.#isPatched || this.#snapshot.unusable.size > 0;
  }

  /** What an earlier process knew, where this one has read nothing yet. */
  remember(rows: readonly CatalogRow[]): void {
    const { database, deps } = this.#options;
    this.#snapshot = nextSnapshot(this.#snapshot, database, { rows, unread: [] }, deps);
  }

  /** Another connection may lead to another server: nothing is taken for unchanged. */
  begin(): void {
    this.#versions = null;
  }

  /** Gives the snapshot before, where there is a new one. Throws what breaks the connection. */
  async update(client: ClientBase, { isTold, doubted }: Why): Promise<Snapshot | null> {
    const { clock, limits, database, deps } = this.#options;
    const isWhole =
      doubted === null ||
      this.#versions === null ||
      (this.#isDoubtful && clock() - this.#wholeAtMs > limits.catalogWholeMs);
    const isSure = !isWhole && doubted.size === 0;
    if (isSure && !isTold && (await readFingerprint(client)) === this.#fingerprint) return null;
    // Roles that were renamed or dropped, too, have changed the fingerprint.
    if (this.#versions !== null) await pinned(client, 'call headgate.settle()');
    // Before the rows: what changes in between has another version the next time.
    const versions = await readVersions(client);
    const fingerprint = fingerprintOf(versions);
    if (isSure && fingerprint === this.#fingerprint) return null;
    const changed = isWhole ? null : this.#changedSince(versions, doubted);
    const before = this.#snapshot;
    if (changed === null) {
      this.#wholeAtMs = clock();
      const read = hasTables(versions) ? await readTables(client) : noTables;
      this.#snapshot = nextSnapshot(before, database, read, deps);
    } else {
      const read = await readSome(client, [...changed]);
      this.#snapshot = nextSnapshot(
        before,
        database,
        read,
        deps,
        ({ oid }) => versions.has(oid) && !changed.has(oid),
      );
    }
    this.#isPatched = changed !== null;
    this.#versions = versions;
    this.#fingerprint = fingerprint;
    return before;
  }

  /** By oid; null: all of them are read more quickly. What could not be used is looked at anew: its key may have come back. */
  #changedSince(versions: TableVersions, doubted: ReadonlySet<number>): ReadonlySet<number> | null {
    const { catalogWholeMax } = this.#options.limits;
    if (versions.size <= catalogWholeMax) return null;
    const { tables, unusable, unanswering } = this.#snapshot;
    const changed = new Set([...doubted].filter((oid) => versions.has(oid)));
    for (const [oid, version] of versions)
      if (oid !== 0 && this.#versions?.get(oid) !== version) changed.add(oid);
    for (const key of [...unusable.keys(), ...unanswering.keys()]) {
      const oid = tables.get(key)?.oid;
      if (oid !== undefined && versions.has(oid)) changed.add(oid);
    }
    return changed.size > versions.size / 2 ? null : changed;
  }
}
