/**
 * Keeps the picture of one database true, over two sessions: one looks at the versions of all tables, the other reads what a look puts in doubt. So no
 * reading, however long it takes, keeps the picture from being confirmed. Before a refusal only the tables concerned are looked at: with 10,000 tables
 * that takes a fiftieth of a look at all. In the version of a table everything counts that makes up its row of the catalog (headgate.table_versions).
 * Takes connected clients, again and again; throws what breaks them. Questions of any number of callers are one
 * look, and what strangers ask costs a bounded part of the engine's time.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, ClientBase, QueryResult } from 'pg';
import { limits } from '../config/limits.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { SharedRuns } from '../kit/shared-runs.ts';
import type { StageContext } from '../observe/context.ts';
import { tableKey } from './database-tables.ts';
import type { DatabaseTables } from './database-tables.ts';
import { listen } from './notifications.ts';
import type { CatalogListeners } from './notifications.ts';
import { listed } from './queries.ts';
import type { SnapshotCheck, SnapshotMark, TableVersions } from './queries.ts';
import { SnapshotCache } from './snapshot-cache.ts';
import type { TableCompiler } from './table-compiler.ts';

/** What is made of the tables, and who is told of it. */
export interface WatcherContext extends StageContext, CatalogListeners {
  readonly compiler: TableCompiler;
}

/** Tables that somebody asks about: those with these oids, and those with these names, if there are any. */
export interface AskedTables {
  readonly oids: readonly number[];
  readonly names: readonly { readonly schema: string; readonly table: string }[];
}

/** The oid of a known table, or the name of one that is not known. */
export type AskedTable = number | AskedTables['names'][number];

/** Any server can read such a name, whatever the encoding of its database. */
const isAscii = ({ schema, table }: AskedTables['names'][number]): boolean =>
  /^[ -~]*$/.test(`${schema}${table}`);

interface Sessions {
  readonly looking: Client;
  readonly reading: Client;
  /** Ends both. */
  readonly fail: (error: unknown) => void;
}

export class CatalogWatcher {
  readonly picture: SnapshotCache;
  readonly tables: DatabaseTables;
  /** A look has seen that something in the database has changed since this was last set to false. */
  hasChanged = true;
  readonly #database: string;
  readonly #watched: WatcherContext;
  readonly #looks: SharedRuns;
  readonly #looksAtSome: SharedRuns;
  readonly #reads: SharedRuns;
  #sessions: Sessions | null = null;
  /** How long the last look took, in ms: at all tables, and at some. */
  #lookMs = 0;
  #lookAtSomeMs = 0;
  #isReading = false;
  readonly #versions: TableLooks;
  /** What the next look at some tables is about; one more than `catalogAskedMax` stands for all that follow. */
  readonly #asked = new Map<number | string, AskedTable>();
  /** The last snapshot that was observed. */
  #observed;

  constructor(database: string, watched: WatcherContext) {
    this.#database = database;
    this.#watched = watched;
    this.picture = new SnapshotCache(database, watched.compiler, watched);
    this.tables = this.picture.tables;
    this.#observed = this.tables.snapshot;
    this.#versions = new TableLooks(watched);
    this.#looks = new SharedRuns(() => this.#look(), watched.clock);
    this.#looksAtSome = new SharedRuns(() => this.#lookAtSome(), watched.clock);
    this.#reads = new SharedRuns(() => this.#read(), watched.clock);
  }

  /** Resolves when everything is read. */
  async begin(sessions: Sessions): Promise<void> {
    this.#sessions = sessions;
    this.picture.begin();
    await this.#looks.run();
    await this.#reads.run();
  }

  end(): void {
    this.#sessions = null;
    this.#versions.end();
  }

  /** Looks every `catalogPollIntervalMs` until the sessions end; `after` is called in between. */
  async keepLooking(closing: AbortSignal, after: () => Promise<void>): Promise<void> {
    const { limits, clock } = this.#watched;
    const sessions = this.#sessions;
    while (this.#sessions === sessions) {
      const startedAtMs = clock();
      await this.#looks.run();
      const tookMs = clock() - startedAtMs;
      const restMs = Math.max(tookMs, limits.catalogPollIntervalMs - tookMs);
      await delay(restMs, undefined, { signal: closing });
      if (this.#sessions === sessions) await after();
    }
  }

  /** Notifications hasten the next look. `client`: a session that is certainly Headgate's own. */
  async listen(client: Client): Promise<void> {
    this.#versions.isOwn = true;
    await listen(client, this.#database, this.#watched, () => void this.#looks.run().catch(() => {}));
  }

  /** Resolves after a look that began after the call: at all tables, or at this one, by its oid or a name that is not known. */
  ask(about?: AskedTable): Promise<void> {
    if (about === undefined) return this.#looks.run(this.#pauseMs(this.#lookMs));
    if (this.#asked.size <= this.#watched.limits.catalogAskedMax)
      this.#asked.set(typeof about === 'number' ? about : tableKey(about.schema, about.table), about);
    return this.#looksAtSome.run(this.#pauseMs(this.#lookAtSomeMs));
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

  async #look(): Promise<void> {
    const { clock } = this.#watched;
    await this.#over('looking', async (client) => {
      const askedAtMs = clock();
      const seen = await this.#versions.look(client, this.picture);
      this.#lookMs = clock() - askedAtMs;
      this.picture.compare(seen);
      this.tables.confirmedAtMs = askedAtMs;
      this.tables.confirmedOf.clear();
      if (seen !== null) this.hasChanged = true;
    });
    if (this.picture.isDue) void this.#reads.run().catch(() => {});
    else this.#tell();
  }

  /** Over the session on which it need not wait. What it does not confirm is a question for a look at all tables. */
  async #lookAtSome(): Promise<void> {
    const { clock, limits } = this.#watched;
    const asked = [...this.#asked.values()];
    this.#asked.clear();
    const oids = asked.filter((about) => typeof about === 'number');
    const names = asked.filter((about) => typeof about === 'object');
    const isWhole = asked.length > limits.catalogAskedMax || !names.every(isAscii);
    const isAsRead =
      !isWhole &&
      (await this.#over(this.#isReading ? 'looking' : 'reading', async (client) => {
        const askedAtMs = clock();
        const versions = await lookAt(client, { oids, names });
        this.#lookAtSomeMs = clock() - askedAtMs;
        const isAsRead = this.picture.isAsRead(oids, versions);
        for (const oid of oids) this.tables.confirmedOf.set(oid, isAsRead ? askedAtMs : -Infinity);
        return isAsRead;
      }));
    if (!isAsRead) await this.#looks.run(this.#pauseMs(this.#lookMs));
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

  async #over<T>(which: 'looking' | 'reading', work: (client: Client) => Promise<T>): Promise<T> {
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

/** Looks at all tables, again and again: in sessions that are certainly Headgate's own at the cost of what has changed. */
class TableLooks {
  /** The session is certainly Headgate's own. */
  isOwn = false;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  /** What is watched since before the last look that asked for all versions, and when that was; null: nothing is. */
  #watch: Watch | null = null;
  #lookedAtMs = -Infinity;

  constructor(context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#context = context;
  }

  /** The session has ended. */
  end(): void {
    this.isOwn = false;
    this.#watch = null;
  }

  /**
   * What the engine says that `picture` does not know; null: nothing has changed. On a session of Headgate's own one cheap question is asked first
   * (`#isAsWatched`): a table that was made or changed is then looked at with all others (`watch`), and read by SnapshotCache.
   */
  async look(client: ClientBase, picture: SnapshotCache): Promise<SnapshotCheck | null> {
    const { mark, isAhead } = picture;
    if (!this.isOwn) return look(client, mark);
    const { clock, limits } = this.#context;
    const isDue = isAhead || clock() - this.#lookedAtMs > limits.catalogWholeMs;
    if (!isDue && this.#watch !== null && (await this.#isAsWatched(client, this.#watch, picture)))
      return null;
    this.#lookedAtMs = clock();
    const looked = await watch(client, mark);
    this.#watch = looked.watch;
    return looked.seen;
  }

  /** Nothing that is watched has changed, or only what VACUUM notes of tables. */
  async #isAsWatched(
    client: ClientBase,
    { parts, states: before }: Watch,
    picture: SnapshotCache,
  ): Promise<boolean> {
    const states = await watched(client, parts);
    const changed = parts.filter((_, i) => states[i] !== before[i]);
    if (changed.length > 0) {
      if (changed.length > parts.length / 2 || changed.some(({ statement }) => statement === null))
        return false;
      const oids = changed.flatMap((part) => part.watched);
      if (!picture.isAsRead(oids, await lookAt(client, { oids, names: [] }))) return false;
      this.#watch = { parts, states };
    }
    return true;
  }
}

interface LookRow {
  readonly snapshot: string | null;
  readonly fingerprint: string;
  /** `oid version,oid version` … */
  readonly versions: string | null;
}

/** The one question that is put again and again. The function has its settings with it. */
const lookSql = ({ snapshot, fingerprint }: SnapshotMark): string =>
  `select l.snapshot, l.fingerprint, l.versions from headgate.look(${quoteLiteral(snapshot)}, ${quoteLiteral(fingerprint)}) as l`;

/** null: nothing has changed. */
export async function look(client: ClientBase, mark: SnapshotMark): Promise<SnapshotCheck | null> {
  return seenIn(await client.query<LookRow>(lookSql(mark)));
}

function seenIn({ rows: [row] }: QueryResult<LookRow>): SnapshotCheck | null {
  if (row === undefined || row.snapshot === null) return null;
  const versions = row.versions?.split(',').map((line): [number, string] => {
    const space = line.indexOf(' ');
    return [Number(line.slice(0, space)), line.slice(space + 1)];
  });
  return { ...row, snapshot: row.snapshot, versions: versions === undefined ? null : new Map(versions) };
}

/** What headgate.watch() has prepared: the types first, without a statement. */
type WatchedParts = readonly {
  readonly statement: string | null;
  readonly watched: readonly number[];
  readonly digest: string | null;
}[];

interface Watch {
  readonly parts: WatchedParts;
  /** As `watched` says it. */
  readonly states: readonly string[];
}

/**
 * A look at all tables, whatever the snapshot, which are watched since before it. Only in sessions that are certainly Headgate's own. `watch` null: others
 * came meanwhile, again and again.
 */
export async function watch(
  client: ClientBase,
  { fingerprint }: Pick<SnapshotMark, 'fingerprint'>,
): Promise<{ readonly watch: Watch | null; readonly seen: SnapshotCheck | null }> {
  const prepareSql = `select * from headgate.watch(${limits.catalogWatchedTables})`;
  let parts: WatchedParts = (await client.query<WatchedParts[number]>(prepareSql)).rows;
  for (let attempt = 1; ; attempt++) {
    const states = await watched(client, parts);
    const answer: unknown = await client.query(`${lookSql({ snapshot: '', fingerprint })};${prepareSql}`);
    const [looked, since] = answer as [QueryResult<LookRow>, QueryResult<WatchedParts[number]>];
    const seen = seenIn(looked);
    // What came in between may have been seen, and would not be watched.
    if (JSON.stringify(since.rows) === JSON.stringify(parts)) return { watch: { parts, states }, seen };
    if (attempt === limits.catalogAroundAttemptsMax) return { watch: null, seen };
    parts = since.rows;
  }
}

/** A text for each of them that is another one whenever a look may find another version of its tables, or of any; at the cost of what has changed. */
export async function watched(client: ClientBase, parts: WatchedParts): Promise<readonly string[]> {
  const asked = parts.map(({ statement, watched: types }) =>
    statement === null ? `select headgate.watched_rows(${listed(types)}) as state` : `execute ${statement}`,
  );
  const answer: unknown = await client.query(`select;${asked.join(';')}`);
  return (answer as QueryResult<{ state: string }>[]).slice(1).map(({ rows }) => rows[0]?.state ?? '');
}

/** The versions of some tables. PostgreSQL must be able to read the names, whatever its encoding: they are ASCII. */
export async function lookAt(client: ClientBase, { oids, names }: AskedTables): Promise<TableVersions> {
  const { rows } = await client.query<{ relation: number; version: string }>(
    `select l.relation, l.version from headgate.look_at(${listed(oids)}, $1, $2) as l`,
    [names.map(({ schema }) => schema), names.map(({ table }) => table)],
  );
  return new Map(rows.map(({ relation, version }) => [relation, version]));
}
