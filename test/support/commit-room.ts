/** The commit stage on a real PostgreSQL with a database of its own, for its tests. */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { toCode, toShape } from '../../src/relations/shape.ts';
import { relationsSql } from '../../src/relations/relations-sql.ts';
import type { ShapeChoice } from '../../src/relations/shape.ts';
import type { RelationRow } from '../../src/relations/relations-sql.ts';
import { CommitPools } from '../../src/commit/commit-pools.ts';
import type { CommitEngine } from '../../src/commit/commit-pools.ts';
import { Commit } from '../../src/commit/commit.ts';
import type { Code, Target } from '../../src/types/target.ts';
import type { Outcome, Rows } from '../../src/types/rows.ts';
import { quoteIdentifier } from '../../src/kit/sql-text.ts';
import { limits } from '../../src/config/limits.ts';
import type { Limits } from '../../src/config/limits.ts';
import { onEnd } from './cleanup.ts';
import { Spy, testDatabase } from './postgres.ts';
import { targetOf as madeTarget } from './rows.ts';

/** Sends the rows of these members as one group. */
export type Send = (members: readonly Rows[]) => Promise<readonly Outcome[]>;

export function committer(
  t: TestContext,
  engine: CommitEngine,
  spy: Spy,
  bounds: Partial<Limits> = {},
  clock = () => performance.now(),
): Send {
  const all = { ...limits, ...bounds };
  const pools = new CommitPools(engine, all, undefined, spy.observe);
  onEnd(t, 'pools', () => pools.close());
  const commit = new Commit({ pools, limits: all, observe: spy.observe, clock });
  return (members) => {
    const target = members[0]?.target;
    assert(target !== undefined);
    const rows = members.reduce((sum, m) => sum + m.count, 0);
    return commit.commit({ target, members, rows, bytes: members.reduce((sum, m) => sum + m.bytes, 0) });
  };
}

/** The same for webhook tables. */
export const webhookRoom = (t: TestContext, bounds: Partial<Limits> = {}) =>
  commitRoom(t, bounds, { catalog: true });

export async function commitRoom(t: TestContext, bounds: Partial<Limits> = {}, { catalog = false } = {}) {
  const database = await testDatabase(t, { catalog });
  const client = await database.connect();
  const spy = new Spy();
  const describe = (table: string) => describeTable(client, table);
  /** A table of one JSONB column, without a key. */
  const targetOf = async (table: string): Promise<Target> => {
    const row = await describe(quoteIdentifier(table));
    const { relation: oid = 0, version = '' } = row ?? {};
    const code = row === null ? {} : { code: codeOf(row) };
    return madeTarget({ database: database.name, table, oid, shape: { version }, ...code });
  };
  /** A table of any columns. */
  const tableOf = (table: string, choice: Partial<ShapeChoice> = {}) =>
    readTarget(client, database.name, table, choice);
  return { database, client, spy, targetOf, tableOf, send: committer(t, database.engine, spy, bounds) };
}

export function codeOf(row: RelationRow): Code {
  const code = toCode(row);
  assert(typeof code !== 'string', JSON.stringify(code));
  return code;
}

/** A table as the target of rows; `choice`: further parts of its definition. */
export async function readTarget(
  client: Client,
  database: string,
  table: string,
  choice: Partial<ShapeChoice> = {},
): Promise<Target> {
  const row = await describeTable(client, table);
  assert(row !== null, table);
  const plain: ShapeChoice = { writeMode: null, document: null, includes: [], onTypeError: 'reject' };
  const shape = toShape(row, { ...plain, ...choice });
  assert(typeof shape !== 'string', JSON.stringify(shape));
  const { schema_name: schema, table_name: name, relation: oid } = row;
  return madeTarget({ database, schema, table: name, oid, shape, code: codeOf(row) });
}

export async function describeTable(client: Client, name: string): Promise<RelationRow | null> {
  const { rows: known } = await client.query<{ writer: string | null }>(
    `select pg_catalog.to_regclass('headgate.writer_role')::text as writer`,
  );
  const writer = known[0]?.writer === null ? 'null' : '(select w.name from headgate.writer_role w)';
  const { rows } = await client.query<RelationRow>(
    relationsSql('select pg_catalog.to_regclass($1)::oid as relation', writer),
    [name],
  );
  return rows[0] ?? null;
}

export const codes = (outcomes: readonly Outcome[]) =>
  outcomes.map((o) => (o.kind === 'committed' ? o.rows : `${o.kind} ${o.refusal.code}`));

export const messages = (outcomes: readonly Outcome[]) =>
  outcomes.map((o) => {
    if (o.kind === 'committed') return 'committed';
    const row = o.kind === 'aborted' && o.row !== undefined ? ` [${o.row}]` : '';
    return `${o.refusal.message}${row}`;
  });

/** The backend is working on the group when it waits for the lock. */
export async function untilACommitWaits(client: Client): Promise<void> {
  for (let waits = false; !waits;) {
    const { rows } = await client.query<{ waits: boolean }>(
      `select exists (select from pg_stat_activity where application_name = 'headgate commit' and wait_event_type = 'Lock'
         and datname = current_database()) as waits`,
    );
    waits = rows[0]?.waits === true;
  }
}
