/**
 * The catalog of one database: a snapshot and whatever keeps it true.
 *
 * States, changed by `#become` only:
 *   connecting  no connection, or one whose snapshot is not read yet: `find` waits, at most `catalogWaitMs`.
 *   watching    the snapshot is what the engine reported last, and the engine notifies of changes (LISTEN), or is
 *               polled if it cannot (no event triggers, a pooler in between).
 *   absent      the database has no catalog and none was to be created; final.
 *   closed      final.
 *
 *   connecting ──snapshot read──► watching ──connection lost──► connecting
 *        └──no schema headgate──► absent          any ──close──► closed
 *
 * In any other state than watching, nothing but handshakes (`lastKnown`) is answered from memory: changes made in the meantime
 * are unknown, and a revoked key must not be accepted. Refuses with `not_found` and `engine_unavailable`. Uses one connection.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { hangUp } from '../engine/hang-up.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { within } from '../kit/within.ts';
import type { Target } from '../tables/flow.ts';
import { deferred } from '../kit/deferred.ts';
import type { Limits } from '../tables/limits.ts';
import type { Observe, TableName } from '../tables/observations.ts';
import { Refused } from '../tables/refusals.ts';
import { catalogVersion, migrate } from './migrate.ts';
import type { Migrations } from './migrate.ts';
import { Refresher } from './refresher.ts';
import { hears, listen, readChannels, unlisten } from './listening.ts';
import type { ChannelNames } from './listening.ts';
import { Picture } from './picture.ts';
import { keepPlan, pinned, readForeignSecrets, readOwned, readOwnedBy } from './reading.ts';
import { keyProblem, sealOldChecks } from './sealed.ts';
import type { KeyDeps } from './sealed.ts';
import { keyOfName } from './snapshot.ts';
import { settle } from './writer.ts';
import type { CatalogRow } from './catalog-rows.ts';
import type { Snapshot, SnapshotDeps } from './snapshot.ts';

export type CatalogState = 'connecting' | 'watching' | 'absent' | 'closed';

export interface Known {
  readonly snapshot: Snapshot;
  readonly ageMs: number;
}

export interface DatabaseCatalogOptions {
  readonly database: string;
  readonly engine: Engine;
  readonly migrations: Migrations;
  readonly deps: SnapshotDeps & KeyDeps;
  readonly limits: Pick<
    Limits,
    | 'catalogWaitMs'
    | 'catalogMissIntervalMs'
    | 'catalogMissRestTimes'
    | 'catalogWholeMax'
    | 'catalogWholeMs'
    | 'catalogPollIntervalMs'
    | 'catalogHeartbeatMs'
    | 'catalogEchoMs'
    | 'handshakeStaleMs'
    | 'explainTablesMax'
    | 'engineBackoffMs'
  >;
  readonly observe: Observe;
  /** Called whenever the catalog of this database exists and has been read. */
  readonly served?: (database: string) => void;
  /** Called whenever the engine has confirmed the snapshot. */
  readonly confirmed?: (database: string) => void;
  /** Called when a retry of a refused request has been requested. */
  readonly retryAsked?: (database: string) => void;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export class DatabaseCatalog {
  readonly #options: DatabaseCatalogOptions;
  readonly #refresher: Refresher;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  #state: CatalogState = 'connecting';
  #changed = deferred<void>();
  readonly #picture: Picture;
  /** When the engine last confirmed the snapshot. */
  #confirmedAtMs = -Infinity;
  /** Tables, by oid, that the engine has said differ from the snapshot; null: any may differ. */
  #doubted: ReadonlySet<number> | null = new Set();
  /** The engine has notified of a change. */
  #isTold = false;
  /** How long the last look took, in ms. */
  #lookMs = 0;
  #client: Client | null = null;
  /** When the snapshot stopped being kept true, by the clock. */
  #lostAtMs = 0;
  #create: boolean;
  #reason = 'the catalog is not read yet';
  /** Why the sealed values do not open; null: they do. */
  #keyProblem: string | null = null;
  /** The last run that was requested by a notification: any number of notifications are one run. */
  #told: Promise<void> | null = null;
  /** The error of the last attempt, for the caller that asked for the catalog to be created. */
  #error: unknown = null;

  /** `create`: create the catalog if the database has none. */
  constructor(options: DatabaseCatalogOptions, create: boolean) {
    this.#options = options;
    this.#create = create;
    this.#picture = new Picture(options);
    this.#refresher = new Refresher(() => this.#load(), options.clock);
    this.#ended = this.#supervise();
  }

  get state(): CatalogState {
    return this.#state;
  }

  /** null while watching with the right master key; otherwise the reason, in one line. */
  get unavailable(): string | null {
    return this.#state === 'watching' ? this.#keyProblem : this.#reason;
  }

  get snapshot(): Snapshot {
    return this.#picture.snapshot;
  }

  /** The snapshot, and how long ago the engine last confirmed it, in ms. */
  get known(): Known {
    return { snapshot: this.snapshot, ageMs: this.#options.clock() - this.#confirmedAtMs };
  }

  /** What an earlier process knew; ignored once this process has read the catalog. */
  remember(rows: readonly CatalogRow[], ageMs: number): void {
    if (this.snapshot.version > 0) return;
    this.#picture.remember(rows);
    this.#confirmedAtMs = this.#options.clock() - ageMs;
  }

  /** Does not wait on the hot path. Throws Refused. */
  find(name: TableName): Target | Promise<Target> {
    if (this.#state === 'watching') {
      const target = this.snapshot.tables.get(keyOfName(name));
      if (target !== undefined) return target;
    }
    return this.#findSlowly(name);
  }

  /**
   * The table as it is known, or was when the connection was lost, at most `handshakeStaleMs` ago; null: it does not
   * exist; undefined: nothing is known. For answers that store nothing.
   */
  lastKnown(name: TableName): Target | null | undefined {
    const { clock, limits } = this.#options;
    if (this.snapshot.version === 0 || this.#isFinal()) return undefined;
    if (this.#state !== 'watching' && clock() - this.#lostAtMs > limits.handshakeStaleMs) return undefined;
    return this.snapshot.tables.get(keyOfName(name)) ?? null;
  }

  /** Resolves when what is known of a table is newer than this call, even if nothing seems to have changed. */
  refresh(oid: number): Promise<void> {
    this.#doubt(new Set([oid]));
    return this.#refresher.run(this.#options.limits.catalogMissIntervalMs);
  }

  /** Resolves in state watching or absent; throws the error that kept the catalog from being read or created. */
  async opened(timeoutMs: number): Promise<void> {
    const deadline = this.#options.clock() + timeoutMs;
    while (this.#state === 'connecting') {
      const left = deadline - this.#options.clock();
      const changed = this.#changed.promise.then(() => true);
      if (left <= 0 || !(await within(left, changed, false)))
        throw this.#error ?? new Refused('engine_unavailable');
    }
  }

  /** One query on the catalog's own connection; throws if there is no connection. */
  async query<Row extends object>(sql: string): Promise<readonly Row[]> {
    if (this.#client === null) throw new Refused('engine_unavailable');
    return pinned<Row>(this.#client, sql);
  }

  /** Queries the engine, not the snapshot: the tables of that name that `user` may own, as they are committed. */
  ownedRows(user: string, schema: string | null, table: string): Promise<readonly CatalogRow[]> {
    if (this.#client === null) throw new Refused('engine_unavailable');
    return readOwned(this.#client, user, schema, table, this.#options.limits.explainTablesMax);
  }

  /** Webhook tables, by oid, whose owner `user` is or can become. */
  ownedBy(user: string): Promise<readonly number[]> {
    if (this.#client === null) throw new Refused('engine_unavailable');
    return readOwnedBy(this.#client, user);
  }

  /** Names of the secrets of a table's check that `user` may not use. */
  async foreignSecrets(user: string, relation: number): Promise<readonly string[]> {
    if (this.#client === null) throw new Refused('engine_unavailable');
    const rows = await readForeignSecrets(this.#client, user, relation);
    return rows.map(({ name }) => name);
  }

  async close(): Promise<void> {
    this.#become('closed', 'Headgate is shutting down');
    this.#closing.abort();
    if (this.#client !== null) await hangUp(this.#client);
    await this.#ended;
  }

  async #findSlowly(name: TableName): Promise<Target> {
    await this.opened(this.#options.limits.catalogWaitMs).catch(() => {
      throw new Refused('engine_unavailable');
    });
    if (this.#state === 'absent') throw new Refused('not_found');
    const key = keyOfName(name);
    // A notification about the table may be being processed just now.
    await this.#refresher.current();
    const known = this.snapshot.tables.get(key);
    if (known !== undefined) return known;
    // The table may have been created a millisecond ago. Unknown names from strangers cost a bounded part of the engine's time.
    const { catalogMissIntervalMs, catalogMissRestTimes } = this.#options.limits;
    try {
      await this.#refresher.run(Math.max(catalogMissIntervalMs, this.#lookMs * catalogMissRestTimes));
    } catch {
      throw new Refused('engine_unavailable');
    }
    const found = this.snapshot.tables.get(key);
    if (found === undefined) throw new Refused('not_found');
    return found;
  }

  /** Connects, watches, and reconnects until closed. Handles every error of the connection. */
  async #supervise(): Promise<void> {
    const { observe, database, limits } = this.#options;
    let backoffMs = 25;
    while (!this.#isFinal()) {
      try {
        await this.#watch(() => (backoffMs = 25));
      } catch (error) {
        if (this.#isFinal()) return;
        this.#error = error;
        // The database is not unreachable but does not exist, so nothing that was known of it is true.
        if (sqlstateOf(error) === '3D000') this.#confirmedAtMs = -Infinity;
        const reason = error instanceof Error ? error.message : String(error);
        // Reported once for a series of identical failures.
        if (reason !== this.#reason) observe({ kind: 'catalog.unreadable', database, reason });
        this.#become('connecting', reason);
      }
      if (this.#isFinal()) return;
      await delay(backoffMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      backoffMs = Math.min(backoffMs * 2, limits.engineBackoffMs);
    }
  }

  /** One connection from start to end; throws the reason for its end. */
  async #watch(onWatching: () => void): Promise<void> {
    const { engine, database, limits, observe, migrations } = this.#options;
    const client = new Client({
      ...engine.clientConfig(database),
      application_name: 'headgate catalog',
      connectionTimeoutMillis: limits.catalogWaitMs,
      query_timeout: limits.catalogWaitMs,
    });
    const lost = new Promise<never>((_, reject) => {
      client.on('error', reject);
      client.once('end', () => reject(new Error('the connection to the database was closed')));
    });
    // The race below may already have ended with another error.
    lost.catch(() => {});
    try {
      await client.connect();
      // JIT compilation for a few catalog rows would take longer than the timeout.
      await client.query(`select pg_catalog.set_config('jit', 'off', false)`);
      this.#client = client;
      let migrated = false;
      if (this.#create) {
        const { from, to } = await migrate(client, migrations);
        if ((migrated = from !== to)) observe({ kind: 'catalog.migrated', database, from, to });
      } else if ((await catalogVersion(client)) === 0) {
        this.#become('absent', 'this database has no webhook tables');
        return;
      }
      this.#create = true;
      await settle(client, engine.kind);
      await this.#lookAfterSeals(client);
      const channels = await readChannels(client);
      client.on('notification', ({ channel }) => this.#hear(channel, channels));
      const pid = await listen(client, Object.values(channels));
      this.#picture.begin();
      await this.#refresher.run();
      this.#become('watching', '');
      onWatching();
      this.#options.served?.(database);
      if (migrated) engine.checkpoint?.();
      await Promise.race([lost, this.#keepComparing(client, channels, pid)]);
    } finally {
      this.#client = null;
      await hangUp(client);
    }
  }

  /** Reports what keeps the sealed values closed; a key that comes back later is noticed as well. */
  async #lookAfterSeals(client: Client): Promise<void> {
    const { database, deps, observe } = this.#options;
    const problem = await keyProblem(client, database, deps);
    if (problem !== null && problem !== this.#keyProblem)
      observe({ kind: 'catalog.sealed_otherwise', database, reason: problem });
    this.#keyProblem = problem;
    if (problem === null) await sealOldChecks(client, deps);
  }

  /** Strangers may send any number of notifications: they are collapsed into one run. */
  #hear(channel: string, channels: ChannelNames): void {
    if (channel === channels.rejected) this.#options.retryAsked?.(this.#options.database);
    if (channel !== channels.catalog) return;
    this.#isTold = true;
    const next = this.#refresher.run();
    if (next === this.#told) return;
    this.#told = next;
    next.catch(() => {});
  }

  /** Polls the engine for changes that it cannot notify of, and to see whether it still answers. */
  async #keepComparing(client: Client, channels: ChannelNames, pid: number): Promise<void> {
    const { limits, engine, database } = this.#options;
    const asked = 'select event_triggers from headgate.capability';
    const [capability] = await this.query<{ event_triggers: boolean }>(asked);
    const echo = { ...engine.clientConfig(database), connectionTimeoutMillis: limits.catalogWaitMs };
    // There is no pooler in front of an engine of Headgate's own.
    const heard =
      engine.kind === 'embedded' ||
      (await hears(client, echo, channels.catalog, limits.catalogEchoMs, this.#closing.signal));
    if (heard) keepPlan(client);
    else await unlisten(client, Object.values(channels), pid);
    const told = heard && capability?.event_triggers === true;
    while (this.#client === client && !this.#isFinal()) {
      await this.#refresher.run();
      const pauseMs = told && !this.#picture.waits ? limits.catalogHeartbeatMs : limits.catalogPollIntervalMs;
      await delay(pauseMs, undefined, { signal: this.#closing.signal });
      if (this.#keyProblem !== null) {
        await this.#lookAfterSeals(client);
        this.#doubt(null);
      }
    }
  }

  /** The job of the refresher. */
  async #load(): Promise<void> {
    const client = this.#client;
    if (client === null) throw new Error(this.#reason);
    const doubted = this.#doubted;
    const why = { isTold: this.#isTold, doubted };
    this.#isTold = false;
    this.#doubted = new Set();
    const { clock, database, observe } = this.#options;
    const askedAtMs = clock();
    const before = await this.#picture.update(client, why).catch((error: unknown) => {
      this.#doubt(doubted);
      throw error;
    });
    this.#lookMs = clock() - askedAtMs;
    this.#confirm(askedAtMs);
    if (before === null) return;
    const { tables, unusable, unanswering, version } = this.snapshot;
    observe({ kind: 'catalog.loaded', database, tables: tables.size, unusable: unusable.size, version });
    for (const [key, reason] of unusable) {
      if (before.unusable.get(key) === reason) continue;
      const target = tables.get(key);
      if (target !== undefined) observe({ kind: 'catalog.table_unusable', table: target, reason });
    }
    for (const [key, reason] of unanswering) {
      if (before.unanswering.get(key) === reason) continue;
      const target = tables.get(key);
      if (target !== undefined) observe({ kind: 'catalog.answer_unusable', table: target, reason });
    }
  }

  #doubt(oids: ReadonlySet<number> | null): void {
    this.#doubted = oids === null || this.#doubted === null ? null : new Set([...this.#doubted, ...oids]);
  }

  #confirm(askedAtMs: number): void {
    this.#confirmedAtMs = askedAtMs;
    this.#options.confirmed?.(this.#options.database);
  }

  #isFinal(): boolean {
    return this.#state === 'absent' || this.#state === 'closed';
  }

  #become(state: CatalogState, reason: string): void {
    if (this.#state === 'closed') return;
    if (this.#state === 'watching' && state !== 'watching') this.#lostAtMs = this.#options.clock();
    this.#state = state;
    this.#reason = reason;
    const changed = this.#changed;
    this.#changed = deferred();
    changed.resolve();
  }
}
