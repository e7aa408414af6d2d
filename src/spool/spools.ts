/**
 * The spools of all databases, in one folder, which this process alone may use: opened when the first table wants one or has left one behind. Takes
 * settings, the catalog that knows the tables, and the commit stage; returns the spool of a database. Rejects with SpoolError and the system's
 * errors. Touches its folder alone.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Pace } from '../batch/lane-rate.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Snapshot } from '../catalog/database-tables.ts';
import type { CommitContext } from '../commit/session.ts';
import { readArrived, SpoolCommit } from '../commit/hand-over.ts';
import { segmentBytes, limits as allLimits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import type { Engine } from '../engine/engine.ts';
import type { Closable } from '../kit/closer.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { Openings } from '../kit/promises.ts';
import type { StageContext } from '../observe/context.ts';
import type { IntoRisingWave } from '../risingwave/into.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';
import type { Target } from '../types/target.ts';
import { DatabaseSpool } from './database-spool.ts';
import { Drainer } from './drainer.ts';
import { realFiles } from './files.ts';
import { readKnown, remember, writeKnown } from './known-tables.ts';
import { databaseOf, folderOf, lockSpoolFolder, spoolFolder } from './spool-folder.ts';
import { isSpooling } from './table-order.ts';
import { Throttle } from './throttle.ts';

export interface SpoolParts extends StageContext {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly keys: KeyRing;
  readonly sealing: Sealing;
  readonly catalog: Catalog;
  readonly commit: CommitContext;
  readonly elsewhere: IntoRisingWave;
  readonly lanes: Pick<Lanes, 'taken'>;
  /** Called for each spool that is opened. */
  readonly opened: (kept: DatabaseSpool) => void;
}

interface OpenDatabase {
  readonly kept: DatabaseSpool;
  readonly drainer: Drainer;
  writtenVersion: number;
  writtenAtMs: number;
}

export class Spools implements Closable {
  readonly #parts: SpoolParts;
  readonly #root: string;
  readonly #databases = new Map<string, OpenDatabase>();
  readonly #openings = new Openings();
  /** null: the folder is not open. */
  #lock: Closable | null = null;
  #opening: Promise<void> | null = null;
  /** The work in progress for each database, one after another. */
  readonly #running = new Map<string, Promise<void>>();
  /** Why what is known of the tables of a database could not be written last. */
  readonly #unwritten = new Map<string, string>();
  #closed = false;

  constructor(parts: SpoolParts) {
    this.#parts = parts;
    this.#root = spoolFolder(parts.settings);
  }

  /** null: none was opened. */
  spoolOf(database: string): DatabaseSpool | null {
    return this.#lock === null ? null : (this.#databases.get(database)?.kept ?? null);
  }

  /** Resolves when the spool of this database is opened. */
  opened(database: string): Promise<void> {
    return this.#openings.of(database);
  }

  /** null: nothing was ever kept. */
  get all(): readonly { readonly kept: DatabaseSpool; readonly drainer: Drainer }[] | null {
    return this.#lock === null ? null : [...this.#databases.values()];
  }

  /** At the start: if webhooks may already be on the disk, or the settings say that they will be. Rejects with SpoolError. */
  async start(): Promise<void> {
    const { spool, spoolDir } = this.#parts.settings;
    if (spool !== 'fallback' && spoolDir === null && !existsSync(this.#root)) return;
    const opening = this.#open();
    // So that `confirmed` does not open them, too.
    this.#opening = opening.catch(() => undefined);
    await opening;
  }

  /** Called when the catalog of a database is known to match the engine. Never throws, takes no time. */
  confirmed(database: string): void {
    const { catalog, settings, observe } = this.#parts;
    const known = catalog.known(database);
    if (known === null) return;
    if (this.#lock !== null) return this.#keepUp(database, known.snapshot);
    const isWanted = [...known.snapshot.tables.values()].some((target) => isSpooling(target, settings));
    if (!isWanted || this.#opening !== null) return;
    this.#opening = this.#open().then(
      () => this.confirmed(database),
      (error: unknown) => observe({ kind: 'spool.unavailable', reason: textOf(error) }),
    );
  }

  async close(): Promise<void> {
    await this.#opening;
    await this.#closeAll();
    await this.#lock?.close();
  }

  async #open(): Promise<void> {
    await realFiles.makeFolder(this.#root);
    const lock = await lockSpoolFolder(this.#root);
    try {
      for (const name of await realFiles.list(this.#root)) {
        const database = databaseOf(name);
        if (database !== null) await this.#openDatabase(database, null);
      }
    } catch (error) {
      await this.#closeAll();
      await lock.close();
      throw error;
    }
    this.#lock = lock;
  }

  async #closeAll(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#running.values());
    for (const { drainer } of this.#databases.values()) await drainer.close();
    for (const [database, { drainer }] of this.#databases) {
      const { waiting: requests } = drainer;
      if (requests > 0)
        this.#parts.observe({ kind: 'spool.waiting', database, requests, folder: this.#folderOf(database) });
    }
    for (const { kept } of this.#databases.values()) await kept.close();
  }

  /** Wakes the drainer, and writes what is known of the tables if that was long ago, or has changed. */
  #keepUp(database: string, snapshot: Snapshot): void {
    if (this.#closed || this.#running.has(database)) return;
    const open = this.#databases.get(database);
    const { clock } = this.#parts;
    open?.kept.wake();
    const isRecent = open !== undefined && clock() - open.writtenAtMs < allLimits.spoolSnapshotMs;
    if (isRecent && open.writtenVersion === snapshot.version) return;
    const run = this.#write(database, snapshot)
      .then(
        () => void this.#unwritten.delete(database),
        (error: unknown) => this.#tellUnwritten(database, error),
      )
      .finally(() => this.#running.delete(database));
    this.#running.set(database, run);
  }

  async #write(database: string, { tables, sources, version }: Snapshot): Promise<void> {
    const { settings, sealing, clock } = this.#parts;
    const rows = [...tables].flatMap(([key, target]) => {
      const source = isSpooling(target, settings) ? sources.get(key) : undefined;
      return source === undefined ? [] : [source];
    });
    const known = this.#databases.get(database);
    if (rows.length === 0 && known === undefined) return;
    const [confirmedAtMs, startedMs] = [Date.now(), clock()];
    const home = await this.#homeOf(database).catch(() => null);
    // The database is unreachable again; it will be confirmed later.
    if (home === null) return;
    const open = known ?? (await this.#openDatabase(database, home));
    open.kept.home = home;
    await writeKnown(this.#folderOf(database), database, { home, confirmedAtMs, rows }, sealing);
    if (rows.length > 0) await open.kept.prepare();
    open.writtenVersion = version;
    open.writtenAtMs = startedMs;
  }

  /** It is tried again with each confirmation, twice a second. */
  #tellUnwritten(database: string, error: unknown): void {
    // Messages of the system name a path, which is another one each time.
    const kind = (error as NodeJS.ErrnoException | null)?.code ?? textOf(error);
    if (this.#unwritten.get(database) === kind) return;
    this.#unwritten.set(database, kind);
    this.#parts.observe({ kind: 'spool.failed', database, reason: textOf(error) });
  }

  /** headgate.home(); rejects if the database cannot be asked. */
  async #homeOf(database: string): Promise<string> {
    const { commit, limits } = this.#parts;
    return (await readArrived(commit.pools, database, noSpool, limits.catalogWaitMs)).home;
  }

  #folderOf(database: string): string {
    return join(this.#root, folderOf(database));
  }

  /** `home`: what the database has answered; null: it was not asked. */
  async #openDatabase(database: string, home: string | null): Promise<OpenDatabase> {
    const folder = this.#folderOf(database);
    await realFiles.makeFolder(folder);
    await realFiles.syncFolder(this.#root);
    const kept = await this.#openSpool(database, folder);
    const known = await readKnown(folder, database, this.#parts.sealing);
    const ownHome = home ?? known?.home;
    if (ownHome !== undefined) kept.home = ownHome;
    const isLeft = kept.spools.some(({ segments }) => segments.length > 0);
    remember(this.#parts, database, known, isLeft);
    const open = { kept, drainer: drainerOf(kept, this.#parts), writtenVersion: -1, writtenAtMs: 0 };
    this.#databases.set(database, open);
    this.#parts.opened(kept);
    this.#openings.opened(database);
    if (known !== null && known.rows.length > 0) await kept.prepare();
    return open;
  }

  #openSpool(database: string, folder: string): Promise<DatabaseSpool> {
    const { settings, keys, catalog, limits, observe, clock } = this.#parts;
    const kept = () => [...this.#databases.values()].map((open) => open.kept);
    const bytesMax = settings.spoolBytesMax;
    const disk = {
      bytesMax,
      ownersOf: (name: string) => ownersIn(catalog.known(name)?.snapshot.tables ?? noTables),
      shares: () => kept().map(({ shares }) => shares),
    };
    return DatabaseSpool.open({
      database,
      folder,
      files: realFiles,
      ring: keys,
      segmentBytes: segmentBytes(settings, limits),
      bytesLeft: () => kept().reduce((left, { bytes }) => left - bytes, bytesMax),
      disk,
      ageMsMax: settings.spoolHours * 3_600_000,
      random: randomBytes,
      clock,
      nowMs: Date.now,
      observe,
    });
  }
}

function drainerOf(kept: DatabaseSpool, parts: SpoolParts): Drainer {
  const { engine, catalog, lanes, commit, limits, observe, clock } = parts;
  const { database } = kept;
  const throttle = new Throttle({
    pace: new Pace({ ...limits, groupRowsMax: limits.spoolDrainRowsMax }),
    lanes,
    kept: () => Number(kept.own?.writer.lastSequence ?? 0n),
    isAwaited: () => [...kept.gates].some(({ state }) => state === 'emptying'),
    clock,
    limits,
  });
  const stages = { database, engine, catalog, pools: commit.pools, throttle, observe, clock };
  return new Drainer(kept, { ...stages, commit: new SpoolCommit(commit, parts.elsewhere) });
}

const noTables: ReadonlyMap<string, Target> = new Map();

/** By the table's oid. A table that could not be read has no owner here: role 0 does not exist. */
const ownersIn = rememberedOf(
  (tables: ReadonlyMap<string, Target>): ReadonlyMap<number, number> =>
    new Map([...tables.values()].flatMap(({ oid, code: { owner } }) => (owner === 0 ? [] : [[oid, owner]]))),
);

/** An id that no spool has. */
const noSpool = '0'.repeat(32);

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
