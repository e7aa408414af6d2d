/**
 * What is known of a database's webhook tables, and how it is brought up to date: all of them are read or, if there are many, those whose
 * version has changed (headgate.catalog_versions). A change that the versions do not cover is found when everything is read, and when a group
 * asks the engine whether the table is still what its requests were checked for (functions/committing.sql).
 */
import type { ClientBase } from 'pg';
import type { Limits } from '../config/limits.ts';
import { readAround } from './around.ts';
import type { LeftOut } from './around.ts';
import {
  fingerprintOf,
  pinned,
  readFingerprint,
  readLocked,
  readSome,
  readTables,
  readVersions,
} from './reading.ts';
import type { TableRows, TableVersions } from './reading.ts';
import { emptySnapshot, nextSnapshot, tableKey } from './snapshot.ts';
import type { CatalogRow, UnreadRow } from './catalog-rows.ts';
import type { Snapshot, SnapshotDeps } from './snapshot.ts';

interface PictureOptions {
  readonly database: string;
  readonly deps: SnapshotDeps;
  readonly limits: Pick<Limits, 'catalogWholeMax' | 'catalogWholeMs'>;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

interface Why {
  /** The engine has notified of a change. */
  readonly isTold: boolean;
  /** Tables, by oid, that are to be read whatever their versions; null: all of them. */
  readonly doubted: ReadonlySet<number> | null;
}

const noTables: TableRows = { rows: [], unread: [] };

/** Oid 0 is not a table, see catalog_versions. */
function hasTables(versions: TableVersions): boolean {
  return versions.size > (versions.has(0) ? 1 : 0);
}

export class Picture {
  readonly #options: PictureOptions;
  #snapshot: Snapshot = emptySnapshot;
  /** The versions of the tables in the snapshot; null: nothing in it was read over this connection. */
  #versions: TableVersions | null = null;
  #fingerprint = '';
  /** False: a row was left behind that headgate.settle() removes. Its table was dropped too late for the last run, or somebody had locked it. */
  #isSettled = true;
  #wholeAtMs = 0;
  /** The last read was of some tables only … */
  #isPatched = false;
  #left: LeftOut = { locked: [], faulty: new Map() };
  /** When the first of the faulty tables was left out. */
  #faultyAtMs = 0;

  constructor(options: PictureOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** Something can be read once a lock is gone, of which nothing notifies. */
  get waits(): boolean {
    return this.#left.locked.length > 0;
  }

  /** … or something is unusable for a reason that may be fixed elsewhere, as in a table that takes part. */
  get #isDoubtful(): boolean {
    return this.#isPatched || this.#snapshot.unusable.size > 0;
  }

  /** What an earlier process knew; for a process that has read nothing yet. */
  remember(rows: readonly CatalogRow[]): void {
    const { database, deps } = this.#options;
    this.#snapshot = nextSnapshot(this.#snapshot, database, { rows, unread: [] }, deps);
  }

  /** Another connection may lead to another server: nothing is assumed to be unchanged. */
  begin(): void {
    this.#versions = null;
  }

  /** Returns the previous snapshot if there is a new one. Throws the error that breaks the connection. */
  async update(client: ClientBase, { isTold, doubted }: Why): Promise<Snapshot | null> {
    const { clock, limits, database, deps } = this.#options;
    const isWhole =
      doubted === null ||
      this.#versions === null ||
      (this.#isDoubtful && clock() - this.#wholeAtMs > limits.catalogWholeMs);
    const isSure = !isWhole && doubted.size === 0;
    const isStill = isSure && !isTold && !this.waits && this.#isSettled;
    if (isStill && (await readFingerprint(client)) === this.#fingerprint) return null;
    // Renaming or dropping a role has changed the fingerprint, too.
    if (this.#versions !== null) await pinned(client, 'call headgate.settle()');
    // Before the rows: anything that changes in between has another version next time.
    const { versions, isSettled } = await readVersions(client);
    this.#isSettled = isSettled;
    const fingerprint = fingerprintOf(versions);
    const isSame = isSure && fingerprint === this.#fingerprint;
    if (isSame && !(await this.#isAnyFree(client))) return null;
    const changed = isWhole ? null : this.#changedSince(versions, doubted);
    const before = this.#snapshot;
    if (changed === null) this.#wholeAtMs = clock();
    const { read, rows, ...left } = await readAround(client, this.#known(), (which) => {
      if (!hasTables(versions)) return Promise.resolve(noTables);
      return changed === null ? readTables(client, which) : readSome(client, [...changed], which);
    });
    // What is known of a table that was left out stays if its version is the same; a commit asks again, once it has the lock.
    const isKnown = ({ relation: oid, schema_name: schema, table_name: table }: UnreadRow) =>
      before.tables.get(tableKey(schema, table))?.oid === oid &&
      versions.get(oid) === this.#versions?.get(oid);
    const stays = new Set(rows.filter(isKnown).map(({ relation }) => relation));
    const unread = [...read.unread, ...rows.filter(({ relation }) => !stays.has(relation))];
    this.#snapshot = nextSnapshot(before, database, { rows: read.rows, unread }, deps, ({ oid }) =>
      changed === null ? stays.has(oid) : versions.has(oid) && (!changed.has(oid) || stays.has(oid)),
    );
    if (this.#left.faulty.size === 0 || left.faulty.size === 0) this.#faultyAtMs = clock();
    this.#left = left;
    this.#isPatched = changed !== null;
    this.#versions = versions;
    this.#fingerprint = fingerprint;
    return before;
  }

  async #isAnyFree(client: ClientBase): Promise<boolean> {
    const locked = new Set(this.waits ? await readLocked(client) : []);
    return this.#left.locked.some((oid) => !locked.has(oid));
  }

  /** Faulty tables are left out without another try for some time, whatever becomes of them: finding them takes many readings. */
  #known(): LeftOut {
    const { clock, limits } = this.#options;
    const isDue = clock() - this.#faultyAtMs > limits.catalogWholeMs;
    if (isDue) this.#faultyAtMs = clock();
    return isDue ? { ...this.#left, faulty: new Map() } : this.#left;
  }

  /** By oid; null: reading all of them is faster. Unusable tables are read again: their key may have come back. */
  #changedSince(versions: TableVersions, doubted: ReadonlySet<number>): ReadonlySet<number> | null {
    const { catalogWholeMax } = this.#options.limits;
    if (versions.size <= catalogWholeMax) return null;
    const { tables, unusable, unanswering } = this.#snapshot;
    const changed = new Set([...doubted, ...this.#left.locked].filter((oid) => versions.has(oid)));
    for (const [oid, version] of versions)
      if (oid !== 0 && this.#versions?.get(oid) !== version) changed.add(oid);
    for (const key of [...unusable.keys(), ...unanswering.keys()]) {
      const oid = tables.get(key)?.oid;
      if (oid !== undefined && versions.has(oid)) changed.add(oid);
    }
    return changed.size > versions.size / 2 ? null : changed;
  }
}
