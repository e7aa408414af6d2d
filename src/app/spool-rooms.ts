/**
 * Webhooks that are taken while the database is away, joined: the spools with the catalog that knows the tables, the commit
 * room that takes what is handed over, and refused requests. Part of the composition root.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Pace } from '../batch/pace.ts';
import type { SpoolDetail } from '../admin/admin.ts';
import type { SpoolState } from '../admin/spool-metrics.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { tableKey } from '../catalog/snapshot.ts';
import type { CatalogRow } from '../catalog/snapshot.ts';
import type { CommitOptions } from '../commit/commit.ts';
import { createHandOver, passWith, readArrived } from '../commit/hand-over.ts';
import { decodeRequest } from '../decode/decode.ts';
import type { Engine } from '../engine/engine.ts';
import { lockByKernel } from '../engine/folder-lock.ts';
import { createSpooling } from '../ingest/spooling.ts';
import type { IngestRooms } from '../ingest/ingest.ts';
import type { Closable } from '../kit/closer.ts';
import { segmentBytes } from './bounds.ts';
import type { Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';
import type { Observe, TableName } from '../tables/observations.ts';
import { Refused } from '../tables/refusals.ts';
import { keepSpooled } from '../reject/spooled.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';
import type { DatabaseSpool } from '../spool/database-spool.ts';
import { Drainer } from '../spool/drainer.ts';
import { realFiles } from '../spool/files.ts';
import { Spools } from '../spool/spools.ts';
import type { Settings } from '../tables/settings.ts';

export interface SpoolParts {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly keys: KeyRing;
  readonly sealing: Sealing;
  readonly catalog: Catalog;
  readonly commit: CommitOptions;
  readonly lanes: Lanes;
  readonly limits: Limits;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** Webhooks come to this process; otherwise what one process has left is handed over, and nothing is kept. */
  readonly takes: boolean;
}

export function spoolFolder({ spoolDir, dataDir }: Pick<Settings, 'spoolDir' | 'dataDir'>): string {
  return resolve(spoolDir ?? join(dataDir, 'spool'));
}

/** Whether requests of a table are kept while its database is away. */
export function isSpooling({ spool }: Pick<Target, 'spool'>, settings: Pick<Settings, 'spool'>): boolean {
  return (spool?.mode ?? settings.spool) === 'fallback';
}

/** Rejects with SpoolError, and with the system's errors. */
function openSpools(parts: SpoolParts): Promise<Spools> {
  const { settings, catalog, commit, keys, sealing, limits, observe, clock } = parts;
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
    seal: (text, identity) => sealing.seal(text, identity),
    open: (sealed, identity) => sealing.open(sealed, identity),
    lock: (folder) => lockByKernel(folder),
    drain: (kept) => drainer(kept, parts),
    remember: (database, known, isLeft) => {
      const ageMs = known === null ? Infinity : Date.now() - known.confirmedAtMs;
      const isTrusted = ageMs <= settings.spoolTrustSeconds * 1_000;
      const rows = (isTrusted ? (known?.rows ?? []) : []).map((row) => JSON.parse(row) as CatalogRow);
      // Where nothing else needs the database, what is left for it does.
      if (isTrusted || isLeft) catalog.remember(database, rows, ageMs);
    },
    home,
    observe,
  });
}

/** No spool has this id. */
const noSpool = '0'.repeat(32);

function drainer(kept: DatabaseSpool, parts: SpoolParts): Drainer {
  const { engine, catalog, commit, limits, observe, clock } = parts;
  const { database } = kept;
  const { pools } = commit;
  const arrived = (spool: string) => readArrived(pools, database, spool, limits.catalogWaitMs);
  return new Drainer(kept, {
    ready: () => engine.unavailable === null && catalog.isWatching(database),
    current: (oid) => catalog.current(database, oid),
    refresh: () => catalog.refresh(database),
    decode: (target, { rawHeaders, arrivedAtMs }, body) =>
      decodeRequest(target, { body, rawHeaders, arrivedAtMs }),
    handOver: createHandOver(commit),
    keepRefused: (request, oid, passage) =>
      passWith(pools, { database, oid }, passage, keepSpooled(request, limits), limits.ackDeadlineMs),
    position: async (spool, oid) => (await arrived(spool)).positions.get(oid) ?? 0n,
    arrived,
    pace: new Pace(limits),
    observe,
    clock,
    nowMs: Date.now,
    random: Math.random,
  });
}

const severalProcesses =
  'requests are kept on the disk by one process only: set HEADGATE_LISTENERS=1, or HEADGATE_SPOOL=fallback';

/** The spools, opened when the first table wants one, or has left one behind. */
export class SpoolHolder implements Closable {
  readonly #parts: SpoolParts;
  #spools: Spools | null = null;
  #opening: Promise<void> | null = null;

  constructor(parts: SpoolParts) {
    this.#parts = parts;
  }

  get spools(): Spools | null {
    return this.#spools;
  }

  /** Whether requests of some table would be taken now if its database were away. */
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
      kept.views().map(({ oid, requests, sinceMs }) => ({
        name: this.#nameOf(kept, oid),
        requests,
        seconds: sinceMs === null ? 0 : (Date.now() - sinceMs) / 1_000,
      })),
    );
    return {
      bytes: opened.bytes,
      held: opened.all.reduce((sum, { drainer: it }) => sum + it.holds, 0),
      tables,
    };
  }

  /** For /readyz; null: nothing was ever kept. `draining`: nothing is taken any more. */
  detail(draining: boolean): SpoolDetail | null {
    const state = this.state();
    if (state === null) return null;
    const { bytes, held, tables } = state;
    return { takes: !draining && this.takes, bytes, tables: tables.length, held };
  }

  /** For SHOW SPOOL, by oid. */
  shown(database: string): Readonly<Record<string, object>> {
    const open = this.#spools?.all.find(({ kept }) => kept.database === database);
    return Object.fromEntries(
      (open?.kept.views() ?? []).map(({ oid, state, requests, sinceMs, reason }) => [
        String(oid),
        { state, requests, since: sinceMs === null ? null : sinceMs / 1_000, reason },
      ]),
    );
  }

  #nameOf(kept: DatabaseSpool, oid: number): TableName {
    const { database } = kept;
    const known = kept.told.get(oid) ?? this.#parts.catalog.current(database, oid);
    return { database, schema: known?.schema ?? '', table: known?.table ?? String(oid) };
  }

  /** At the start: where webhooks may be on the disk already, or the setting says that they will. Rejects with SpoolError. */
  async start(): Promise<void> {
    const { settings } = this.#parts;
    const isWanted = settings.spool === 'fallback' || settings.spoolDir !== null;
    if (isWanted || existsSync(spoolFolder(settings))) this.#spools = await openSpools(this.#parts);
  }

  /** The catalog of a database is what the engine has. Never throws, takes no time. */
  confirmed(database: string): void {
    const { catalog, settings, observe, takes } = this.#parts;
    const known = catalog.known(database);
    if (known === null) return;
    const { snapshot } = known;
    if (this.#spools === null) {
      const isWanted = [...snapshot.tables.values()].some((target) => isSpooling(target, settings));
      if (!isWanted || this.#opening !== null) return;
      if (!takes) {
        this.#opening = Promise.resolve();
        observe({ kind: 'spool.unavailable', reason: severalProcesses });
        return;
      }
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
    // What is left is handed over; nothing comes to it here.
    if (!takes) return this.#spools.wake(database);
    const rows = () =>
      [...snapshot.tables].flatMap(([key, target]) => {
        const source = isSpooling(target, settings) ? snapshot.sources.get(key) : undefined;
        return source === undefined ? [] : [source];
      });
    this.#spools.confirmed(database, { version: snapshot.version, rows });
  }

  /** The stages of a request; those that have nothing to do with the disk go as they would without it. */
  stages(): Pick<IngestRooms, 'find' | 'admit' | 'submit'> {
    const { settings, catalog, lanes, limits, observe, clock } = this.#parts;
    const trustMs = settings.spoolTrustSeconds * 1_000;
    return createSpooling({
      find: (name) => catalog.find(name),
      admit: (target, bytes) => lanes.admit(target, limits.ackDeadlineMs, { bytes, inOrder: false }),
      submit: (rows) => lanes.submit(rows),
      isWatching: (database) => catalog.isWatching(database),
      remembered: ({ database, schema, table }: TableName) => {
        const known = catalog.known(database);
        if (known === null || known.ageMs > trustMs) return null;
        return known.snapshot.tables.get(tableKey(schema, table)) ?? null;
      },
      spools: (target) => isSpooling(target, settings),
      spoolOf: (database) => this.#spools?.spoolOf(database) ?? null,
      pause: (ms) => delay(ms, undefined, { ref: false }),
      observe,
      clock,
      nowMs: Date.now,
    });
  }

  /** Throws Refused where rows of this table that do not go through the disk would overtake those that do. */
  refuseOvertaking({ database, oid }: Target): void {
    const gate = this.#spools?.spoolOf(database)?.knownGate(oid) ?? null;
    if (gate !== null && gate.state !== 'open') throw new Refused('spooling');
  }

  async close(): Promise<void> {
    await this.#opening;
    await this.#spools?.close();
  }
}
