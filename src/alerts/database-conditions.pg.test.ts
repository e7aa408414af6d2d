/** Slots of a real PostgreSQL, on a server that keeps a megabyte of the log for each. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { embeddedBin, startServer } from '../../test/support/server.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { slotsOf } from './database-conditions.ts';

test('logical replication slots are reported with their lag and their loss', async (t) => {
  const server = await startServer(embeddedBin, ['wal_level=logical', 'max_slot_wal_keep_size=64MB']);
  onEnd(t, 'server', () => server.close());
  const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await client.connect();
  onEnd(t, 'client', () => client.end());
  const asked = async (_: string, sql: string) => (await client.query(sql)).rows;
  const databases = { asked } as unknown as Pick<Catalog, 'asked'>;
  const slots = () => slotsOf(databases, 'postgres');
  assert.deepEqual(await slots(), []);
  await client.query(`SELECT pg_create_logical_replication_slot('reader', 'pgoutput'),
    pg_create_logical_replication_slot('own', 'pgoutput', true), pg_create_physical_replication_slot('standby')`);
  const [first] = (await slots()) ?? [];
  const { heldBytes = NaN, read = NaN, ...rest } = first ?? {};
  assert.deepEqual(rest, {
    labels: { database: 'postgres', slot: 'reader' },
    active: false,
    lost: false,
    tooManyBytes: 32 * 2 ** 20,
  });
  assert.ok(heldBytes >= 0 && heldBytes < 2 ** 20 && read > 0, `${heldBytes} ${read}`);
  await client.query("SELECT pg_drop_replication_slot('own')");
  await client.query(
    "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000)) FROM generate_series(1, 100)",
  );
  const [behind] = (await slots()) ?? [];
  assert.ok((behind?.heldBytes ?? 0) > 90_000_000 && behind?.read === read);
  await client.query('SELECT pg_switch_wal()');
  await client.query('CHECKPOINT');
  assert.equal((await slots())?.[0]?.lost, true);
  assert.equal(await slotsOf({ asked: () => Promise.reject(new Error('away')) }, 'postgres'), null);
});
