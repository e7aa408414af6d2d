/**
 * PostgreSQL 18's own tools at a Headgate that serves, as docs/deploy/backups.md has them. `npm run test:dumps` puts them where
 * HEADGATE_DUMPS_BIN is.
 */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { clientOf } from '../support/owners.ts';
import { run } from '../support/run.ts';
import { embeddedBin, startServer } from '../support/server.ts';
import { until } from '../support/until.ts';

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

test('pg_dump, pg_restore and pg_basebackup of version 18', async (t) => {
  const folder = await temporaryFolder(t);
  const headgate = await startHeadgate(t, { dataDir: join(folder, 'data') });
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

  await t.test('a dump through the SQL port, restored into another database, is served there', async () => {
    const before = await whileServing(t, headgate, 'dump', env);
    await shell('undump', env);
    assert((await rowsOf(t, headgate, 'again')) >= before);
  });

  await t.test(
    'restored on another server it says nothing but which roles are missing there, and is served',
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
        'CREATE ROLE headgate_gateway; CREATE ROLE headgate_commit; CREATE ROLE app LOGIN; CREATE ROLE next',
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

  await t.test('a base backup is a data directory, and Headgate starts from it', async () => {
    await mkdir(env.BACKUP);
    const before = await whileServing(t, headgate, 'base', env);
    const second = await startHeadgate(t, { dataDir: env.BACKUP });
    assert((await rowsOf(t, second, 'dev')) >= before);
  });
});
