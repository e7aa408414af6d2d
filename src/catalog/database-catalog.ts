/**
 * The catalog of one database: a picture, and what keeps it true.
 *
 * States, changed by `#become` only:
 *   connecting  no connections, or the picture is not complete yet: `find` waits.
 *   watching    the picture is complete; how true it is, is a matter of when it was last confirmed.
 *   absent      the database has no catalog and none was to be created; final.
 *   closed      final.
 *
 *   connecting ──everything read──► watching ──a connection lost──► connecting
 *        └──no schema headgate──► absent          any ──close──► closed
 *
 * One session only polls the versions of all tables, every `catalogPollIntervalMs`, and sooner if a request asks or a notification comes
 * (embedded engine only). Each answer confirms the picture as of the moment of the question, except for the tables that it puts in doubt, which the
 * other session reads. A request that cannot be answered from the picture (database-tables.ts) waits for that, at most `catalogWaitMs`, and one is refused
 * for a reason that the picture gives only if the picture was confirmed after the request arrived (`isStill`).
 * Refuses with `not_found` and `engine_unavailable`. Uses two connections.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { ClientBase } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { hangUp } from '../engine/close-client.ts';
import { isUnanswered, unservedReason } from '../engine/connection-failure.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { readOnlyReason } from '../engine/writability.ts';
import { within, deferred } from '../kit/promises.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { Target } from '../types/target.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import type { CatalogState, DatabaseTables, Snapshot } from './database-tables.ts';
import { migrate } from './migrate.ts';
import {
  catalogVersion,
  letWriterIn,
  madeAnew,
  markOwnRoles,
  tablesOfBefore,
  CatalogError,
} from './rights.ts';
import type { Migrations } from './migrate.ts';
import { WaitingRetries } from './notifications.ts';
import { CatalogWatcher } from './watcher.ts';
import type { WatcherContext } from './watcher.ts';
import type { AskedTable } from './version-poll.ts';
import { pinned } from './queries.ts';
import { identities } from './seals.ts';
import type { KeyRing } from '../secrets/key-ring.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { keyOfName } from './database-tables.ts';
import type { CatalogRow } from './catalog-rows.ts';

/** What the catalogs of all databases share. */
export interface CatalogParts extends WatcherContext {
  readonly engine: Engine;
  readonly migrations: Migrations;
  readonly sealing: Pick<Sealing, 'open' | 'seal'>;
  readonly keys: Pick<KeyRing, 'make'>;
}

export class DatabaseCatalog {
  readonly tables: DatabaseTables;
  readonly #database: string;
  readonly #parts: CatalogParts;
  readonly #watcher: CatalogWatcher;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  #changed = deferred<void>();
  #client: Client | null = null;
  /** Ends the connections of now. */
  #fail: (error: unknown) => void = () => {};
  #create: boolean;
  #reason = 'the catalog is not read yet';
  /** Why the sealed values do not open; null: they do. */
  #keyProblem: string | null = null;
  #keyAskedAtMs = 0;
  readonly #retries: WaitingRetries;
  /** `headgate move` has closed the database: nothing that was known of it counts. */
  #isMoved = false;
  /** The error of the last attempt, for the caller that asked for the catalog to be created. */
  #error: unknown = null;

  /** `create`: create the catalog if the database has none. */
  constructor(database: string, parts: CatalogParts, create: boolean) {
    this.#database = database;
    this.#parts = parts;
    this.#create = create;
    this.#watcher = new CatalogWatcher(database, parts);
    this.tables = this.#watcher.tables;
    this.#retries = new WaitingRetries(database, parts);
    this.#ended = this.#supervise();
  }

  /** null while watching with the right master key; otherwise the reason, in one line. */
  get unavailable(): string | null {
    return this.tables.state === 'watching' ? this.#keyProblem : this.#reason;
  }

  /** What an earlier process knew; ignored once this process has looked at the catalog. */
  remember(rows: readonly CatalogRow[], ageMs: number): void {
    if (!this.#isMoved && this.#watcher.picture.remember(rows))
      this.tables.confirmedAtMs = this.#parts.clock() - ageMs;
  }

  /** The table, for a request that is not answered from memory. Throws Refused. */
  find(name: TableName): Promise<Target> {
    return this.#inTime((deadlineMs) => this.#search(name, deadlineMs));
  }

  /**
   * Whether a table that was found is still this one, by an answer of the engine to a question that was put after `sinceMs` of the clock. Questions of
   * many callers are one, about their tables alone. Throws Refused.
   */
  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    const isStill = () => this.tables.confirmed(target) === target;
    if (this.tables.isCurrent && this.tables.confirmedAtMs >= sinceMs) return isStill();
    return this.#inTime(async (deadlineMs) => {
      while (!(await this.#ask(deadlineMs, target.oid)));
      return isStill();
    });
  }

  /** Resolves when what is known of a table is newer than this call, even if nothing seems to have changed. */
  refresh(oid: number): Promise<void> {
    this.#watcher.picture.doubt(oid);
    return this.upToDate();
  }

  /** Resolves when everything that was committed before the call is known. Throws Refused. */
  upToDate(): Promise<void> {
    return this.#inTime(async (deadlineMs) => {
      await this.#ask(deadlineMs);
      await this.#watcher.settle();
    });
  }

  /**
   * Resolves in state watching or absent; throws the error that kept the catalog from being read or created. `slowMs`: how long it may take
   * as long as nothing has failed.
   */
  async opened(timeoutMs: number, slowMs = timeoutMs): Promise<void> {
    const begunAtMs = this.#parts.clock();
    while (this.tables.state === 'connecting') {
      const allowedMs = this.#error === null ? slowMs : timeoutMs;
      const left = begunAtMs + allowedMs - this.#parts.clock();
      const changed = this.#changed.promise.then(() => true);
      if (left <= 0 || !(await within(left, changed, false)))
        throw this.#error ?? new Refused('engine_unavailable');
    }
  }

  /** The session for everything but polls: it sees what is committed, and not the snapshot. Throws Refused. */
  get client(): Client {
    if (this.#client === null) throw new Refused('engine_unavailable');
    return this.#client;
  }

  async close(): Promise<void> {
    this.#become('closed', 'Headgate is shutting down');
    this.#closing.abort();
    this.#fail(new Error(this.#reason));
    if (this.#client !== null) await hangUp(this.#client);
    await this.#ended;
  }

  /** Refuses if it takes longer than a request waits for the catalog. */
  async #inTime<T>(wait: (deadlineMs: number) => Promise<T>): Promise<T> {
    const { clock, limits } = this.#parts;
    const waited = wait(clock() + limits.catalogWaitMs).then(
      (answer) => ({ answer }),
      (error: unknown) => {
        throw error instanceof Refused ? error : new Refused('engine_unavailable');
      },
    );
    const inTime = await within(limits.catalogWaitMs, waited, null);
    if (inTime === null) throw new Refused('engine_unavailable');
    return inTime.answer;
  }

  async #search(name: TableName, deadlineMs: number): Promise<Target> {
    const { clock } = this.#parts;
    let missedIn: Snapshot | null = null;
    for (let attempt = 1; clock() < deadlineMs; attempt++) {
      const target = this.tables.confirmed(name);
      if (target !== undefined) return target;
      const { snapshot } = this.tables;
      const known = snapshot.tables.get(keyOfName(name));
      const isDoubtful = known !== undefined && this.tables.doubts.has(known.oid);
      if (known !== undefined && !isDoubtful) {
        await this.#ask(deadlineMs, known.oid);
      } else if (this.tables.isCurrent && isDoubtful) {
        // As a rule it is being read.
        await this.#watcher.wait(attempt > 1);
      } else if (snapshot !== missedIn || !this.tables.isCurrent) {
        // The table may have been created, or renamed, a millisecond ago. Tables that exchange their names may be read one after the other, and a name is
        // nobody's in between: only a poll after which nothing had to be read says that it is.
        const isAsked = (await this.#ask(deadlineMs, name)) && this.tables.isCurrent;
        if (isAsked) await this.#watcher.settle();
        missedIn = isAsked ? snapshot : null;
      } else throw new Refused('not_found');
    }
    throw new Refused('engine_unavailable');
  }

  /**
   * Resolves after a poll, as of CatalogWatcher.ask(), that began after the call, once there is a connection: whether it was answered. Throws Refused.
   */
  async #ask(deadlineMs: number, about?: AskedTable): Promise<boolean> {
    const { clock } = this.#parts;
    await this.opened(deadlineMs - clock()).catch(() => {
      throw new Refused('engine_unavailable');
    });
    if (this.tables.state !== 'watching')
      throw new Refused(this.tables.state === 'absent' ? 'not_found' : 'engine_unavailable');
    const changed = this.#changed.promise;
    // A poll that fails ends the connection. One of some tables confirms nothing about the others.
    const isAnswered = await this.#watcher
      .ask(this.tables.isCurrent || typeof about === 'number' ? about : undefined)
      .then(
        () => true,
        () => within(deadlineMs - clock(), changed, undefined).then(() => false),
      );
    if (clock() >= deadlineMs) throw new Refused('engine_unavailable');
    return isAnswered;
  }

  /** Connects, watches, and reconnects until closed. Handles every error of the connection. */
  async #supervise(): Promise<void> {
    const database = this.#database;
    const { observe, limits } = this.#parts;
    let backoffMs = 25;
    while (!this.tables.isFinal) {
      try {
        await this.#watch(() => (backoffMs = 25));
      } catch (error) {
        if (this.tables.isFinal) return;
        this.#error = error;
        // The database is not unreachable but does not exist, so nothing that was known of it is true.
        if (sqlstateOf(error) === '3D000' || this.#isMoved) this.tables.confirmedAtMs = -Infinity;
        const reason = this.#reasonOf(error);
        // Reported once for a series of identical failures.
        if (reason !== this.#reason) observe({ kind: 'catalog.unreadable', database, reason });
        this.#become('connecting', reason);
      }
      if (this.tables.isFinal) return;
      await delay(backoffMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      backoffMs = Math.min(backoffMs * 2, limits.engineBackoffMs);
    }
  }

  /** Two connections from start to end; throws the reason for their end. */
  async #watch(onWatching: () => void): Promise<void> {
    const database = this.#database;
    const { engine, observe, migrations } = this.#parts;
    const failed = deferred<never>();
    // The races below may already have ended with another error.
    failed.promise.catch(() => {});
    this.#fail = failed.reject;
    const [client, polling] = [this.#newClient(), this.#newClient()];
    const all = async <T>(doing: Promise<T>): Promise<T> => Promise.race([failed.promise, doing]);
    try {
      await all(client.connect());
      this.#client = client;
      this.#isMoved = await isMoved(client);
      if (this.#isMoved) throw new CatalogError(closedByMove);
      let migrated = false;
      if (this.#create) {
        await markOwnRoles(client, engine.kind);
        const { from, to } = await migrate(client, migrations);
        if ((migrated = from !== to)) observe({ kind: 'catalog.migrated', database, from, to });
        if (from === 0) await this.#tellLost(client);
      } else if ((await catalogVersion(client)) === 0) {
        this.#become('absent', 'this database has no webhook tables');
        return;
      }
      this.#create = true;
      await letWriterIn(client, engine.kind);
      await this.#lookAfterSeals(client);
      await all(polling.connect());
      if (engine.kind === 'embedded') await this.#watcher.listen(polling);
      await all(this.#watcher.begin({ polling, reading: client, fail: failed.reject }));
      this.#become('watching', '');
      onWatching();
      this.#parts.onServed?.(database);
      if (migrated) engine.checkpoint?.();
      await all(this.#watcher.keepPolling(this.#closing.signal, () => this.#afterPoll(client)));
    } finally {
      this.#client = null;
      this.#watcher.end();
      await Promise.all([hangUp(client), hangUp(polling)]);
    }
  }

  /** A catalog has just been made: if there was one before, with whatever is gone now, somebody has to know. */
  async #tellLost(client: ClientBase): Promise<void> {
    const { tables: known, unusable } = this.tables.snapshot;
    const seen = new Set([...known.keys(), ...unusable.keys()]).size;
    const tables = seen > 0 ? seen : await tablesOfBefore(client, this.#parts.engine.kind);
    if (tables === 0) return;
    await pinned(client, `comment on schema headgate is ${quoteLiteral(madeAnew(tables))}`);
    this.#parts.observe({ kind: 'catalog.lost', database: this.#database, tables, reason: madeAnew(tables) });
  }

  async #afterPoll(client: Client): Promise<void> {
    if (this.#parts.engine.kind !== 'embedded') void this.#retries.askIfChanged(client, this.#watcher);
    await this.#lookForKey(client);
  }

  #newClient(): Client {
    const database = this.#database;
    const { engine, limits } = this.#parts;
    const client = new Client({
      ...engine.clientConfig(database),
      application_name: 'headgate catalog',
      connectionTimeoutMillis: limits.catalogWaitMs,
      query_timeout: limits.catalogWaitMs,
    });
    const fail = this.#fail;
    client.on('error', fail);
    client.once('end', () => fail(new Error('the connection to the database was closed')));
    return client;
  }

  /** Reports what keeps the sealed values closed; a key that comes back later is noticed as well. */
  async #lookAfterSeals(client: Client): Promise<void> {
    const database = this.#database;
    const { observe, clock } = this.#parts;
    this.#keyAskedAtMs = clock();
    const problem = await keyProblem(client, database, this.#parts);
    if (problem !== null && problem !== this.#keyProblem)
      observe({ kind: 'catalog.sealed_otherwise', database, reason: problem });
    this.#keyProblem = problem;
  }

  /** Everything is read again: what did not open may open now. */
  async #lookForKey(client: Client): Promise<void> {
    const { limits, clock } = this.#parts;
    if (this.#keyProblem === null || clock() - this.#keyAskedAtMs < limits.catalogKeyMs) return;
    await this.#lookAfterSeals(client);
    this.#watcher.picture.doubtAll();
  }

  #reasonOf(error: unknown): string {
    const { engine, limits } = this.#parts;
    if (engine.kind !== 'embedded' && isUnanswered(error)) return unservedReason(limits.catalogWaitMs);
    const said = error instanceof Error ? error.message : String(error);
    // Why the server cannot be reached is known better where it is watched.
    return error instanceof CatalogError ? said : (engine.unavailable ?? said);
  }

  #become(state: CatalogState, reason: string): void {
    if (this.tables.state === 'closed') return;
    this.tables.state = state;
    this.#reason = reason;
    const changed = this.#changed;
    this.#changed = deferred();
    changed.resolve();
  }
}

const closedByMove =
  'headgate move has closed this database: its webhooks belong to the one that it was moved to (docs/deploy/moving-to-external.md)';

/** Whether `headgate move` has closed it for writing, and nobody has opened it again. */
async function isMoved(client: ClientBase): Promise<boolean> {
  if ((await readOnlyReason(client)) !== 'read-only' || (await catalogVersion(client)) === 0) return false;
  const marked = `select from headgate.webhook_table w where w.options operator(pg_catalog.?) 'moved' limit 1`;
  return (await pinned<object>(client, marked)).length > 0;
}

interface KeyCheckRow {
  readonly seal_id: string;
  readonly sealed: string;
}

const sealedText = 'headgate';
const readKeyCheck = 'select k.seal_id, k.sealed from headgate.key_check k';

/** Why the sealed values do not open: a text that the first master key has sealed says so; null: they do, or there are none. Throws the engine's error. */
async function keyProblem(
  client: ClientBase,
  database: string,
  { sealing, keys }: Pick<CatalogParts, 'sealing' | 'keys'>,
): Promise<string | null> {
  let [row] = await pinned<KeyCheckRow>(client, readKeyCheck);
  if (row === undefined) {
    await keys.make();
    const id = randomUUID();
    const sealed = quoteLiteral(sealing.seal(sealedText, identities.key(id)));
    try {
      const insert = `insert into headgate.key_check (seal_id, sealed) values ('${id}', ${sealed}) on conflict do nothing`;
      [row] = await pinned<KeyCheckRow>(client, insert, readKeyCheck);
    } catch (error) {
      // On a standby; the primary it follows does this.
      if (sqlstateOf(error) === '25006') return null;
      throw error;
    }
  }
  if (row !== undefined && opens(sealing, row.sealed, identities.key(row.seal_id))) return null;
  return `the sealed values of database ${JSON.stringify(database)} do not open: start Headgate with the master key that they were sealed with: the file master.key of the data directory of then, or HEADGATE_MASTER_KEY`;
}

function opens(sealing: CatalogParts['sealing'], sealed: string, identity: string): boolean {
  try {
    sealing.open(sealed, identity);
    return true;
  } catch {
    return false;
  }
}
