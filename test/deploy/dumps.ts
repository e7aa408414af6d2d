/**
 * PostgreSQL 18's own tools at a Headgate that serves, as docs/deploy/backups.md has them. `npm run test:dumps` puts them where
 * HEADGATE_DUMPS_BIN is.
 */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { leaseOn } from '../../src/client/lease.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { clientOf } from '../support/owners.ts';
import { run } from '../support/run.ts';
import { embeddedBin, startServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { WsClient } from '../support/ws-client.ts';

const { HEADGATE_DUMPS_BIN: bin, PATH } = process.env;
assert(bin !== undefined, 'HEADGATE_DUMPS_BIN is not set');
const page = 'docs/deploy/backups.md';
const secret = 'backed up';

/** Rows come while the commands run; gives what had been answered 200 before. */
async function whileServing(t: TestContext, headgate: Headgate, block: string, env: Record<string, string>) {
  const ledger = new Ledger(secret);
  t.after(() => ledger.close());
  const sending = ledger.run(() => `${headgate.webhookUrl}/dev/public/deliveries`, 8);
  await until(() => ledger.committed >= 200);
  const before = ledger.committed;
  await shell(block, env);
  assert(ledger.committed > before, 'senders went on');
  ledger.stop();
  await sending;
  const { lost, refused } = await ledger.tally(await headgate.client(t), 'deliveries');
  assert.deepEqual({ lost, refused }, { lost: [], refused: 0 });
  return before;
}

async function shell(block: string, env: Record<string, string>): Promise<void> {
  const commands = await commandsOf(page, block);
  const ran = await run('sh', ['-euc', commands], { env: { PATH: `${bin}:${PATH}`, ...env } });
  assert.equal(ran.code, 0, `${commands}\n${ran.stdout}${ran.stderr}`);
}

/** How many rows a restored table has; and it takes signed ones again. */
async function rowsOf(t: TestContext, headgate: Headgate, database: string): Promise<number> {
  const client = await headgate.client(t, database);
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM deliveries');
  const ledger = new Ledger(secret);
  t.after(() => ledger.close());
  const sending = ledger.run(() => `${headgate.webhookUrl}/${database}/public/deliveries`, 2);
  await until(() => ledger.committed >= 10);
  ledger.stop();
  await sending;
  const forged = await headgate.post(`${database}/public/deliveries`, '{}');
  assert.equal(forged.status, 401);
  return rows[0]?.n ?? 0;
}

test('PostgreSQL 18 dumps, restores and base backups of a Headgate work', async (t) => {
  const folder = await temporaryFolder(t);
  // Nobody is there: no log of a sender can be read.
  const apis = { HEADGATE_RECONCILE_APIS: 'stripe=http://127.0.0.1:9' };
  const headgate = await startHeadgate(t, { dataDir: join(folder, 'data'), env: apis });
  await (
    await headgate.client(t)
  ).query(`CREATE SECRET gh WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET gh USING github`);
  const env = {
    DATA_DIR: headgate.dataDir,
    BACKUP: join(folder, 'backup'),
    DUMP: join(folder, 'headgate.dump'),
    SQL_PORT: String(headgate.ports.sql.port),
  };

  await t.test(
    'a dump by pg_dump through the SQL port is served after a restore into another database',
    async () => {
      const before = await whileServing(t, headgate, 'dump', env);
      await shell('undump', env);
      assert((await rowsOf(t, headgate, 'again')) >= before);
    },
  );

  await t.test(
    'a dump restored on another server is served; pg_restore reports only roles that are missing there',
    async () => {
      const root = await headgate.client(t);
      await root.query('CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app');
      const app = await headgate.clientAs(t, 'app');
      await app.query(`CREATE TABLE app.plain (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE app.coded (id INT, who NAME DEFAULT current_user, n SERIAL) WITH (connector = 'webhook', dedupe = '$.id')`);
      for (const id of [1, 2])
        assert.equal((await headgate.post('dev/app/coded', `{"id":${id}}`)).status, 200);
      assert.deepEqual(
        (await root.query('SELECT count(*)::int AS n FROM headgate.delivery WHERE claimed_by IS NOT NULL'))
          .rows,
        [{ n: 2 }],
        'claimed in a session of the owner',
      );
      const tool = async (name: string, ...args: readonly string[]) => {
        const ran = await run(join(bin, name), args);
        return { code: ran.code, said: ran.stderr.split('\n').filter((line) => /error: /.test(line)) };
      };
      const from = ['-h', '127.0.0.1', '-p', env.SQL_PORT, '-U', 'root', '-Fc', '-f', env.DUMP, 'dev'];
      assert.equal((await tool('pg_dump', ...from)).code, 0);
      const server = await startServer(embeddedBin);
      onEnd(t, 'server', () => server.close());
      const there = await clientOf(t, { host: server.socketDir, user: 'root', database: 'postgres' });
      const restored = async (database: string) => {
        await there.query(`CREATE DATABASE ${database}`);
        return tool('pg_restore', '-h', server.socketDir, '-U', 'root', '-d', database, env.DUMP);
      };
      // Not even the owner of the table is there.
      const { said } = await restored('without');
      assert.deepEqual(
        [...new Set(said.map((line) => /role "\w+" does not exist/.exec(line)?.[0] ?? line))].toSorted(),
        ['app', 'headgate_commit', 'headgate_gateway'].map((role) => `role "${role}" does not exist`),
      );
      await there.query(
        'CREATE ROLE headgate_gateway ROLE CURRENT_USER; CREATE ROLE headgate_commit ROLE CURRENT_USER; CREATE ROLE app LOGIN; CREATE ROLE next',
      );
      assert.deepEqual(await restored('with_roles'), { code: 0, said: [] });
      for (const database of ['without', 'with_roles']) {
        const dsn = `postgresql://root@/${database}?host=${encodeURIComponent(server.socketDir)}`;
        const other = await startHeadgate(t, {
          args: [`--database-url=${dsn}`, `--master-key-file=${join(headgate.dataDir, 'master.key')}`],
        });
        for (const [table, body] of [
          ['public/deliveries', '{}'],
          ['app/plain', '{}'],
          ['app/coded', '{"id":1}'],
          ['app/coded', '{"id":3}'],
        ] as const)
          assert.equal(
            (await other.post(`${database}/${table}`, body)).status,
            table === 'public/deliveries' ? 401 : 200,
            table,
          );
        const client = await clientOf(t, { host: server.socketDir, user: 'root', database });
        const { rows } = await client.query('SELECT id, who FROM app.coded ORDER BY id');
        const owner = database === 'without' ? 'root' : 'app';
        assert.deepEqual(
          rows,
          [1, 2, 3].map((id) => ({ id, who: id < 3 ? 'app' : owner })),
          'the first one is known',
        );
        // And no longer, once the table is somebody else's.
        await client.query('ALTER TABLE app.coded OWNER TO next; ALTER SCHEMA app OWNER TO next');
        await until(async () => (await other.post(`${database}/app/coded`, '{"id":4}')).status === 200);
        assert.equal((await other.post(`${database}/app/coded`, '{"id":2}')).status, 200);
        const { rows: after } = await client.query('SELECT who FROM app.coded WHERE id = 2 ORDER BY n');
        assert.deepEqual(after, [{ who: 'app' }, { who: 'next' }]);
      }
    },
  );

  await t.test(
    'a dump carries versions, tombstones, sender logs and leases to another server, where they stay in force',
    async () => {
      const root = await headgate.client(t);
      await root.query(`CREATE DATABASE jobs`);
      const jobs = await headgate.client(t, 'jobs');
      await jobs.query(await commandsOf('docs/workers.md', 'table'));
      await jobs.query(`CREATE SECRET token WITH (backend = 'meta') AS 'sk_test';
        CREATE TABLE states (id BIGINT PRIMARY KEY, note TEXT, at BIGINT) WITH (connector = 'webhook', version = 'at', readers = 'app');
        CREATE TABLE charges (data JSONB) WITH (connector = 'webhook', document = 'data', dedupe = '$.id', reconcile = 'stripe', reconcile_secret = token)`);
      const post = async (from: Headgate, database: string, table: string, body: object) =>
        assert.equal((await from.post(`${database}/public/${table}`, JSON.stringify(body))).status, 200);
      for (const id of [1, 2]) await post(headgate, 'jobs', 'states', { id, note: 'new', at: 20 });
      for (const n of [1, 2, 3, 4]) await post(headgate, 'jobs', 'orders', { n });
      await post(headgate, 'jobs', 'charges', { id: 'evt_1' });
      // Gone, and no older version of it may come back; a lease, a row that is done, a dead one.
      const socket = await WsClient.open(
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/jobs/public/states`,
      );
      socket.send(1, [{ op: 'delete', data: { id: 2, at: 30 } }]);
      await socket.acked(1);
      await socket.close();
      assert.equal((await jobs.query('SELECT FROM headgate.tombstones')).rowCount, 1);
      const claimed = leaseOn('orders').claim;
      assert.equal((await jobs.query(claimed, [1, 3_600, 10])).rowCount, 1);
      await jobs.query(
        `UPDATE orders SET done_at = now() WHERE id = 2; UPDATE orders SET attempts = 10, last_error = 'x' WHERE id = 3`,
      );
      await until(
        async () =>
          (await jobs.query('SELECT FROM headgate.gaps WHERE looked_at IS NOT NULL')).rowCount === 1,
      );
      const kept = `SELECT (SELECT jsonb_agg(to_jsonb(o) ORDER BY o.id) FROM orders o) AS orders,
        (SELECT jsonb_agg(to_jsonb(s) ORDER BY s.id) FROM states s) AS states,
        (SELECT jsonb_agg(w.options ORDER BY w.relation::text) FROM headgate.webhook_table w) AS tables,
        (SELECT count(*)::int FROM headgate.tombstone) AS tombstones, (SELECT count(*)::int FROM headgate.delivery) AS deliveries,
        (SELECT jsonb_agg(jsonb_build_array(table_name, log, since)) FROM headgate.gaps) AS logs`;
      const before = (await jobs.query(kept)).rows;
      const dump = join(folder, 'jobs.dump');
      const from = ['-h', '127.0.0.1', '-p', env.SQL_PORT, '-U', 'root', '-Fc', '-f', dump, 'jobs'];
      assert.equal((await run(join(bin, 'pg_dump'), from)).code, 0);
      const server = await startServer(embeddedBin);
      onEnd(t, 'server of the jobs', () => server.close());
      const there = await clientOf(t, { host: server.socketDir, user: 'root', database: 'postgres' });
      await there.query(
        'CREATE ROLE headgate_gateway ROLE CURRENT_USER; CREATE ROLE headgate_commit ROLE CURRENT_USER; CREATE ROLE app LOGIN',
      );
      await there.query('CREATE DATABASE jobs');
      const restored = await run(join(bin, 'pg_restore'), [
        '-h',
        server.socketDir,
        '-U',
        'root',
        '-d',
        'jobs',
        dump,
      ]);
      assert.deepEqual([restored.code, restored.stderr], [0, '']);
      const dsn = `postgresql://root@/jobs?host=${encodeURIComponent(server.socketDir)}`;
      const other = await startHeadgate(t, {
        args: [`--database-url=${dsn}`, `--master-key-file=${join(headgate.dataDir, 'master.key')}`],
        env: apis,
      });
      const client = await clientOf(t, { host: server.socketDir, user: 'root', database: 'jobs' });
      assert.deepEqual((await client.query(kept)).rows, before);
      // An older version changes nothing, a delivery that was there is a copy, and only the free row is claimed.
      await post(other, 'jobs', 'states', { id: 1, note: 'old', at: 10 });
      await post(other, 'jobs', 'states', { id: 2, note: 'old', at: 20 });
      await post(other, 'jobs', 'charges', { id: 'evt_1' });
      assert.deepEqual((await client.query('SELECT id::int, note FROM states ORDER BY id')).rows, [
        { id: 1, note: 'new' },
      ]);
      assert.equal((await client.query('SELECT FROM charges')).rowCount, 1);
      const next = await client.query<{ id: string }>(claimed, [10, 60, 10]);
      assert.deepEqual(
        next.rows.map(({ id }) => id),
        ['4'],
      );
      await until(
        async () =>
          (await client.query('SELECT FROM headgate.gaps WHERE problem IS NOT NULL')).rowCount === 1,
      );
    },
  );

  await t.test('Headgate starts from a base backup by pg_basebackup as its data directory', async () => {
    await mkdir(env.BACKUP);
    const before = await whileServing(t, headgate, 'base', env);
    const second = await startHeadgate(t, { dataDir: env.BACKUP });
    assert((await rowsOf(t, second, 'dev')) >= before);
  });
});
