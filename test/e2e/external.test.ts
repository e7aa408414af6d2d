import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { spawnHeadgate, startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { holdSockets } from '../support/held-sockets.ts';
import { testDatabase } from '../support/postgres.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { within } from '../support/within.ts';

/** Two Headgates that know each other only through the database. */
async function twoHeadgates(t: TestContext) {
  const database = await testDatabase(t);
  const env = {
    HEADGATE_DATABASE_URL: database.connectionString,
    HEADGATE_MASTER_KEY: randomBytes(32).toString('base64'),
  };
  const [a, b] = await Promise.all([startHeadgate(t, { env }), startHeadgate(t, { env })]);
  return { database, a, b };
}

async function sqlDoor(
  t: TestContext,
  headgate: Headgate,
  database: Awaited<ReturnType<typeof testDatabase>>,
) {
  const { user, password } = database.clientConfig;
  const client = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    database: database.name,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
  });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

suite('Headgate works with an external PostgreSQL', () => {
  test('two Headgates on one database share tables, secrets and rows within a second', async (t) => {
    const { database, a, b } = await twoHeadgates(t);
    const client = await sqlDoor(t, a, database);
    await client.query(`
      CREATE SECRET token WITH (backend = 'meta') AS 'one';
      CREATE TABLE shared (data JSONB) WITH (connector = 'webhook')
        VALIDATE SECRET token AS secure_compare(headers->>'authorization', token)`);
    const post = async (to: Headgate, token: string) =>
      (await to.post(`${database.name}/public/shared`, '{}', { authorization: token })).status;
    assert.deepEqual(await Promise.all([post(a, 'one'), post(b, 'one'), post(b, 'two')]), [200, 200, 401]);
    const next = 'the second value';
    await (await sqlDoor(t, b, database)).query(`ALTER SECRET token AS '${next}'`);
    await within(1_000, async () => assert.equal(await post(a, next), 200));
    assert.equal(await post(a, 'one'), 401);
    const { rows } = await client.query<{ n: number }>('select count(*)::int as n from shared');
    assert.equal(rows[0]?.n, 3);
    const sealed = await client.query<{ sealed: string }>('select sealed from headgate.secret');
    assert(!JSON.stringify(sealed.rows).includes(next));
  });

  test('clients of the SQL port, however many, leave database connections for webhooks', async (t) => {
    const server = await startTcpServer(undefined, ['max_connections=40']);
    onEnd(t, 'server', () => server.close());
    const root = new Client({
      host: server.socketDir,
      port: server.port,
      user: 'root',
      database: 'postgres',
    });
    await root.connect();
    onEnd(t, 'root', () => root.end());
    await root.query(
      'CREATE ROLE headgate LOGIN; CREATE ROLE mal LOGIN; GRANT CREATE ON DATABASE postgres TO headgate',
    );
    await root.query('CREATE SCHEMA hooks AUTHORIZATION headgate');
    const url = `postgresql://headgate@127.0.0.1:${server.port}/postgres?sslmode=disable`;
    const a = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url } });
    const owner = await a.clientAs(t, 'headgate', 'postgres');
    for (const name of ['a', 'b', 'c', 'd'])
      await owner.query(`CREATE TABLE hooks.${name} (id INT) WITH (connector = 'webhook')`);
    const startup = Buffer.from('\0\0\0\x24\0\x03\0\0user\0mal\0database\0postgres\0\0', 'latin1');
    const held = await holdSockets(a.ports.sql.port, 60, ['127.0.0.1'], (socket) => socket.write(startup));
    onEnd(t, 'sockets', () => held.close());
    await within(5_000, () => Promise.resolve(assert.ok(held.renewed > 40)));
    for (let n = 0; n < 5; n++) {
      const sent = ['a', 'b', 'c', 'd'].map((name) => a.post(`postgres/hooks/${name}`, `{"id":${n}}`));
      assert.deepEqual(
        (await Promise.all(sent)).map(({ status }) => status),
        [200, 200, 200, 200],
      );
    }
  });

  test('webhooks get 503 with Retry-After while the external database is away, and 200 when it is back', async (t) => {
    const database = await testDatabase(t);
    const a = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: database.connectionString } });
    const client = await sqlDoor(t, a, database);
    await client.query(`CREATE TABLE away (data JSONB) WITH (connector = 'webhook')`);
    const path = `${database.name}/public/away`;
    assert.equal((await a.post(path, '{}')).status, 200);
    const admin = new Client(database.engine.clientConfig('postgres'));
    await admin.connect();
    onEnd(t, 'admin', () => admin.end());
    await admin.query(`alter database ${database.name} allow_connections false`);
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${database.name}'`,
    );
    const refused = await a.post(path, '{}');
    assert.equal(refused.status, 503);
    assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
    assert.equal((await asked(`${a.adminUrl}/readyz`)).status, 503);
    await admin.query(`alter database ${database.name} allow_connections true`);
    await within(10_000, async () => {
      assert.equal((await a.post(path, '{}')).status, 200);
      assert.equal((await asked(`${a.adminUrl}/readyz`)).status, 200);
    });
  });

  test('an invalid HEADGATE_DATABASE_URL is refused in one line without its password', async (t) => {
    for (const dsn of [
      'postgresql://u:canary@',
      'mysql://u:canary@h/d',
      'postgresql://u:canary@h:99999999/d',
    ]) {
      const headgate = await spawnHeadgate(t, { env: { HEADGATE_DATABASE_URL: dsn } });
      assert.deepEqual(await headgate.ended, { code: 1, signal: null }, dsn);
      assert.equal(
        headgate.stderr
          .trim()
          .split('\n')
          .filter((line) => line.startsWith('headgate: ')).length,
        1,
        headgate.stderr,
      );
      assert(!headgate.stderr.includes('canary'));
    }
  });
});
