/**
 * Requests over very many tables at once, through lanes and the commit stage, while some tables are locked, dropped, changed,
 * or given rows that the engine refuses; optionally, connections of commits are ended. Then every table is compared with what
 * its senders were answered.
 */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { Lanes } from '../../src/batch/lanes.ts';
import { toShape } from '../../src/relations/shape.ts';
import { relationsSql } from '../../src/relations/relations-sql.ts';
import type { RelationRow } from '../../src/relations/relations-sql.ts';
import { CommitPools } from '../../src/commit/commit-pools.ts';
import { Commit } from '../../src/commit/commit.ts';
import type { Outcome } from '../../src/types/rows.ts';
import type { Target } from '../../src/types/target.ts';
import { limits } from '../../src/config/limits.ts';
import { onEnd } from './cleanup.ts';
import { codeOf } from './commit-room.ts';
import { Spy, testDatabase } from './postgres.ts';
import { seededRandom } from './random.ts';
import { rowsOf, targetOf } from './rows.ts';
import { runOurs } from './webhook-tables.ts';

export interface ModelSize {
  readonly tables: number;
  readonly requests: number;
  readonly senders: number;
  /** Ends connections of commits in the middle of their work. */
  readonly kills: boolean;
}

export interface ModelRun {
  readonly seed: number;
  readonly requests: number;
  readonly transactions: number;
  readonly told: Readonly<Record<string, number>>;
  /** Answers that do not match the stored rows; rows out of order; refused senders of tables that nobody touched. */
  readonly wrong: readonly string[];
}

interface Sent {
  readonly n: number;
  readonly rows: number;
  readonly isPoison: boolean;
  readonly outcome: Outcome;
}

interface Table {
  readonly target: Target;
  readonly name: string;
  readonly sent: Sent[];
  /** It was changed, locked or filled. */
  isTouched: boolean;
  isDropped: boolean;
}

/** Refuses poison. */
const create = (name: string) =>
  `CREATE TABLE ${name} (ord BIGINT GENERATED ALWAYS AS IDENTITY, data JSONB CHECK ((data->>'bad') IS NULL)) WITH (connector = 'webhook')`;

export async function runSharingModel(t: TestContext, size: ModelSize): Promise<ModelRun> {
  const { seed, random } = seededRandom();
  const database = await testDatabase(t);
  const client = await database.connect();
  const pools = new CommitPools(database.engine, limits);
  onEnd(t, 'pools', () => pools.close());
  const clock = () => performance.now();
  const commit = new Commit({ pools, limits, observe: new Spy().observe, clock });
  const lanes = new Lanes(commit, { limits, clock });
  onEnd(t, 'lanes', () => lanes.close());
  const tables = await makeTables(client, database.name, size.tables);
  const tableAt = (place: number) => tables[Math.floor(place * tables.length)] ?? assert.fail();
  /** Requests that are not sent yet, and those that are not answered yet. */
  let left = size.requests;
  let unanswered = size.requests;
  /** Callers that wait until a number of further requests are answered, or all are. */
  let watchers: { until: number; tell: () => void }[] = [];
  const answered = async (count: number) => {
    const until = Math.max(0, unanswered - count);
    if (unanswered > until) await new Promise<void>((tell) => watchers.push({ until, tell }));
  };

  const sender = async () => {
    while (left > 0) {
      const n = left--;
      // Some tables are much busier than others.
      const table = tableAt(random() < 0.3 ? random() ** 3 : random());
      const isPoison = random() < 0.002;
      const document = JSON.stringify({ n, ...(isPoison && { bad: 1 }) });
      const rows = random() < 0.1 ? 3 : 1;
      const outcome = await lanes.submit(rowsOf(table.target, ...Array<string>(rows).fill(document)));
      table.sent.push({ n, rows, isPoison, outcome });
      unanswered--;
      const ready = watchers.filter(({ until }) => unanswered <= until);
      watchers = watchers.filter(({ until }) => unanswered > until);
      for (const { tell } of ready) tell();
    }
  };

  const disturber = async () => {
    const other = await database.connect();
    const isGoingOn = () => left > 0;
    while (isGoingOn()) {
      const table = tableAt(random());
      const what = random();
      table.isTouched = true;
      if (what < 0.4 || table.isDropped) {
        if (table.isDropped) continue;
        await other.query(`begin; lock table ${table.name} in share mode`);
        await answered(50);
        await other.query('commit');
      } else if (what < 0.6) {
        await other.query(`drop table ${table.name}`);
        table.isDropped = true;
      } else if (what < 0.8) await other.query(`alter table ${table.name} add column if not exists more int`);
      else if (size.kills)
        await other.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headgate commit'
             and datname = current_database() order by random() limit 1`,
        );
      await answered(30);
    }
  };

  const before = await transactionsOf(client);
  await Promise.all([disturber(), ...Array.from({ length: size.senders }, sender)]);
  await lanes.drain();
  const transactions = (await transactionsOf(client)) - before;
  const wrong: string[] = [];
  for (const table of tables) wrong.push(...(await compare(client, table, size.kills)));
  const told: Record<string, number> = {};
  for (const { outcome } of tables.flatMap(({ sent }) => sent)) {
    const word = outcome.kind === 'committed' ? 'committed' : `${outcome.kind} ${outcome.refusal.code}`;
    told[word] = (told[word] ?? 0) + 1;
  }
  return { seed, requests: size.requests, transactions, told, wrong };
}

async function makeTables(client: Client, database: string, count: number): Promise<Table[]> {
  const names = Array.from({ length: count }, (_, i) => `m${i}`);
  for (let i = 0; i < count; i += 50) await runOurs(client, names.slice(i, i + 50).map(create).join('; ')); // prettier-ignore
  const { rows } = await client.query<RelationRow>(
    relationsSql(`select oid as relation from pg_class where relname ~ '^m[0-9]+$' and relkind = 'r'`),
  );
  assert.equal(rows.length, count);
  return rows.map((row) => {
    const choice = { writeMode: null, document: null, includes: [], onTypeError: 'reject' } as const;
    const shape = toShape(row, choice);
    assert(typeof shape !== 'string');
    const { relation: oid, version, table_name: table } = row;
    const code = { ...codeOf(row), functionsIn: 'headgate' } as const;
    const target = targetOf({ database, table, oid, code, shape: { version } });
    return { target, name: table, sent: [], isTouched: false, isDropped: false };
  });
}

async function transactionsOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ n: string }>(
    'select pg_snapshot_xmax(pg_current_snapshot())::text as n',
  );
  return Number(rows[0]?.n);
}

async function compare(client: Client, table: Table, kills: boolean): Promise<string[]> {
  const { name, sent, isTouched, isDropped } = table;
  const wrong: string[] = [];
  const say = (it: Sent, what: string) => {
    const code = it.outcome.kind === 'committed' ? '' : it.outcome.refusal.code;
    wrong.push(`${name}, ${it.n}: ${it.outcome.kind} ${code}, ${what}`);
  };
  for (const it of sent) {
    if (it.isPoison && it.outcome.kind === 'committed') say(it, 'poison');
    if (!isTouched && !it.isPoison && !kills && it.outcome.kind !== 'committed')
      say(it, 'and nobody touched the table');
  }
  if (isDropped) return wrong;
  const { rows } = await client.query<{ n: number }>(
    `select (data->'n')::int as n from ${name} order by ord`,
  );
  const stored = new Map<number, number>();
  for (const { n } of rows) stored.set(n, (stored.get(n) ?? 0) + 1);
  for (const it of sent) {
    const found = stored.get(it.n) ?? 0;
    stored.delete(it.n);
    const expected = { committed: [it.rows], aborted: [0], unknown: [0, it.rows] }[it.outcome.kind];
    if (!expected.includes(found)) say(it, `${found} of ${it.rows} rows are stored`);
  }
  for (const n of stored.keys()) wrong.push(`${name}, ${n}: nobody was told`);
  // Requests are numbered downwards, and those of one table wait in order of arrival.
  for (const [i, { n }] of rows.entries())
    if (i > 0 && n > (rows[i - 1]?.n ?? 0)) wrong.push(`${name}: ${n} behind ${rows[i - 1]?.n}`);
  return wrong;
}
