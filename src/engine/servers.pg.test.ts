/** Servers by connection string as they occur in practice: with TLS and passwords, and more than one of them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, test } from 'node:test';
import { Client, Pool } from 'pg';
import { makeAuthority, testTls } from '../../test/support/certificates.ts';
import type { Authority, Pair } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { Spy } from '../../test/support/postgres.ts';
import { run } from '../../test/support/run.ts';
import { startTcpServer } from '../../test/support/tls-server.ts';
import type { TcpServer } from '../../test/support/tls-server.ts';
import { requireTool } from '../../test/support/tools.ts';
import { within } from '../../test/support/within.ts';
import { openTestDoor } from '../../test/support/wire-door.ts';
import { parseDsn } from './dsn.ts';
import type { Engine } from './engine.ts';
import { openPostgresEngine } from './postgres.ts';

let one: TcpServer;
let two: TcpServer;
before(async () => {
  [one, two] = await Promise.all([startTcpServer(), startTcpServer()]);
});
after(async () => {
  await one.close();
  await two.close();
});

async function open(t: TestContext, databaseUrl: string, spy = new Spy()): Promise<Engine> {
  const engine = await openPostgresEngine({ databaseUrl, observe: spy.observe });
  onEnd(t, 'engine', () => engine.close());
  return engine;
}

async function isEncrypted(engine: Engine): Promise<boolean> {
  const client = new Client(engine.clientConfig('postgres'));
  await client.connect();
  const { rows } = await client.query<{ ssl: boolean }>(
    'select ssl from pg_stat_ssl where pid = pg_backend_pid()',
  );
  await client.end();
  return rows[0]?.ssl === true;
}

async function certificates(
  t: TestContext,
): Promise<{ authority: Authority; other: Authority; client: Pair } | null> {
  if (requireTool(t, 'openssl') === null) return null;
  const folder = mkdtempSync(join(tmpdir(), 'headgate-dsn-'));
  onEnd(t, 'certificates', () => rmSync(folder, { recursive: true, force: true }));
  const authority = makeAuthority(folder);
  return { authority, other: makeAuthority(folder, 'other'), client: authority.issue('client', 'app') };
}

test('sslmode=prefer uses TLS if available, require insists on it, and verify-full checks the host name', async (t) => {
  const made = await certificates(t);
  if (made === null) return;
  const { authority, other, client } = made;
  const at = (host: string, options: string) => `postgresql://root@${host}:${one.port}/postgres?${options}`;
  const unavailable = async (url: string) => (await open(t, url)).unavailable;

  const before = await open(t, at('127.0.0.1', 'sslmode=prefer'));
  assert.equal(before.unavailable, null);
  assert.equal(await isEncrypted(before), false);
  assert.match((await unavailable(at('127.0.0.1', 'sslmode=require'))) ?? '', /does not support SSL/);

  await one.encrypt(authority.issue('db', 'db', { names: 'IP:127.0.0.1' }), authority.cert);
  const ca = `sslrootcert=${authority.cert}`;
  for (const options of [
    '',
    'sslmode=prefer',
    'sslmode=require',
    `sslmode=verify-ca&${ca}`,
    `sslmode=verify-full&${ca}`,
  ]) {
    const engine = await open(t, at('127.0.0.1', options));
    assert.equal(engine.unavailable, null, options);
    assert.equal(await isEncrypted(engine), true, options);
    const door = await openTestDoor(engine.endpoint());
    onEnd(t, 'door', () => door.door.close());
    const through = new Client({ host: '127.0.0.1', port: door.port, user: 'root', database: 'postgres' });
    await through.connect();
    const { rows } = await through.query<{ ssl: boolean }>(
      'select ssl from pg_stat_ssl where pid = pg_backend_pid()',
    );
    assert.equal(rows[0]?.ssl, true, options);
    await through.end();
  }
  // The name on the certificate is another, or its authority is.
  assert.equal(await unavailable(at('localhost', `sslmode=verify-ca&${ca}`)), null);
  assert.match((await unavailable(at('localhost', `sslmode=verify-full&${ca}`))) ?? '', /localhost/);
  const wrong = await open(t, at('127.0.0.1', `sslmode=verify-full&sslrootcert=${other.cert}`));
  assert.match(wrong.unavailable ?? '', /certificate/);
  const closed = await openTestDoor(wrong.endpoint());
  onEnd(t, 'door', () => closed.door.close());
  const refused = new Client({ host: '127.0.0.1', port: closed.port, user: 'root', database: 'postgres' });
  refused.on('error', () => {});
  await assert.rejects(refused.connect(), { code: '57P03' });

  // Where the system's authorities have signed it: a file of theirs stands for the test's.
  const [{ config } = {}] = parseDsn(at('127.0.0.1', 'sslrootcert=system'), [authority.cert]).servers;
  const bySystem = new Client(config);
  await bySystem.connect();
  await bySystem.end();
  assert.match((await unavailable(at('127.0.0.1', 'sslrootcert=system'))) ?? '', /certificate/);

  // Without TLS where the server wants it so, and where it does not have to be encrypted.
  await one.admit('hostnossl all all 127.0.0.1/32 trust');
  const plain = await open(t, at('127.0.0.1', ''));
  assert.deepEqual([plain.unavailable, await isEncrypted(plain)], [null, false]);
  assert.match((await unavailable(at('127.0.0.1', 'sslmode=require'))) ?? '', /no pg_hba.conf entry/);

  await one.admit('hostssl all all 127.0.0.1/32 cert map=all');
  assert.notEqual(await unavailable(at('127.0.0.1', `sslmode=verify-full&${ca}`)), null);
  await one.admit('hostssl all root 127.0.0.1/32 trust clientcert=verify-ca');
  const shown = `sslcert=${client.cert}&sslkey=${client.key}`;
  assert.match((await unavailable(at('127.0.0.1', `sslmode=verify-full&${ca}`))) ?? '', /certificate/);
  const known = await open(t, at('127.0.0.1', `sslmode=verify-full&${ca}&${shown}`));
  assert.equal(known.unavailable, null);
  // A pool's second client shows the certificate as its first did.
  const pool = new Pool({ ...known.clientConfig('postgres'), max: 2 });
  onEnd(t, 'pool', () => pool.end());
  const both = await Promise.all([pool.connect(), pool.connect()]);
  for (const it of both) it.release();
});

test("a client's password reaches PostgreSQL through the SQL port, with TLS on either side", async (t) => {
  const made = await certificates(t);
  if (made === null || requireTool(t, 'psql') === null) return;
  const { authority } = made;
  await one.encrypt(authority.issue('db', 'db', { names: 'IP:127.0.0.1' }), authority.cert);
  await one.run(`drop role if exists app; create role app login password 'secret'`);
  await one.admit('hostssl all all 127.0.0.1/32 scram-sha-256');
  const url = `postgresql://app:secret@127.0.0.1:${one.port}/postgres?sslmode=verify-full&sslrootcert=${authority.cert}`;
  const engine = await open(t, url);
  assert.equal(engine.unavailable, null);
  const door = await openTestDoor(engine.endpoint());
  onEnd(t, 'door', () => door.door.close());
  const psql = (password: string, more = '') =>
    run(
      'psql',
      [
        '-XAtqw',
        `host=127.0.0.1 port=${door.port} user=app dbname=postgres ${more}`,
        '-c',
        'select current_user',
      ],
      {
        env: { PATH: process.env['PATH'], PGPASSWORD: password },
      },
    );
  assert.deepEqual(await psql('secret'), { code: 0, stdout: 'app\n', stderr: '' });
  assert.match((await psql('wrong')).stderr, /password authentication failed for user "app"/);

  // A client that encrypts to the door as well must not insist on binding its channel, which ends there.
  const tls = await testTls();
  if (tls === null) return;
  onEnd(t, 'tls', () => tls.close());
  const secure = await openTestDoor(engine.endpoint(), { tls: tls.source });
  onEnd(t, 'secure door', () => secure.door.close());
  const at = `sslmode=require port=${secure.port}`;
  assert.deepEqual(await psql('secret', `${at} channel_binding=disable`), {
    code: 0,
    stdout: 'app\n',
    stderr: '',
  });
  assert.match((await psql('secret', at)).stderr, /channel binding/);
});

test('a pool uses the password of a DSN without sslmode, and of a DSN with several hosts', async (t) => {
  const server = await startTcpServer();
  onEnd(t, 'server', () => server.close());
  await server.run(`create role app login password 'secret'`);
  await server.admit('host all all 127.0.0.1/32 scram-sha-256');
  const host = `127.0.0.1:${server.port}`;
  for (const hosts of [host, `127.0.0.1:1,${host}`]) {
    const engine = await open(t, `postgresql://app:secret@${hosts}/postgres`);
    assert.equal(engine.unavailable, null);
    const pool = new Pool(engine.clientConfig('postgres'));
    onEnd(t, 'pool', () => pool.end());
    await pool.query('select');
  }
});

test('an engine with several servers uses the writable one, and after a failover the other, also in existing pools', async (t) => {
  const admit = 'host all all 127.0.0.1/32 trust';
  await Promise.all([one.admit(admit), two.admit(admit)]);
  const writable = async (server: TcpServer, is: boolean) => {
    await server.run(`alter system set default_transaction_read_only = ${is ? 'off' : 'on'}`);
    await server.run('select pg_reload_conf()');
  };
  await Promise.all([writable(one, false), writable(two, true)]);
  const hosts = `127.0.0.1:${one.port},127.0.0.1:${two.port}`;
  const spy = new Spy();
  const engine = await open(t, `postgresql://root@${hosts}/postgres`, spy);
  assert.equal(engine.unavailable, null);
  const portOf = () => {
    const endpoint = engine.endpoint();
    return endpoint.kind === 'tcp' ? endpoint.port : 0;
  };
  assert.equal(portOf(), two.port);
  assert.equal(engine.clientConfig('postgres').port, two.port);
  const pool = new Pool({ ...engine.clientConfig('postgres'), max: 1 });
  onEnd(t, 'pool', () => pool.end());
  const poolPort = async () => {
    const client = await pool.connect();
    const { rows } = await client.query<{ port: number }>(`select current_setting('port')::int as port`);
    client.release(true);
    return rows[0]?.port;
  };
  assert.equal(await poolPort(), two.port);

  await Promise.all([writable(one, true), writable(two, false)]);
  const ready = spy.next('engine.ready');
  const lost = spy.next('engine.lost');
  // A write was refused; nothing else says so.
  engine.doubt?.();
  assert.equal((await lost).reason, 'the server is read-only');
  await ready;
  assert.equal(portOf(), one.port);
  assert.equal(await poolPort(), one.port);

  await writable(one, false);
  engine.doubt?.();
  await within(20_000, async () => {
    await new Promise((resolve) => setImmediate(resolve));
    assert.match(
      engine.unavailable ?? '',
      new RegExp(
        `^127.0.0.1:${one.port}: the server is read-only; 127.0.0.1:${two.port}: the server is read-only$`,
      ),
    );
  });
  await writable(two, true);
  await within(20_000, async () => {
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(engine.unavailable, null);
  });
  assert.equal(portOf(), two.port);
});

test('an engine with several hosts finds the reachable server behind a silent one', async (t) => {
  const { createServer } = await import('node:net');
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  onEnd(t, 'silent', () => void silent.close());
  await two.run('alter system reset default_transaction_read_only');
  await two.run('select pg_reload_conf()');
  const { port } = silent.address() as { port: number };
  const engine = await open(
    t,
    `postgresql://root@127.0.0.1:${port},127.0.0.1:1,127.0.0.1:${two.port}/postgres`,
  );
  assert.equal(engine.unavailable, null);
  assert.equal(engine.clientConfig('postgres').port, two.port);
});

test('an engine refuses a role or database with too low a connection limit in one sentence', async (t) => {
  await two.run('create database small');
  await two.run('create role few login connection limit 2');
  const url = `postgresql://few@127.0.0.1:${two.port}/small?sslmode=disable`;
  const opened = () => openPostgresEngine({ databaseUrl: url, observe: () => {}, connectionsMin: 4 });
  const said = (what: string, name: string, most: string) =>
    `${what.toLowerCase()} "${name}" may have ${most}, and Headgate needs 4 at least: ALTER ${what} "${name}" CONNECTION LIMIT 20`;
  await assert.rejects(opened(), { message: said('ROLE', 'few', '2 connections') });
  await two.run('alter role few connection limit 4; alter database small connection limit 1');
  await assert.rejects(opened(), { message: said('DATABASE', 'small', '1 connection') });
  await two.run('alter database small connection limit -1');
  const engine = await opened();
  onEnd(t, 'engine', () => engine.close());
  assert.equal(engine.unavailable, null);
});
