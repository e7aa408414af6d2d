/** docs/deploy/upgrading.md: a catalog that a newer Headgate has moved on, and a data directory that is used again. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { testDatabase } from '../support/postgres.ts';

suite('an upgrade protects the catalog from older versions', () => {
  test('a Headgate older than its catalog serves nothing after a start, but goes on if it is running', async (t) => {
    const database = await testDatabase(t);
    const env = {
      HEADGATE_DATABASE_URL: database.connectionString,
      HEADGATE_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    };
    const running = await startHeadgate(t, { env });
    const { user = '', password } = database.clientConfig;
    const door = new Client({
      host: '127.0.0.1',
      port: running.ports.sql.port,
      database: database.name,
      user,
      ...(password === undefined ? {} : { password }),
    });
    await door.connect();
    onEnd(t, 'door', () => door.end());
    await door.query(`CREATE TABLE kept (data JSONB) WITH (connector = 'webhook')`);
    const path = `${database.name}/public/kept`;
    assert.equal((await running.post(path, '{}')).status, 200);
    await (await database.connect()).query('insert into headgate.migration (version) values (9999)');

    const older = await startHeadgate(t, { env });
    assert.equal((await older.post(path, '{}')).status, 503);
    assert.match(older.stderr, /the catalog in schema headgate is of version 9999.*start a newer Headgate/);
    const readiness = await asked(`${older.adminUrl}/readyz`);
    assert.equal(readiness.status, 503);
    assert.match(readiness.text, /start a newer Headgate/);
    assert.equal((await running.post(path, '{}')).status, 200);
    assert.equal((await door.query('select from kept')).rowCount, 2);
  });
});
