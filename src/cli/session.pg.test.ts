import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { startServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { within, CommandSession } from './session.ts';

test('a read position is returned only after its WAL record is on disk', async (t) => {
  const server = await startServer(undefined, ['wal_writer_delay=10s']);
  onEnd(t, 'server', () => server.close());
  const connect = async (): Promise<Client> => {
    const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
    onEnd(t, 'client', () => client.end());
    return client;
  };
  const [asks, writes] = [await connect(), await connect()];
  await writes.query('create table t (n int)');
  await writes.query('set synchronous_commit = off');
  const behind = async () => {
    const { rows } = await asks.query<{ behind: boolean }>(
      'select pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() as behind',
    );
    return rows[0]?.behind === true;
  };
  // The server's own writer may be at it just now.
  await until(async () => {
    await writes.query('insert into t values (1)');
    return behind();
  });
  let questions = 0;
  class Counted extends CommandSession {
    override rows: CommandSession['rows'] = (text, values) => {
      questions += 1;
      return super.rows(text, values);
    };
  }
  const session = new Counted(asks);
  const told = session.position();
  let isTold = false;
  void told.then(() => (isTold = true));
  await until(() => questions > 3 || isTold);
  assert.equal(isTold, false);
  await writes.query('set synchronous_commit = on; insert into t values (2)');
  assert.ok((await told) > 0n);
});

test('a read position is returned despite an idle transaction that has written', async (t) => {
  const database = await testDatabase(t);
  const writes = await database.connect();
  await writes.query('create table t (n int); begin; insert into t select generate_series(1, 3)');
  const position = await within(database.connectionString, 'test', (session) => session.position());
  const { rows } = await writes.query<{ xid: string }>('select pg_current_xact_id()::text as xid');
  assert.ok(position <= BigInt(rows[0]?.xid ?? 0));
});
