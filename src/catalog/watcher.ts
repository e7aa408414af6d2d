/**
 * Keeps the picture of one database true, over two sessions: one polls the versions of all tables, the other reads tables whose versions have changed. So no
 * reading, however long it takes, keeps the picture from being confirmed. Before a refusal the versions of the tables concerned are asked for alone.
 * After CREATE TABLE a notification, or the next poll, finds the version of a table that is not known; `picture` notes it as due, and a reading compiles it into a
 * new Target, which `tables` has from then on.
 * Takes connected clients, again and again; throws what breaks them. Questions of any number of callers are one
 * poll, and what strangers ask costs a bounded part of the engine's time.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { SharedRuns } from '../kit/shared-runs.ts';
import type { StageContext } from '../observe/context.ts';
import { tableKey } from './database-tables.ts';
import type { DatabaseTables } from './database-tables.ts';
import { listen } from './notifications.ts';
import type { CatalogListeners } from './notifications.ts';
import { SnapshotCache } from './snapshot-cache.ts';
import type { TableCompiler } from './table-compiler.ts';
import { versionsOf, VersionPoll } from './version-poll.ts';
import type { AskedTable, AskedTables } from './version-poll.ts';

/** What is made of the tables, and who is told of it. */
export interface WatcherContext extends StageContext, CatalogListeners {
  readonly compiler: TableCompiler;
}

/** Any server can read such a name, whatever the encoding of its database. */
const isAscii = ({ schema, table }: AskedTables['names'][number]): boolean =>
  /^[ -~]*$/.test(`${schema}${table}`);

interface Sessions {
  readonly polling: Client;
  readonly reading: Client;
  /** Ends both. */
  readonly fail: (error: unknown) => void;
}

export class CatalogWatcher {
  readonly picture: SnapshotCache;
  readonly tables: DatabaseTables;
  /** A poll has seen that something in the database has changed since this was last set to false. */
  hasChanged = true;
  readonly #database: string;
  readonly #watched: WatcherContext;
  readonly #polls: SharedRuns;
  readonly #pollsOfSome: SharedRuns;
  readonly #reads: SharedRuns;
  #sessions: Sessions | null = null;
  /** How long the last poll took, in ms: of all tables, and of some. */
  #pollMs = 0;
  #pollOfSomeMs = 0;
  #isReading = false;
  readonly #versions: VersionPoll;
  /** What the next poll of some tables is about; one more than `catalogAskedMax` stands for all that follow. */
  readonly #asked = new Map<number | string, AskedTable>();
  /** The last snapshot that was observed. */
  #observed;

  constructor(database: string, watched: WatcherContext) {
    this.#database = database;
    this.#watched = watched;
    this.picture = new SnapshotCache(database, watched.compiler, watched);
    this.tables = this.picture.tables;
    this.#observed = this.tables.snapshot;
    this.#versions = new VersionPoll(watched);
    this.#polls = new SharedRuns(() => this.#pollAll(), watched.clock);
    this.#pollsOfSome = new SharedRuns(() => this.#pollSome(), watched.clock);
    this.#reads = new SharedRuns(() => this.#read(), watched.clock);
  }

  /** Resolves when everything is read. */
  async begin(sessions: Sessions): Promise<void> {
    this.#sessions = sessions;
    this.picture.begin();
    await this.#polls.run();
    await this.#reads.run();
  }

  end(): void {
    this.#sessions = null;
    this.#versions.end();
  }

  /** Polls every `catalogPollIntervalMs` until the sessions end; `after` is called in between. */
  async keepPolling(closing: AbortSignal, after: () => Promise<void>): Promise<void> {
    const { limits, clock } = this.#watched;
    const sessions = this.#sessions;
    while (this.#sessions === sessions) {
      const startedAtMs = clock();
      await this.#polls.run();
      const tookMs = clock() - startedAtMs;
      const restMs = Math.max(tookMs, limits.catalogPollIntervalMs - tookMs);
      await delay(restMs, undefined, { signal: closing });
      if (this.#sessions === sessions) await after();
    }
  }

  /** Notifications hasten the next poll. `client`: a session that is certainly Headgate's own. */
  async listen(client: Client): Promise<void> {
    this.#versions.isOwn = true;
    await listen(client, this.#database, this.#watched, () => void this.#polls.run().catch(() => {}));
  }

  /** Resolves after a poll that began after the call: of all tables, or of this one, by its oid or a name that is not known. */
  ask(about?: AskedTable): Promise<void> {
    if (about === undefined) return this.#polls.run(this.#pauseMs(this.#pollMs));
    if (this.#asked.size <= this.#watched.limits.catalogAskedMax)
      this.#asked.set(typeof about === 'number' ? about : tableKey(about.schema, about.table), about);
    return this.#pollsOfSome.run(this.#pauseMs(this.#pollOfSomeMs));
  }

  #pauseMs(tookMs: number): number {
    const { catalogMissIntervalMs, catalogMissRestTimes } = this.#watched.limits;
    return Math.max(catalogMissIntervalMs, tookMs * catalogMissRestTimes);
  }

  /** Resolves when what is in doubt now has been read, as far as it can be. */
  async settle(): Promise<void> {
    if (this.tables.doubts.size > 0) await this.#reads.run();
  }

  /** Resolves when what is being read has been read, or after one more reading. */
  async wait(isPatient: boolean): Promise<void> {
    await (isPatient ? this.#reads.run(this.#watched.limits.catalogMissIntervalMs) : this.#reads.current());
  }

  async #pollAll(): Promise<void> {
    const { clock } = this.#watched;
    await this.#over('polling', async (client) => {
      const askedAtMs = clock();
      const seen = await this.#versions.poll(client, this.picture);
      this.#pollMs = clock() - askedAtMs;
      this.picture.compare(seen);
      this.tables.confirmedAtMs = askedAtMs;
      this.tables.confirmedOf.clear();
      if (seen !== null) this.hasChanged = true;
    });
    if (this.picture.isDue) void this.#reads.run().catch(() => {});
    else this.#tell();
  }

  /** Over the session on which it need not wait. What it does not confirm is a question for a poll of all tables. */
  async #pollSome(): Promise<void> {
    const { clock, limits } = this.#watched;
    const asked = [...this.#asked.values()];
    this.#asked.clear();
    const oids = asked.filter((about) => typeof about === 'number');
    const names = asked.filter((about) => typeof about === 'object');
    const isWhole = asked.length > limits.catalogAskedMax || !names.every(isAscii);
    const isAsRead =
      !isWhole &&
      (await this.#over(this.#isReading ? 'polling' : 'reading', async (client) => {
        const askedAtMs = clock();
        const versions = await versionsOf(client, { oids, names });
        this.#pollOfSomeMs = clock() - askedAtMs;
        const isAsRead = this.picture.isAsRead(oids, versions);
        for (const oid of oids) this.tables.confirmedOf.set(oid, isAsRead ? askedAtMs : -Infinity);
        return isAsRead;
      }));
    if (!isAsRead) await this.#polls.run(this.#pauseMs(this.#pollMs));
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    try {
      await this.#over('reading', (client) => this.picture.read(client));
    } finally {
      this.#isReading = false;
    }
    this.#tell();
  }

  async #over<T>(which: 'polling' | 'reading', work: (client: Client) => Promise<T>): Promise<T> {
    const sessions = this.#sessions;
    if (sessions === null) throw new Error('there is no connection to the database');
    try {
      return await work(sessions[which]);
    } catch (error) {
      sessions.fail(error);
      throw error;
    }
  }

  /** Everything that was seen has been read, as far as it can be. */
  #tell(): void {
    const database = this.#database;
    const { observe, onConfirmed } = this.#watched;
    const { snapshot, isWhole, doubts } = this.tables;
    if (isWhole && doubts.size === 0) onConfirmed?.(database);
    const before = this.#observed;
    if (before === snapshot) return;
    this.#observed = snapshot;
    const { tables, unusable, version } = snapshot;
    observe({ kind: 'catalog.loaded', database, tables: tables.size, unusable: unusable.size, version });
    const kinds = { unusable: 'catalog.table_unusable', unanswering: 'catalog.answer_unusable' } as const;
    for (const which of ['unusable', 'unanswering'] as const)
      for (const [key, reason] of snapshot[which]) {
        const table = tables.get(key);
        if (before[which].get(key) !== reason && table !== undefined)
          observe({ kind: kinds[which], table, reason });
      }
  }
}
