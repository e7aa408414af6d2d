/** The lease's statement for many rows: it marks those that are still the attempt's, whatever type their key has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandsOf } from '../../test/support/docs.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { leaseOn } from './lease.ts';
import { arrayText, Marks } from './lease-rows.ts';

for (const [type, ids] of [
  ['BIGINT', ['1', '12', '3']],
  ['UUID', [1, 2, 3].map((n) => `00000000-0000-0000-0000-00000000000${n}`)],
  ['TEXT', ['a', 'a 1', '{"b",\\}']],
] as const)
  test(`rows that have arrived are marked together, and none that another worker has claimed; key ${type}`, async (t) => {
    const client = await (await testDatabase(t)).connect();
    await client.query(`CREATE TABLE t (id ${type} PRIMARY KEY, data TEXT, done_at TIMESTAMPTZ, attempts INT NOT NULL DEFAULT 0,
      run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT)`);
    for (const id of ids) await client.query('INSERT INTO t (id) VALUES ($1)', [id]);
    const { claim, doneAll } = leaseOn('t');
    const { rows } = await client.query<{ id: unknown; attempts: number }>(claim, [10, 60, 10]);
    assert.deepEqual(
      rows.map(({ attempts }) => attempts),
      [1, 1, 1],
    );
    await client.query('UPDATE t SET attempts = 2 WHERE id = $1', [ids[1]]);
    const marked = await client.query(doneAll, [arrayText(ids), 1]);
    assert.equal(marked.rowCount, 2);
    const open = await client.query<{ id: string }>('SELECT id::text FROM t WHERE done_at IS NULL');
    assert.deepEqual(
      open.rows.map(({ id }) => id),
      [ids[1]],
    );
    assert.equal((await client.query(doneAll, [arrayText(ids), 1])).rowCount, 0);
  });

test('a row that the table’s own code refuses to be done holds up no other, and what fails for all is said of all', async (t) => {
  const client = await (await testDatabase(t)).connect();
  await client.query(`CREATE TABLE t (id INT PRIMARY KEY, done_at TIMESTAMPTZ CHECK (done_at IS NULL OR id <> 3), attempts INT NOT NULL DEFAULT 1,
      run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT); INSERT INTO t (id) SELECT generate_series(1, 5)`);
  const { doneAll } = leaseOn('t');
  const written: number[] = [];
  const marks = new Marks(
    (ids, attempt) => {
      written.push(ids.length);
      return client.query(doneAll, [arrayText(ids), attempt]);
    },
    (error) => (error as { code?: string }).code === '23514',
  );
  const said = await Promise.allSettled([1, 2, 3, 4, 5].map((id) => marks.add(id, 1)));
  assert.deepEqual(
    said.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  );
  assert.deepEqual(written, [5, 1, 1, 1, 1, 1]);
  const open = await client.query<{ id: number }>('SELECT id FROM t WHERE done_at IS NULL');
  assert.deepEqual(open.rows, [{ id: 3 }]);
  await client.query('DROP TABLE t');
  const lost = await Promise.allSettled([1, 2].map((id) => marks.add(id, 1)));
  assert.deepEqual([lost.map(({ status }) => status), written.at(-1)], [['rejected', 'rejected'], 2]);
});

test('claims and marks do not wait for the disk, effects do, and the session is as before', async (t) => {
  const client = await (await testDatabase(t)).connect();
  await client.query(`CREATE TABLE t (id INT PRIMARY KEY, done_at TIMESTAMPTZ, attempts INT NOT NULL DEFAULT 0,
    run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT); INSERT INTO t (id) VALUES (1), (2)`);
  const { claim, extend, failed, dead, doneAll, doneWith } = leaseOn('t');
  const during = async (statement: string, params: readonly unknown[]) => {
    await client.query('BEGIN');
    const { rowCount } = await client.query(statement, [...params]);
    const { rows } = await client.query<{ synchronous_commit: string }>('SHOW synchronous_commit');
    await client.query('COMMIT');
    return [rowCount, rows[0]?.synchronous_commit];
  };
  assert.deepEqual(await during(claim, [10, 60, 10]), [2, 'off']);
  assert.deepEqual(await during(extend, [1, 1, 60]), [1, 'off']);
  assert.deepEqual(await during(failed, [1, 1, 'no', 60]), [1, 'off']);
  assert.deepEqual(await during(dead, [1, 1, 'no', 1]), [1, 'off']);
  assert.deepEqual(await during(doneAll, ['{1}', 1]), [1, 'off']);
  assert.deepEqual(await during(doneWith('SELECT id FROM done', 1), [2, 1]), [1, 'on']);
  assert.equal((await client.query('SHOW synchronous_commit')).rows[0].synchronous_commit, 'on');
});

test('a claim reads the index of open rows in order, and marks find their rows by the key, whatever is known of the table', async (t) => {
  const client = await (await testDatabase(t)).connect();
  const page = 'docs/workers.md';
  const { claim, extend, failed, dead, doneAll, doneWith } = leaseOn('orders');
  const [recipeClaim, recipeDone, recipeFailed] = await Promise.all(
    ['claim', 'done', 'failed'].map((name) => commandsOf(page, name)),
  );
  const marks: readonly (readonly [string | undefined, readonly unknown[]])[] = [
    [extend, [1, 1, 60]],
    [failed, [1, 1, 'no', 60]],
    [dead, [1, 1, 'no', 1]],
    [doneAll, ['{1,2,3,4,5}', 1]],
    [doneWith('SELECT id FROM done', 1), [2, 1]],
    [recipeDone, [1, 1]],
    [recipeFailed, [1, 1, 'no']],
  ];
  const planOf = async (statement: string | undefined, params: readonly unknown[]): Promise<string> => {
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${statement ?? ''}`, [...params]);
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  };
  const fill = (count: number, columns: string): Promise<unknown> =>
    client.query(`INSERT INTO orders (done_at, run_after) SELECT ${columns} FROM generate_series(1, ${count})`);
  for (const scene of [
    async () => undefined,
    () => fill(2_000, 'NULL, now()'),
    () => client.query('VACUUM ANALYZE orders'),
    async () => {
      await client.query('UPDATE orders SET done_at = now()');
      await client.query('VACUUM ANALYZE orders');
    },
    () => fill(2_000, 'NULL, now()'),
  ]) {
    await client.query(`CREATE TABLE IF NOT EXISTS orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data JSONB, done_at TIMESTAMPTZ,
      attempts INT NOT NULL DEFAULT 0, run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT) WITH (autovacuum_enabled = off);
      CREATE INDEX IF NOT EXISTS open ON orders (run_after) WHERE done_at IS NULL`);
    await scene();
    for (const [statement, params] of [
      [claim, [20, 60, 10]],
      [recipeClaim, []],
    ] as const)
      assert.match(await planOf(statement, params), /Limit[^]*Index Scan using open on orders/);
    for (const [statement, params] of marks) {
      const plan = await planOf(statement, params);
      assert.match(plan, /orders_pkey/, statement);
      assert.doesNotMatch(plan, /\bopen\b/, statement);
    }
  }
});
