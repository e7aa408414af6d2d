/**
 * The statements that Headgate itself runs on the catalog. Each runs under the settings of kit/plain-settings.ts, whatever the session's are, so
 * that no user's operator or function is taken for PostgreSQL's own, and a default is printed in a form that any session reads; and without
 * compiling, which would take seconds for some rows. All is set for its transaction alone: each is one query string, which a pooler sends to one
 * session, and then lends that to others.
 */
import type { ClientBase, QueryResult } from 'pg';
import { plainPrinting } from '../kit/plain-settings.ts';
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

/** A webhook table, and whether it is small enough to be read. */
export type SizeRow = UnreadRow & { readonly fits: boolean };

export const readSizes = (client: ClientBase): Promise<readonly SizeRow[]> =>
  pinned(client, 'select relation, schema_name, table_name, fits from headgate.catalog_sizes');

/** `versions`: read before the rows, so what changes in between has another version at the next poll. */
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
