/** Behind a pooler that hands one session to many: Headgate listens to nothing there, and polls. With the real PgBouncer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { createClient } from '../../src/client/client.ts';
import { CommitPools } from '../../src/commit/commit-pools.ts';
import { limits } from '../../src/config/limits.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { onEnd } from '../support/cleanup.ts';
import { revokedAfterMs } from '../support/freshness.ts';
import { startHeadgate } from '../support/headgate.ts';
import { openPgbouncer } from '../support/pooler.ts';
import { sampleOf } from '../support/sample.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

/** Protocol 3.0's CancelRequest. */
const cancelRequest = 80_877_102;

suite('Headgate works behind PgBouncer', () => {
  test('Headgate behind a pooler with fewer connections than it opens says so and uses those', async (t) => {
    const program = requireTool(t, 'pgbouncer');
    if (program === null) return;
    const server = await startTcpServer();
    onEnd(t, 'server', () => server.close());
    const port = await openPgbouncer(t, program, server.port, 'session', undefined, 2);
    const clientConfig = (database: string) => ({ host: '127.0.0.1', port, user: 'root', database });
    const seen: Observation[] = [];
    const pools = new CommitPools({ clientConfig }, limits, 'test', (it) => seen.push(it));
    onEnd(t, 'pools', () => pools.close());
    const connect = () => pools.connectForMany('postgres');
    const first = await connect();
    const second = await connect();
    // PgBouncer accepts the third, and lets its first statement wait for a server.
    await assert.rejects(connect(), /a pooler in front of it has fewer server connections/);
    const [limited] = seen;
    assert.ok(limited?.kind === 'commit.connections_limited');
    assert.deepEqual([limited.connections, pools.sizeOf('postgres')], [2, 2]);
    const waiting = connect();
    first.release();
    const again = await waiting;
    assert.deepEqual((await again.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
    for (const client of [again, second]) client.release();
  });

  test('/readyz names a pooler that has fewer connections than the catalog needs', async (t) => {
    const program = requireTool(t, 'pgbouncer');
    if (program === null) return;
    const server = await startTcpServer();
    onEnd(t, 'server', () => server.close());
    const port = await openPgbouncer(t, program, server.port, 'session', undefined, 2);
    const headgate = await startHeadgate(t, {
      env: {
        HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
        HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
      },
    });
    await within(20_000, async () => {
      const { status, text } = await asked(`${headgate.adminUrl}/readyz`);
      assert.equal(status, 503);
      assert.match(text, /a pooler in front of it has fewer server connections/);
    });
    const { status } = await headgate.post('postgres/public/t', '{}');
    assert.equal(status, 503);
  });

  test('a cancelled statement does not end PgBouncer 1.18, which exits if the client of a CancelRequest leaves first', async (t) => {
    const program = requireTool(t, 'pgbouncer');
    if (program === null) return;
    const server = await startTcpServer();
    onEnd(t, 'server', () => server.close());
    const held: (() => void)[] = [];
    const proxy = createServer((fromPooler) => {
      fromPooler.on('error', () => {});
      fromPooler.once('data', (packet: Buffer) => {
        fromPooler.pause();
        const pass = (): void => {
          const upstream = connect(server.port, '127.0.0.1');
          upstream.on('error', () => {});
          fromPooler.on('close', () => upstream.destroy());
          upstream.write(packet);
          fromPooler.pipe(upstream).pipe(fromPooler);
        };
        if (packet.readInt32BE(4) === cancelRequest) held.push(pass);
        else pass();
      });
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    onEnd(t, 'proxy', () => void proxy.close());
    const port = await openPgbouncer(t, program, (proxy.address() as AddressInfo).port, 'session');
    const clientOf = async (at: number) => {
      const client = new Client({ host: '127.0.0.1', port: at, user: 'root', database: 'postgres' });
      client.on('error', () => {});
      await client.connect();
      onEnd(t, 'client', () => client.end());
      return client;
    };
    const headgate = await startHeadgate(t, {
      env: {
        HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
        HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
      },
    });
    const own = await clientOf(port);
    const letThrough = async () => {
      await within(10_000, async () => assert.equal(held.length, 1));
      // PgBouncer has one thread: what has reached it before this is done with.
      await own.query('SELECT 1');
      held.shift()?.();
    };
    const running = (sql: string) =>
      within(10_000, async () => {
        const { rowCount } = await own.query('SELECT FROM pg_stat_activity WHERE query = $1', [sql]);
        assert.equal(rowCount, 1);
      });

    // At the SQL port, by a client that does not wait either.
    const client = await clientOf(headgate.ports.sql.port);
    const cancelled = assert.rejects(client.query('SELECT pg_sleep(601)'), { code: '57014' });
    await running('SELECT pg_sleep(601)');
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
    const packet = Buffer.alloc(16);
    for (const [at, value] of [16, cancelRequest, processID, secretKey].entries())
      packet.writeInt32BE(value, at * 4);
    connect(headgate.ports.sql.port, '127.0.0.1').end(packet);
    await letThrough();
    await cancelled;

    // By the client of /v1/sql, which leaves.
    const leaving = new AbortController();
    const answer = assert.rejects(
      fetch(`${headgate.gatewayUrl}/v1/sql`, {
        method: 'POST',
        body: 'SELECT pg_sleep(602)',
        signal: leaving.signal,
      }),
    );
    await running('SELECT pg_sleep(602)');
    leaving.abort();
    await answer;
    await letThrough();
    await within(10_000, async () => {
      const { rowCount } = await own.query(
        `SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(602)' AND state = 'active'`,
      );
      assert.equal(rowCount, 0);
    });
  });

  for (const mode of sampleOf(['transaction', 'session'], 1))
    test(`a key changed behind PgBouncer in ${mode} mode counts within a second, and other clients get no notification`, async (t) => {
      const program = requireTool(t, 'pgbouncer');
      if (program === null) return;
      const server = await startTcpServer();
      onEnd(t, 'server', () => server.close());
      const port = await openPgbouncer(t, program, server.port, mode);
      const env = {
        HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
        HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
      };
      const headgate = await startHeadgate(t, { env });
      const direct = new Client({ host: '127.0.0.1', port: server.port, user: 'root', database: 'postgres' });
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
        assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 200),
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
      // Tables of other owners that run code need their owners' sessions, which the pooler does not pass on.
      await direct.query(
        `CREATE ROLE alice LOGIN; GRANT ALL ON SCHEMA public TO alice; CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
      );
      await door.query(`CREATE TABLE hers (id INT, n INT DEFAULT public.f()) WITH (connector = 'webhook')`);
      await direct.query('ALTER TABLE hers OWNER TO alice');
      await within(10_000, async () => {
        assert.equal((await headgate.post('postgres/public/hers', '{"id":1}')).status, 503);
        assert.match(
          headgate.stderr,
          /which a connection pooler in between does not let Headgate open: let Headgate reach the server directly/,
        );
      });
      const tookMs = await revokedAfterMs(headgate, direct, 'postgres/public/t');
      assert(tookMs < 1_000, `${tookMs} ms`);
      // Their rows are followed: no page of a stream needs the session of the one before.
      for await (const { row } of createClient({ url: headgate.gatewayUrl }).follow('t', { after: '0' })) {
        assert.deepEqual(row, { data: {} });
        break;
      }
      if (mode === 'session') return;
      // Rows of a typed table are stored with statements of their own, which no session remembers: a pooler may lose count of them.
      await door.query(
        `CREATE TABLE typed (id INT PRIMARY KEY, v TEXT) WITH (connector = 'webhook', dedupe = 'header:x-id')`,
      );
      for (let id = 0; id < 16; id++) {
        const stored = await headgate.post('postgres/public/typed', `{"id":${id}}`, { 'x-id': `${id}` });
        assert.equal(stored.status, 200, stored.text);
      }
      // Rows were stored and refused ones kept: whoever is lent those sessions next finds them as they were.
      const lent = await Promise.all(
        Array.from({ length: 6 }, async () => {
          const stranger = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
          await stranger.connect();
          onEnd(t, 'stranger', () => stranger.end());
          const { rows } = await stranger.query<{ name: string }>(
            `SELECT name FROM pg_settings, pg_sleep(0.2) WHERE source = 'session' AND name IN
             ('search_path', 'synchronous_commit', 'client_min_messages', 'statement_timeout', 'default_transaction_isolation')
             UNION ALL SELECT statement FROM pg_prepared_statements`,
          );
          return rows.map(({ name }) => name);
        }),
      );
      assert.deepEqual(lent.flat(), []);
    });
});
