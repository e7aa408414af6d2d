import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pool } from 'pg';
import type { PoolClient } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { until } from '../../test/support/until.ts';
import { cutOff } from './hang-up.ts';
import { LeftBehind } from './left-behind.ts';

/** It ends neither by a timeout nor by a cancellation, and writes nothing to its client. */
const stubborn = `set statement_timeout = 50; do $$ begin
  loop begin perform pg_sleep(1000); exception when query_canceled then null; end; end loop; end $$`;

test('a process that goes on in its transaction once its connection was given up is ended, and no other', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  const pool = new Pool(database.clientConfig);
  pool.on('error', () => undefined);
  onEnd(t, 'pool', () => pool.end());
  new LeftBehind(() => database.clientConfig).watch(database.name, pool);
  const pidOf = (one: PoolClient) => (one as unknown as { readonly processID: number }).processID;
  const isThere = async (pid: number) =>
    (await client.query('select from pg_stat_activity where pid = $1', [pid])).rowCount === 1;
  const [given, other] = [await pool.connect(), await pool.connect()];
  for (const one of [given, other]) one.on('error', () => undefined);
  await other.query('begin; select 1');
  const ended = given.query(stubborn).catch(() => undefined);
  await until(
    async () =>
      (
        await client.query(`select from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'`, [
          pidOf(given),
        ])
      ).rowCount === 1,
  );
  cutOff(given);
  await ended;
  given.release(true);
  // Between two statements of a transaction: its server waits for it.
  other.release();
  await until(async () => !(await isThere(pidOf(given))));
  assert.ok(await isThere(pidOf(other)));
});
