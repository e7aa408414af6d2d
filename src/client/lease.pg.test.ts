/** The lease's statement for many rows: it marks those that are still the attempt's, whatever type their key has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { leaseOn } from './lease.ts';
import { arrayText } from './lease-rows.ts';

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
