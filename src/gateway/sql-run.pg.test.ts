import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolClient } from 'pg';
import { testDatabase } from '../../test/support/postgres.ts';
import { mostReadInOneTurn, streamOf } from '../../test/support/read-in-turn.ts';
import { limits } from '../config/limits.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { ResultMemory, SqlResult } from './sql-result.ts';
import { runSql } from './sql-run.ts';

test('the gateway reads a large SQL result in bounded pieces, so that other requests are served meanwhile', async (t) => {
  const client = (await (await testDatabase(t)).connect()) as unknown as PoolClient;
  for (const [sql, rows] of [
    ['select 1 from generate_series(1, 100000)', 100_000],
    [`do $$ begin for i in 1..40000 loop raise warning ''; end loop; end $$`, 0],
  ] as const) {
    const result = new SqlResult(() => undefined, new ResultMemory());
    const run = { sql: Buffer.from(sql), values: null, result, large: new Semaphore(1) };
    const most = await mostReadInOneTurn(streamOf(client), () => runSql(client, run));
    assert.equal(result.rows, rows);
    assert.ok(most <= limits.answerAtOnceBytes + 2 * 65_536, `${most} bytes`);
  }
});
