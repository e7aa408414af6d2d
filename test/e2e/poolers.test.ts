/** Behind a pooler that hands one session to many: Headgate listens to nothing there, and polls. With the real PgBouncer. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { createClient } from '../../src/client/client.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { startServer } from '../support/server.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Gives the port. */
async function openPgbouncer(
  t: TestContext,
  program: string,
  serverPort: number,
  mode: string,
): Promise<number> {
  const folder = await temporaryFolder(t);
  const port = await freePort();
  const config = join(folder, 'pgbouncer.ini');
  await writeFile(join(folder, 'users'), '"root" ""\n');
  await writeFile(
    config,
    `[databases]
* = host=127.0.0.1 port=${serverPort} user=root
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
auth_file = ${join(folder, 'users')}
pool_mode = ${mode}
default_pool_size = 8
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,statement_timeout,options
`,
  );
  await chmod(folder, 0o755);
  // It refuses to run as root.
  const user = userInfo().uid === 0 ? ['-u', 'postgres'] : [];
  const child = spawn(program, [...user, config], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const ended = once(child, 'exit');
  onEnd(t, 'pgbouncer', async () => {
    child.kill('SIGINT');
    child.kill('SIGTERM');
    await ended;
  });
  await within(10_000, async () => {
    assert.equal(child.exitCode, null, said);
    const client = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
    client.on('error', () => {});
    await client.connect();
    await client.end();
  });
  return port;
}

async function revokedAfterMs(headgate: Headgate, direct: Client): Promise<number> {
  const post = async (x: string) => (await headgate.post('postgres/public/t', '{}', { x })).status;
  assert.equal(await post('old'), 200);
  // Not through Headgate's own SQL port, which could tell it.
  const { rows } = await direct.query<{ sealed: string; seal_id: string }>(
    `SELECT sealed, seal_id FROM headgate.secret WHERE name = 'next'`,
  );
  await direct.query(`UPDATE headgate.secret SET sealed = $1, seal_id = $2 WHERE name = 's'`, [
    rows[0]?.sealed,
    rows[0]?.seal_id,
  ]);
  const changed = performance.now();
  await within(10_000, async () => assert.equal(await post('old'), 503));
  return performance.now() - changed;
}

suite('behind PgBouncer', () => {
  for (const mode of ['transaction', 'session'])
    test(`${mode} pooling: a changed key counts within a second, and nobody else hears of it`, async (t) => {
      const program = requireTool(t, 'pgbouncer');
      if (program === null) return;
      const serverPort = await freePort();
      const settings = ['listen_addresses=127.0.0.1', `port=${serverPort}`];
      const server = await startServer(undefined, settings);
      onEnd(t, 'server', () => server.close());
      const port = await openPgbouncer(t, program, serverPort, mode);
      const env = {
        HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
        HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
      };
      const headgate = await startHeadgate(t, { env });
      const direct = new Client({ host: '127.0.0.1', port: serverPort, user: 'root', database: 'postgres' });
      direct.on('error', () => {});
      await direct.connect();
      onEnd(t, 'direct', () => direct.end());
      const door = new Client({
        host: '127.0.0.1',
        port: headgate.ports.sql.port,
        user: 'root',
        database: 'postgres',
      });
      door.on('error', () => {});
      await door.connect();
      onEnd(t, 'door', () => door.end());
      await door.query(`CREATE SECRET s WITH (backend = 'meta') AS 'old'`);
      await door.query(`CREATE SECRET next WITH (backend = 'meta') AS 'new'`);
      await door.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')
        VALIDATE SECRET s AS secure_compare(headers->>'x', s)`);
      await within(10_000, async () =>
        assert.equal((await fetch(`${headgate.adminUrl}/readyz`)).status, 200),
      );
      if (mode === 'transaction') {
        // Strangers on the same sessions are told nothing.
        const stranger = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
        const told: string[] = [];
        stranger.on('notification', ({ channel }) => told.push(channel));
        await stranger.connect();
        onEnd(t, 'stranger', () => stranger.end());
        await within(10_000, async () => {
          const found = await stranger.query('SELECT pg_listening_channels()');
          assert.equal(found.rowCount, 0);
        });
        await door.query(`ALTER SECRET next AS 'newer'`);
        await stranger.query('SELECT 1');
        assert.deepEqual(told, []);
      }
      const tookMs = await revokedAfterMs(headgate, direct);
      assert(tookMs < 1_000, `${tookMs} ms`);
      // Their rows are followed: no page of a stream needs the session of the one before.
      for await (const { row } of createClient({ url: headgate.gatewayUrl }).follow('t', { after: '0' })) {
        assert.deepEqual(row, { data: {} });
        break;
      }
      if (mode === 'session') return;
      // Rows were stored and refused ones kept: whoever is lent those sessions next finds them as they were.
      const lent = await Promise.all(
        Array.from({ length: 6 }, async () => {
          const stranger = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
          await stranger.connect();
          onEnd(t, 'stranger', () => stranger.end());
          const { rows } = await stranger.query<{ name: string }>(
            `SELECT name FROM pg_settings, pg_sleep(0.2) WHERE source = 'session' AND name IN
             ('search_path', 'synchronous_commit', 'client_min_messages', 'statement_timeout', 'default_transaction_isolation')`,
          );
          return rows.map(({ name }) => name);
        }),
      );
      assert.deepEqual(lent.flat(), []);
    });
});
