/** The lease's statement for many rows: it marks those that are still the attempt's, whatever type their key has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { commandsOf } from '../../test/support/docs.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { leaseOn } from './lease.ts';
import { arrayText, Effects, Marks, MarksWithClaims } from './lease-rows.ts';

for (const [type, ids] of [
  ['BIGINT', ['1', '12', '3']],
  ['UUID', [1, 2, 3].map((n) => `00000000-0000-0000-0000-00000000000${n}`)],
  ['TEXT', ['a', 'a 1', '{"b",\\}']],
] as const)
  test(`a lease marks its delivered rows together, except rows claimed by another worker; key ${type}`, async (t) => {
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

test("a row whose mark the table's CHECK refuses fails alone, and an error of all marks is reported for each", async (t) => {
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

test("claims and marks of a lease do not wait for the disk, effects do, and the session's setting is unchanged", async (t) => {
  const client = await (await testDatabase(t)).connect();
  await client.query(`CREATE TABLE t (id INT PRIMARY KEY, done_at TIMESTAMPTZ, attempts INT NOT NULL DEFAULT 0,
    run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT); INSERT INTO t (id) VALUES (1), (2)`);
  const { claim, extend, failed, dead, doneAll, doneAndClaim, doneWith } = leaseOn('t');
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
  assert.deepEqual(await during(doneAndClaim, [10, 60, 10, '{1}', 1]), [0, 'off']);
  assert.deepEqual(await during(doneWith('SELECT id FROM done', 1), [2, 1]), [1, 'on']);
  assert.equal((await client.query('SHOW synchronous_commit')).rows[0].synchronous_commit, 'on');
});

test('a claim of a lease reads the index of open rows in order, and marks find their rows by the key', async (t) => {
  const client = await (await testDatabase(t)).connect();
  const page = 'docs/workers.md';
  const { claim, extend, failed, dead, doneAll, doneAndClaim, doneWith } = leaseOn('orders');
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
    client.query(
      `INSERT INTO orders (done_at, run_after) SELECT ${columns} FROM generate_series(1, ${count})`,
    );
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
      [doneAndClaim, [20, 60, 10, '{1,2,3,4,5}', 1]],
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

/** Six rows, of which 1 to 3 are claimed. */
async function claimedRows(t: TestContext, connect?: () => Promise<Client>): Promise<Client> {
  const client = connect === undefined ? await (await testDatabase(t)).connect() : await connect();
  await client.query(`CREATE TABLE t (id INT PRIMARY KEY, done_at TIMESTAMPTZ CHECK (done_at IS NULL OR id <> 3), attempts INT NOT NULL DEFAULT 0,
    run_after TIMESTAMPTZ NOT NULL DEFAULT now(), last_error TEXT); INSERT INTO t (id) SELECT generate_series(1, 6);
    UPDATE t SET attempts = 1, run_after = now() + interval '1 minute' WHERE id <= 3`);
  return client;
}

const open = async (client: Client): Promise<readonly number[]> =>
  (await client.query<{ id: number }>('SELECT id FROM t WHERE done_at IS NULL ORDER BY id')).rows.map(
    ({ id }) => id,
  );

test('one statement of a lease marks and claims, and a row with an expired lease is either done or claimed', async (t) => {
  const client = await claimedRows(t);
  const { doneAndClaim } = leaseOn('t');
  const claim = async (ids: readonly number[], attempt: number): Promise<readonly number[]> => {
    const { rows } = await client.query<{ id: number }>(doneAndClaim, [2, 60, 10, arrayText(ids), attempt]);
    return rows.map(({ id }) => id).toSorted((a, b) => a - b);
  };
  // 2 is another one's by now.
  await client.query('UPDATE t SET attempts = 2 WHERE id = 2');
  assert.deepEqual(await claim([1, 2], 1), [4, 5]);
  assert.deepEqual(await open(client), [2, 3, 4, 5, 6]);
  await client.query('UPDATE t SET run_after = now() WHERE id IN (4, 5)');
  await client.query(`UPDATE t SET run_after = now() + interval '1 hour' WHERE id IN (3, 6)`);
  const again = await claim([4, 5], 1);
  const { rows } = await client.query<{ id: number; attempts: number; done: boolean }>(
    'SELECT id, attempts, done_at IS NOT NULL AS done FROM t WHERE id IN (4, 5) ORDER BY id',
  );
  for (const { id, attempts, done } of rows)
    assert.deepEqual([attempts, done], again.includes(id) ? [2, false] : [1, true]);
});

test('marks of a lease are written with the next claim, alone after a refused one, and at once after the last', async (t) => {
  const client = await claimedRows(t);
  const { claim, doneAll, doneAndClaim } = leaseOn('t');
  const isOfRow = (error: unknown): boolean => (error as { code?: string }).code === '23514';
  const statements: string[] = [];
  const run = async (
    name: string,
    statement: string,
    params: readonly unknown[],
  ): Promise<readonly number[]> => {
    statements.push(name);
    return (await client.query<{ id: number }>(statement, [...params])).rows.map(({ id }) => id);
  };
  let added = 0;
  const marks = new MarksWithClaims(
    new Marks((ids, attempt) => run('done', doneAll, [arrayText(ids), attempt]), isOfRow),
    () => (added += 1),
  );
  const claimed = (most: number) =>
    marks.claim(
      () => run('claim', claim, [most, 60, 10]),
      (ids, attempt) => run('both', doneAndClaim, [most, 60, 10, arrayText(ids), attempt]),
      isOfRow,
    );
  assert.deepEqual([await claimed(1), marks.areWaiting], [[4], false]);
  const both = [1, 2].map((id) => marks.add(id, 1));
  assert.deepEqual([added, marks.areWaiting, await open(client)], [2, true, [1, 2, 3, 4, 5, 6]]);
  assert.deepEqual(await claimed(1), [5]);
  await Promise.all(both);
  assert.deepEqual(await open(client), [3, 4, 5, 6]);
  // The table refuses that 3 is done; 4 is, and the claim succeeds.
  const refused = Promise.allSettled([3, 4].map((id) => marks.add(id, 1)));
  assert.deepEqual(await claimed(1), [6]);
  assert.deepEqual(
    (await refused).map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
  assert.deepEqual(await open(client), [3, 5, 6]);
  assert.deepEqual(statements, ['claim', 'both', 'both', 'claim', 'done', 'done', 'done']);
  const last = marks.add(5, 1);
  marks.end();
  await Promise.all([last, marks.add(6, 1)]);
  assert.deepEqual(await open(client), [3]);
});

test('effects of a lease share a transaction; after a failure each gets its own, and later ones share fewer rows', async (t) => {
  const database = await testDatabase(t);
  const client = await claimedRows(t, () => database.connect());
  await client.query(
    'UPDATE t SET attempts = 1; CREATE TABLE shipped (id INT, at BIGINT DEFAULT txid_current())',
  );
  const sizes: number[] = [];
  const effects = new Effects(async (statement, sets) => {
    sizes.push(sets.length);
    const session = await database.connect();
    await session.query('BEGIN');
    for (const params of sets) await session.query(statement, [...params]);
    await session.query('COMMIT');
  }, 4);
  const statement = leaseOn('t').doneWith('INSERT INTO shipped (id) SELECT id FROM done', 1);
  await Promise.all([1, 2, 4, 5].map((id) => effects.add(statement, [id, 1])));
  const shipped = async () =>
    (
      await client.query<{ ids: number[] }>(
        'SELECT array_agg(id ORDER BY id) AS ids FROM shipped GROUP BY at ORDER BY at',
      )
    ).rows.map(({ ids }) => ids);
  assert.deepEqual(await shipped(), [[1, 2, 4, 5]]);
  const said = await Promise.allSettled([3, 6].map((id) => effects.add(statement, [id, 1])));
  assert.deepEqual(
    said.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
  assert.deepEqual(await shipped(), [[1, 2, 4, 5], [6]]);
  assert.deepEqual(sizes, [4, 2, 1, 1]);
});
