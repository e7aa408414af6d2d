import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, Pool } from 'pg';
import type { PoolClient } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { startServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { cutOff } from './close-client.ts';
import { OrphanedBackends } from './orphaned-backends.ts';

/** It ends neither by a timeout nor by a cancellation, and writes nothing to its client. */
const stubborn = `set statement_timeout = 50; do $$ begin
  loop begin perform pg_sleep(1000); exception when query_canceled then null; end; end loop; end $$`;

test('a backend that goes on after its connection was cut off is terminated, and no other is', async (t) => {
  const server = await startServer(undefined, ['synchronous_standby_names=nobody']);
  onEnd(t, 'server', () => server.close());
  const config = { host: server.socketDir, user: 'root', database: 'postgres' };
  const client = new Client(config);
  onEnd(t, 'client', () => client.end());
  await client.connect();
  const pool = new Pool(config);
  pool.on('error', () => undefined);
  onEnd(t, 'pool', () => pool.end());
  new OrphanedBackends(() => config).watch(config.database, pool);
  const open = async () => {
    const one = await pool.connect();
    one.on('error', () => undefined);
    return one;
  };
  const pidOf = (one: PoolClient) => (one as unknown as { readonly processID: number }).processID;
  const eventOf = async (one: PoolClient) => {
    const asked = 'select wait_event as event from pg_stat_activity where pid = $1';
    return (await client.query<{ event: string | null }>(asked, [pidOf(one)])).rows[0]?.event;
  };
  const [goesOn, commits, other] = [await open(), await open(), await open()];
  await other.query('begin; select 1');
  const given = [
    { one: goesOn, event: 'PgSleep', sql: stubborn },
    { one: commits, event: 'SyncRep', sql: `select pg_logical_emit_message(true, '', '')` },
  ];
  for (const { one, event, sql } of given) {
    const ended = one.query(sql).catch(() => undefined);
    await until(async () => (await eventOf(one)) === event);
    cutOff(one);
    await ended;
  }
  // Only then: both are asked about at the same time.
  for (const { one } of given) one.release(true);
  // Between two statements of a transaction: its server waits for it.
  other.release();
  await until(async () => (await eventOf(goesOn)) === undefined);
  assert.equal(await eventOf(other), 'ClientRead');
  // It has committed, and its rows must not be visible before a standby has them.
  assert.equal(await eventOf(commits), 'SyncRep');
});
