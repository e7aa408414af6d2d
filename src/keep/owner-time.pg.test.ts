import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { test } from 'node:test';
import { Door } from '../../test/support/ddl-door.ts';
import { ownerLogins } from '../../test/support/owner-logins.ts';
import { startServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import { keepOnce } from './retention.ts';

test('slow tables of one owner do not keep the tables of other owners from their turn of keep', async (t) => {
  const server = await startServer();
  const root = new Door(server.socketDir, 'root');
  await root.client.connect();
  t.after(async () => {
    await root.client.end();
    await server.close();
  });
  await migrate(root.client, readMigrations());
  await root.run(`CREATE ROLE mallory; CREATE ROLE bob; GRANT CREATE ON SCHEMA public TO mallory, bob;
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN old; END'`);
  const make = async (name: string, owner: string) => {
    await root.run(
      `SET ROLE ${owner}; CREATE TABLE ${name} (data JSONB) INCLUDE TIMESTAMP AS arrived WITH (connector = 'webhook', keep = '1 days'); RESET ROLE`,
    );
    await root.run(`INSERT INTO ${name} VALUES ('1', now() - interval '2 days')`);
  };
  for (const name of ['slow_1', 'slow_2', 'slow_3']) {
    await make(name, 'mallory');
    await root.run(`CREATE TRIGGER slow BEFORE DELETE ON ${name} FOR EACH ROW EXECUTE FUNCTION slow()`);
  }
  for (const name of ['quick_1', 'quick_2']) await make(name, 'bob');
  const clientConfig = (database: string) => ({ host: server.socketDir, user: 'root', database });
  const isLeft = await keepOnce(
    'postgres',
    {
      engine: { clientConfig, unavailable: null },
      logins: ownerLogins(t, clientConfig),
      limits: { ...limits, keepRestMs: 0, keepRestTimes: 0, keepOwnerMs: 500 },
      observe: () => undefined,
      clock: () => performance.now(),
    },
    new AbortController().signal,
  );
  assert.equal(isLeft, true);
  const told = await root.run(
    `SELECT left(table_name, 4), rows::int, count(*)::int FROM headgate.kept GROUP BY 1, 2 ORDER BY 1, 2`,
  );
  assert.deepEqual(told, [
    ['quic', 1, 2],
    ['slow', 0, 1],
  ]);
});
