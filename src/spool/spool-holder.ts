/**
 * Webhooks accepted while the database is unreachable: the spools, opened when the first table wants one or has left one behind, and what is shown of
 * them. Takes settings, the catalog that knows the tables, and the commit stage; rejects with SpoolError. Touches the spool's folder.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Pace } from '../batch/lane-rate.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { SpoolDetail, SpoolState } from './spool-state.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogRow } from '../catalog/catalog-rows.ts';
import type { CommitContext } from '../commit/group-session.ts';
import { SpoolCommit, readArrived } from '../commit/hand-over.ts';
import type { Engine } from '../engine/engine.ts';
import { lockByKernel } from '../engine/folder-lock.ts';
import type { Closable } from '../kit/closer.ts';
import { Openings } from '../kit/promises.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { segmentBytes } from '../config/effective-limits.ts';
import type { IntoRisingWave } from '../risingwave/into.ts';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import type { TableName } from '../observe/observations.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';
import type { DatabaseSpool } from './database-spool.ts';
import { Drainer } from './drainer.ts';
import { madeAtMs } from './spool-identifier.ts';
import { isSpooling, spoolFolder } from './spool-settings.ts';
import { realFiles } from './files.ts';
import { Throttle } from './throttle.ts';
import { knownTables, SpoolError, Spools } from './spools.ts';
import type { KnownTables } from './spools.ts';
import type { Settings } from '../config/settings.ts';

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

/** Rejects with SpoolError or a system error. */
function openSpools(parts: SpoolParts): Promise<Spools> {
  const { settings, commit, keys, sealing, limits, observe, clock, opened } = parts;
  const home = async (database: string) =>
    (await readArrived(commit.pools, database, noSpool, limits.catalogWaitMs)).home;
  return Spools.open({
    root: spoolFolder(settings),
    files: realFiles,
    ring: keys,
    segmentBytes: segmentBytes(settings, limits),
    bytesMax: settings.spoolBytesMax,
    random: randomBytes,
    clock,
    nowMs: Date.now,
    ageMsMax: settings.spoolHours * 3_600_000,
    ...sealing,
    lock,
    drain: (kept) => drainer(kept, parts),
    remember: (database, known, isLeft) => remember(parts, database, known, isLeft),
    ownersOf: (database) => ownersIn(parts.catalog.known(database)?.snapshot.tables ?? noTables),
    opened,
    home,
    observe,
  });
}

function remember(
  { catalog, settings }: Pick<SpoolParts, 'catalog' | 'settings'>,
  database: string,
  known: KnownTables | null,
  isLeft: boolean,
): void {
  const ageMs = known === null ? Infinity : Date.now() - known.confirmedAtMs;
  const isTrusted = ageMs <= settings.spoolTrustSeconds * 1_000;
  const rows = (isTrusted ? (known?.rows ?? []) : []).map((row) => JSON.parse(row) as CatalogRow);
  // Leftover requests need the database even if nothing else does.
  if (isTrusted || isLeft) catalog.databases.remember(database, rows, ageMs);
}

/**
 * For a process that keeps no requests itself: the tables to trust while the database is unreachable. Rejects with a system
 * error.
 */
export async function rememberTables(
  parts: Pick<SpoolParts, 'catalog' | 'settings' | 'sealing'>,
): Promise<void> {
  const { settings, sealing } = parts;
  const root = spoolFolder(settings);
  const tables = await knownTables({ root, files: realFiles, nowMs: Date.now, ...sealing });
  for (const [database, known] of tables) remember(parts, database, known, false);
}

/** Anyone who can remove files, or replace them by old ones, decides what arrives. Rejects with SpoolError. */
async function lock(folder: string): Promise<Closable | null> {
  const { uid, mode } = await stat(folder);
  // A folder of root's, such as a mounted volume, may be open to all.
  const isOurs = uid === process.getuid?.() && (mode & 0o002) === 0;
  if (!isOurs && uid !== 0)
    throw new SpoolError(`users other than Headgate's may write to the directory ${folder}`);
  return lockByKernel(folder);
}

const noTables: ReadonlyMap<string, Target> = new Map();

/** By the table's oid. A table that could not be read has no owner here: role 0 does not exist. */
const ownersIn = rememberedOf(
  (tables: ReadonlyMap<string, Target>): ReadonlyMap<number, number> =>
    new Map([...tables.values()].flatMap(({ oid, code: { owner } }) => (owner === 0 ? [] : [[oid, owner]]))),
);

/** An id that no spool has. */
const noSpool = '0'.repeat(32);

function drainer(kept: DatabaseSpool, parts: SpoolParts): Drainer {
  const { engine, catalog, lanes, commit, limits, observe, clock } = parts;
  const { database } = kept;
  const restraint = new Throttle({
    commit: new SpoolCommit(commit, parts.elsewhere),
    pace: new Pace({ ...limits, groupRowsMax: limits.spoolDrainRowsMax }),
    lanes,
    kept: () => Number(kept.own?.writer.lastSequence ?? 0n),
    isAwaited: () => [...kept.gates].some(({ state }) => state === 'emptying'),
    clock,
    limits,
  });
  const { pools } = commit;
  return new Drainer(kept, { database, engine, catalog, pools, commit: restraint, observe, clock });
}

/** The spools, opened when the first table wants one or has left one behind. */
export class SpoolHolder implements Closable {
  readonly #parts: SpoolParts;
  #spools: Spools | null = null;
  #opening: Promise<void> | null = null;
  readonly #openings = new Openings();

  constructor(parts: SpoolParts) {
    const opened = (kept: DatabaseSpool) => {
      parts.opened(kept);
      this.#openings.opened(kept.database);
    };
    this.#parts = { ...parts, opened };
  }

  /** Resolves when the spool of this database is opened. */
  opened(database: string): Promise<void> {
    return this.#openings.of(database);
  }

  get spools(): Spools | null {
    return this.#spools;
  }

  /** Whether requests for some table would be accepted now if its database were unreachable. */
  get takes(): boolean {
    const { catalog, settings } = this.#parts;
    return (this.#spools?.all ?? []).some(({ kept }) => {
      const known = catalog.known(kept.database);
      if (!kept.usable || known === null || known.ageMs > settings.spoolTrustSeconds * 1_000) return false;
      return [...known.snapshot.tables.values()].some((target) => isSpooling(target, settings));
    });
  }

  /** What is on the disk; null: nothing ever was. */
  state(): SpoolState | null {
    const opened = this.#spools;
    if (opened === null) return null;
    const tables = opened.all.flatMap(({ kept }) =>
      viewsOf(kept).map(({ oid, requests, sinceMs }) => ({
        name: this.#nameOf(kept, oid),
        requests,
        seconds: sinceMs === null ? 0 : (Date.now() - sinceMs) / 1_000,
      })),
    );
    return {
      bytes: opened.bytes,
      bytesMax: this.#parts.settings.spoolBytesMax,
      held: opened.all.reduce((sum, { drainer: it }) => sum + it.holds.length, 0),
      quarantined: opened.all.reduce((sum, { kept }) => sum + kept.health.quarantined.length, 0),
      tables,
    };
  }

  /** For /readyz; null: nothing was ever kept. `draining`: no new requests are accepted. */
  detail(draining: boolean): SpoolDetail | null {
    const state = this.state();
    if (state === null) return null;
    const { bytes, held, tables, quarantined } = state;
    return { takes: !draining && this.takes, bytes, tables: tables.length, held, damaged: quarantined };
  }

  /** For SHOW SPOOL: by the oid of a table, 0 for no table of this database, and a number. */
  shown(database: string): Readonly<Record<string, object>> {
    const open = this.#spools?.all.find(({ kept }) => kept.database === database);
    if (open === undefined) return {};
    const { kept, drainer: it } = open;
    const rows = [
      ...viewsOf(kept),
      ...it.holds.map(({ spool, oid, isForeign, reason }) => ({
        oid: isForeign ? 0 : oid,
        state: 'held',
        requests: spool.segments.reduce((sum, { counts }) => sum + (counts.get(oid)?.requests ?? 0), 0),
        sinceMs: madeAtMs(spool.id),
        reason: `${reason}: ${spool.id}`,
      })),
      ...kept.health.quarantined.map(({ path, oid, requests }) => ({
        oid: oid ?? 0,
        state: 'damaged',
        requests,
        sinceMs: null,
        reason: `it cannot be read: ${path}`,
      })),
    ];
    return Object.fromEntries(
      rows.map(({ oid, state, requests, sinceMs, reason }, i) => [
        `${oid}/${i}`,
        { state, requests, since: sinceMs === null ? null : sinceMs / 1_000, reason },
      ]),
    );
  }

  #nameOf(kept: DatabaseSpool, oid: number): TableName {
    const { database } = kept;
    const known = kept.told.get(oid) ?? this.#parts.catalog.current(database, oid);
    return { database, schema: known?.schema ?? '', table: known?.table ?? String(oid) };
  }

  /** At the start: if webhooks may already be on the disk, or the settings say that they will be. Rejects with SpoolError. */
  async start(): Promise<void> {
    const { settings } = this.#parts;
    const isWanted = settings.spool === 'fallback' || settings.spoolDir !== null;
    if (!isWanted && !existsSync(spoolFolder(settings))) return;
    const opening = openSpools(this.#parts).then((opened) => void (this.#spools = opened));
    // So that `confirmed` does not open them, too.
    this.#opening = opening.catch(() => undefined);
    await opening;
  }

  /** Called when the catalog of a database is known to match the engine. Never throws, takes no time. */
  confirmed(database: string): void {
    const { catalog, settings, observe } = this.#parts;
    const known = catalog.known(database);
    if (known === null) return;
    const { snapshot } = known;
    if (this.#spools === null) {
      const isWanted = [...snapshot.tables.values()].some((target) => isSpooling(target, settings));
      if (!isWanted || this.#opening !== null) return;
      this.#opening = openSpools(this.#parts).then(
        (opened) => {
          this.#spools = opened;
          this.confirmed(database);
        },
        (error: unknown) => {
          const reason = error instanceof Error ? error.message : String(error);
          observe({ kind: 'spool.unavailable', reason });
        },
      );
      return;
    }
    const rows = () =>
      [...snapshot.tables].flatMap(([key, target]) => {
        const source = isSpooling(target, settings) ? snapshot.sources.get(key) : undefined;
        return source === undefined ? [] : [source];
      });
    this.#spools.confirmed(database, { version: snapshot.version, rows });
  }

  spoolOf(database: string): DatabaseSpool | null {
    return this.#spools?.spoolOf(database) ?? null;
  }

  async close(): Promise<void> {
    await this.#opening;
    await this.#spools?.close();
  }
}

/** The state of a table and its spool, to be shown. */
interface GateView {
  readonly oid: number;
  readonly state: string;
  readonly requests: number;
  readonly sinceMs: number | null;
  readonly reason: string | null;
}

function viewsOf({ gates, shares: { counts } }: DatabaseSpool): readonly GateView[] {
  return [...gates].flatMap(({ oid, state, sinceMs, reason }) =>
    state === 'open' ? [] : [{ oid, state, requests: counts.get(oid)?.requests ?? 0, sinceMs, reason }],
  );
}
