/**
 * The statements that Headgate itself runs on the catalog. Each runs under the settings of kit/plain-settings.ts, whatever the session's are, so
 * that no user's operator or function is taken for PostgreSQL's own, and a default is printed in a form that any session reads; and without
 * compiling, which would take seconds for some rows. All is set for its transaction alone: each is one query string, which a pooler sends to one
 * session, and then lends that to others.
 */
import type { ClientBase, QueryResult } from 'pg';
import { plainPrinting } from '../kit/plain-settings.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import type { CatalogRow, UnreadRow } from './catalog-rows.ts';
import { relationsSql } from '../relations/relations-sql.ts';
import type { RelationRow } from '../relations/relations-sql.ts';

/** Runs these statements in one transaction and returns the rows of the last. */
export async function pinned<Row extends object>(
  client: ClientBase,
  ...statements: readonly string[]
): Promise<readonly Row[]> {
  const results = await pinnedAll(client, statements);
  return (results.at(-1)?.rows ?? []) as Row[];
}

/** `timeoutMs`: if it differs from that of the connection. */
async function pinnedAll(
  client: ClientBase,
  statements: readonly string[],
  timeoutMs?: number,
): Promise<readonly QueryResult<object>[]> {
  const text = [pins, ...statements].join(';\n');
  const query = timeoutMs === undefined ? { text } : { text, query_timeout: timeoutMs };
  const answer: unknown = await client.query(query);
  return (answer as QueryResult<object>[]).slice(1);
}

const pins = `${plainPrinting}, pg_catalog.set_config('jit', 'off', true)`;

/** By oid. Relation 0 is not a table, see headgate.table_versions(). */
export type TableVersions = ReadonlyMap<number, string>;

/** What identifies the state that was last looked at. */
export interface SnapshotMark {
  /** As pg_current_snapshot() says it: the same as long as no transaction has changed anything. */
  readonly snapshot: string;
  /** Of all versions. */
  readonly fingerprint: string;
}

export interface SnapshotCheck extends SnapshotMark {
  /** null: the fingerprint is the same. */
  readonly versions: TableVersions | null;
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

export interface Watch {
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

/** Tables that somebody asks about: those with these oids, and those with these names, if there are any. */
export interface AskedTables {
  readonly oids: readonly number[];
  readonly names: readonly { readonly schema: string; readonly table: string }[];
}

/** The versions of some tables. PostgreSQL must be able to read the names, whatever its encoding: they are ASCII. */
export async function lookAt(client: ClientBase, { oids, names }: AskedTables): Promise<TableVersions> {
  const { rows } = await client.query<{ relation: number; version: string }>(
    `select l.relation, l.version from headgate.look_at(${listed(oids)}, $1, $2) as l`,
    [names.map(({ schema }) => schema), names.map(({ table }) => table)],
  );
  return new Map(rows.map(({ relation, version }) => [relation, version]));
}

/** A webhook table, and whether it is small enough to be read. */
export type SizeRow = UnreadRow & { readonly fits: boolean };

export const readSizes = (client: ClientBase): Promise<readonly SizeRow[]> =>
  pinned(client, 'select relation, schema_name, table_name, fits from headgate.catalog_sizes');

/** `versions`: read before the rows, so what changes in between has another version at the next look. */
export interface TableRows {
  readonly rows: readonly CatalogRow[];
  readonly versions: TableVersions;
}

/** Reads these tables, in statements so small that it does not matter how PostgreSQL plans them. */
export async function readTables(client: ClientBase, oids: readonly number[]): Promise<TableRows> {
  if (oids.length === 0) return { rows: [], versions: new Map() };
  const list = listed(oids);
  const [versions = [], rows = [], answers = [], known = []] = await inTime(client, [
    `select relation, version from headgate.table_versions(${list})`,
    `select relation, payload, options, takes_document, document, collect, includes, expression, sealed_expression, seal_id, secrets, target, private
      from headgate.catalog_rows where relation = any (${list})`,
    `select relation, answers from headgate.answer_rows where relation = any (${list})`,
    relationsSql(`select unnest(${list}) as relation`, '(select w.name from headgate.writer_role w)'),
  ]);
  const relations = byOid(known as RelationRow[]);
  const answersOf = byOid(answers as Pick<CatalogRow, 'relation' | 'answers'>[]);
  return {
    versions: new Map(
      (versions as { relation: number; version: string }[]).map(({ relation, version }) => [
        relation,
        version,
      ]),
    ),
    rows: (rows as CatalogRow[]).flatMap((row) => {
      const relation = relations.get(row.relation);
      return relation === undefined
        ? []
        : [{ ...relation, ...row, answers: answersOf.get(row.relation)?.answers ?? [] }];
    }),
  };
}

function byOid<Row extends { readonly relation: number }>(rows: readonly Row[]): Map<number, Row> {
  return new Map(rows.map((row) => [row.relation, row]));
}

/** PostgreSQL prints a default under a lock on its table, for which it would wait as long as somebody else holds one. */
async function inTime(
  client: ClientBase,
  statements: readonly string[],
): Promise<readonly (readonly object[])[]> {
  const impatient = `select pg_catalog.set_config('lock_timeout', '${limits.catalogLockedMs}ms', true)`;
  const results = await pinnedAll(client, [impatient, ...statements], limits.catalogReadMs);
  return results.slice(1).map(({ rows }) => rows);
}

/** For `any` and `all`. */
export const listed = (oids: readonly number[]): string => `'{${oids.join(',')}}'::pg_catalog.oid[]`;

export async function oidsOf(client: ClientBase, sql: string): Promise<number[]> {
  return (await pinned<{ relation: number }>(client, sql)).map(({ relation }) => relation);
}
