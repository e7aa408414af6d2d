/**
 * The questions by which changes of tables are found: their versions, in which everything counts that makes up a table's row of the catalog
 * (headgate.table_versions). A poll asks for those of all tables, `versionsOf` for those of some: with 10,000 tables that takes a fiftieth. Takes connected clients; throws what breaks them.
 */
import type { ClientBase, QueryResult } from 'pg';
import { limits } from '../config/limits.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { StageContext } from '../observe/context.ts';
import { listed } from './queries.ts';
import type { SnapshotCheck, SnapshotMark, TableVersions } from './queries.ts';
import type { SnapshotCache } from './snapshot-cache.ts';

/** Tables that somebody asks about: those with these oids, and those with these names, if there are any. */
export interface AskedTables {
  readonly oids: readonly number[];
  readonly names: readonly { readonly schema: string; readonly table: string }[];
}

/** The oid of a known table, or the name of one that is not known. */
export type AskedTable = number | AskedTables['names'][number];

/** Polls the versions of all tables: in sessions that are certainly Headgate's own at the cost of what has changed. */
export class VersionPoll {
  /** The session is certainly Headgate's own. */
  isOwn = false;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  /** What is watched since before the last poll that asked for all versions, and when that was; null: nothing is. */
  #watch: Watch | null = null;
  #polledAtMs = -Infinity;

  constructor(context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#context = context;
  }

  /** The session has ended. */
  end(): void {
    this.isOwn = false;
    this.#watch = null;
  }

  /**
   * The versions that `picture` has to be compared with; null: nothing has changed. On a session of Headgate's own one cheap question is asked first
   * (`#isAsWatched`): only if a table was made or changed, all versions are asked for (`pollAndWatch`).
   */
  async poll(client: ClientBase, picture: SnapshotCache): Promise<SnapshotCheck | null> {
    const { mark, isAhead } = picture;
    if (!this.isOwn) return pollVersions(client, mark);
    const { clock, limits } = this.#context;
    const isDue = isAhead || clock() - this.#polledAtMs > limits.catalogWholeMs;
    if (!isDue && this.#watch !== null && (await this.#isAsWatched(client, this.#watch, picture)))
      return null;
    this.#polledAtMs = clock();
    const { watch, seen } = await pollAndWatch(client, mark);
    this.#watch = watch;
    return seen;
  }

  /** Nothing that is watched has changed, or only what VACUUM notes of tables. */
  async #isAsWatched(
    client: ClientBase,
    { parts, states: before }: Watch,
    picture: SnapshotCache,
  ): Promise<boolean> {
    const states = await watchedStates(client, parts);
    const changed = parts.filter((_, i) => states[i] !== before[i]);
    if (changed.length > 0) {
      if (changed.length > parts.length / 2 || changed.some(({ statement }) => statement === null))
        return false;
      const oids = changed.flatMap((part) => part.watched);
      if (!picture.isAsRead(oids, await versionsOf(client, { oids, names: [] }))) return false;
      this.#watch = { parts, states };
    }
    return true;
  }
}

interface PollRow {
  readonly snapshot: string | null;
  readonly fingerprint: string;
  /** `oid version,oid version` … */
  readonly versions: string | null;
}

/** The one question that is put again and again. The function has its settings with it. */
const pollSql = ({ snapshot, fingerprint }: SnapshotMark): string =>
  `select l.snapshot, l.fingerprint, l.versions from headgate.look(${quoteLiteral(snapshot)}, ${quoteLiteral(fingerprint)}) as l`;

/** null: nothing has changed. */
export async function pollVersions(client: ClientBase, mark: SnapshotMark): Promise<SnapshotCheck | null> {
  return seenIn(await client.query<PollRow>(pollSql(mark)));
}

function seenIn({ rows: [row] }: QueryResult<PollRow>): SnapshotCheck | null {
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
  /** As of `watchedStates`. */
  readonly states: readonly string[];
}

/**
 * Polls all versions, whatever the snapshot, and watches them since before it. Only in sessions that are certainly Headgate's own. `watch` null: others
 * came meanwhile, again and again.
 */
export async function pollAndWatch(
  client: ClientBase,
  { fingerprint }: Pick<SnapshotMark, 'fingerprint'>,
): Promise<{ readonly watch: Watch | null; readonly seen: SnapshotCheck | null }> {
  const prepareSql = `select * from headgate.watch(${limits.catalogWatchedTables})`;
  let parts: WatchedParts = (await client.query<WatchedParts[number]>(prepareSql)).rows;
  for (let attempt = 1; ; attempt++) {
    const states = await watchedStates(client, parts);
    const answer: unknown = await client.query(`${pollSql({ snapshot: '', fingerprint })};${prepareSql}`);
    const [polled, since] = answer as [QueryResult<PollRow>, QueryResult<WatchedParts[number]>];
    const seen = seenIn(polled);
    // What came in between may have been seen, and would not be watched.
    if (JSON.stringify(since.rows) === JSON.stringify(parts)) return { watch: { parts, states }, seen };
    if (attempt === limits.catalogAroundAttemptsMax) return { watch: null, seen };
    parts = since.rows;
  }
}

/** A text for each of them that is another one whenever a poll may find another version of its tables, or of any; at the cost of what has changed. */
export async function watchedStates(client: ClientBase, parts: WatchedParts): Promise<readonly string[]> {
  const asked = parts.map(({ statement, watched: types }) =>
    statement === null ? `select headgate.watched_rows(${listed(types)}) as state` : `execute ${statement}`,
  );
  const answer: unknown = await client.query(`select;${asked.join(';')}`);
  return (answer as QueryResult<{ state: string }>[]).slice(1).map(({ rows }) => rows[0]?.state ?? '');
}

/** The versions of some tables. PostgreSQL must be able to read the names, whatever its encoding: they are ASCII. */
export async function versionsOf(client: ClientBase, { oids, names }: AskedTables): Promise<TableVersions> {
  const { rows } = await client.query<{ relation: number; version: string }>(
    `select l.relation, l.version from headgate.look_at(${listed(oids)}, $1, $2) as l`,
    [names.map(({ schema }) => schema), names.map(({ table }) => table)],
  );
  return new Map(rows.map(({ relation, version }) => [relation, version]));
}
