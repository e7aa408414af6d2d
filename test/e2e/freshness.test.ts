/**
 * What PostgreSQL has committed holds for the next request: at each door, behind a pooler, and while the catalog's own sessions do not answer. The right
 * answer is PostgreSQL's: changes are made in its own sessions, past Headgate, and are committed before a request is sent.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { existsSync } from 'node:fs';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd, wholeFile } from '../support/cleanup.ts';
import type { Scope } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { openPgbouncer } from '../support/pooler.ts';
import { run } from '../support/run.ts';
import { breath, times } from '../support/sample.ts';
import { debianBin } from '../support/server.ts';
import { signalAll } from '../support/signal-all.ts';
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

const rounds = times(4, 40);
const floodS = times(1, 2);
const webhook = `WITH (connector = 'webhook')`;
const checkedBy = (secret: string) =>
  `${webhook} VALIDATE SECRET ${secret} AS secure_compare(headers->>'x', ${secret})`;
const checked = checkedBy('s');

interface Stage {
  readonly headgate: Headgate;
  /** A session at the SQL port, for Headgate's own statements. */
  readonly port: Client;
  /** A session of PostgreSQL. */
  readonly plain: Client;
}

async function connected(t: Scope, port: number): Promise<Client> {
  const client = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

async function stageOn(t: Scope, server: TcpServer, dsnPort = server.port): Promise<Stage> {
  const env = {
    HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${dsnPort}/postgres?sslmode=disable`,
    HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
  };
  const headgate = await startHeadgate(t, { env });
  return {
    headgate,
    port: await connected(t, headgate.ports.sql.port),
    plain: await connected(t, server.port),
  };
}

async function serverOf(t: Scope, settings: readonly string[] = []): Promise<TcpServer> {
  const server = await startTcpServer(existsSync(debianBin) ? debianBin : undefined, ['jit=on', ...settings]);
  onEnd(t, 'server', () => server.close());
  return server;
}

const file = wholeFile();
let started: Promise<Stage> | null = null;
/** For tests that neither stop its sessions nor count what others do. */
const shared = (): Promise<Stage> =>
  (started ??= serverOf(file, ['track_functions=all']).then((server) => stageOn(file, server)));

suite('freshness', () => {
  test('a request that fits the committed table is accepted at once, at every door', async () => {
    const { headgate, port, plain } = await shared();
    await port.query(`CREATE SECRET s WITH (backend = 'meta') AS 'k'`);
    for (const name of ['hook', 'socket', 'asked'])
      await port.query(`CREATE TABLE ${name} (id int) ${webhook}`);
    await port.query(`CREATE TABLE keyed (data JSONB) ${checked}`);
    await plain.query('CREATE TABLE plain (id int); CREATE TABLE lines (id int); CREATE TABLE keys (id int)');
    const events = async (query: string, body: string) =>
      asked(`${headgate.gatewayUrl}/v1/events?${query}`, { method: 'POST', body });
    const bad: string[] = [];
    const expect = (what: string, status: number, wanted: number, text = '') =>
      void (status === wanted || bad.push(`${what}: ${status} ${text}`));
    for (let i = 0; i < rounds; i++) {
      const body = `{"c${i}":1}`;
      // What is remembered of each table is as it was before.
      const before = await Promise.all([
        headgate.post('postgres/public/hook', body),
        headgate.post('postgres/public/keyed', '{}', { x: `key ${i}` }),
        events('name=plain', body),
        events('name=keys&on_conflict=update', '{"id":1}'),
        asked(`${headgate.webhookUrl}/postgres/public/asked`, { headers: { a: `a${i}` } }),
      ]);
      assert.deepEqual(
        before.map(({ status }) => status),
        [422, 401, 422, 400, 405],
      );
      await plain.query(
        ['hook', 'socket', 'plain', 'lines'].map((it) => `ALTER TABLE ${it} ADD c${i} int`).join(';'),
      );
      const hook = await headgate.post('postgres/public/hook', body);
      expect('hook', hook.status, 200, hook.text);
      const [one, some] = await Promise.all([
        events('name=plain', body),
        events('name=lines&on_error=skip', body),
      ]);
      expect('event', one.status, 200, one.text);
      if (some.text !== '{"rows":1,"skipped":[],"skippedTotal":0}') bad.push(`skip: ${some.text}`);
      const ws = await WsClient.open(
        `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/postgres/public/socket`,
      );
      ws.send(1, [{ op: 'insert', data: { [`c${i}`]: 1 } }]);
      ws.ws.close(1000);
      const end = await ws.ended;
      if (end.fatal !== null) bad.push(`socket: ${end.fatal}`);
      await port.query(`ALTER SECRET s AS 'key ${i}'`);
      const right = await headgate.post('postgres/public/keyed', '{}', { x: `key ${i}` });
      expect('key', right.status, 200, right.text);
      if (i % 3 === 2) await port.query('ALTER TABLE asked DROP ANSWER');
      await port.query(`ALTER TABLE asked ANSWER UNCHECKED WHEN headers->>'a' = 'a${i}' STATUS 204`);
      const got = await asked(`${headgate.webhookUrl}/postgres/public/asked`, { headers: { a: `a${i}` } });
      expect('handshake', got.status, 204, got.text);
      await plain.query('ALTER TABLE keys ADD PRIMARY KEY (id)');
      const key = await events('name=keys&on_conflict=update', '{"id":1}');
      expect('key of events', key.status, 200, key.text);
      await plain.query('ALTER TABLE keys DROP CONSTRAINT keys_pkey');
    }
    assert.deepEqual(bad, []);
    const sum = Array.from({ length: rounds }, (_, i) => `count(c${i})`).join('+');
    for (const table of ['hook', 'plain', 'lines']) {
      const { rows } = await plain.query<{ n: string }>(`SELECT ${sum} AS n FROM ${table}`);
      assert.equal(rows[0]?.n, String(rounds), table);
    }
  });

  test('a key that was revoked while a body arrives is refused at its end', async () => {
    const { headgate, port } = await shared();
    await port.query(`CREATE SECRET slow WITH (backend = 'meta') AS 'old'`);
    await port.query(`CREATE TABLE slowly (data JSONB) ${checkedBy('slow')}`);
    const slow = request(`${headgate.webhookUrl}/postgres/public/slowly`, {
      method: 'POST',
      headers: { x: 'old', 'content-length': 12, 'content-type': 'application/json' },
    });
    const answer = new Promise<number>((resolve, reject) => {
      slow.on('response', (response) => resolve(response.resume().statusCode ?? 0)).on('error', reject);
    });
    slow.write('{"n":');
    // The request is being read.
    await within(5_000, async () =>
      assert.equal((await headgate.post('postgres/public/slowly', '{}', { x: 'old' })).status, 200),
    );
    await port.query(`ALTER SECRET slow AS 'new'`);
    await within(5_000, async () =>
      assert.equal((await headgate.post('postgres/public/slowly', '{}', { x: 'old' })).status, 401),
    );
    slow.end('123456}');
    assert.equal(await answer, 401);
  });

  test('with hung catalog sessions no revoked key is accepted, and unsigned requests still get an answer', async (t) => {
    const { headgate, port, plain } = await stageOn(t, await serverOf(t));
    await port.query(`CREATE SECRET s WITH (backend = 'meta') AS 'old'`);
    await port.query(`CREATE TABLE t (data JSONB) ${checked}`);
    assert.equal((await headgate.post('postgres/public/t', '{}', { x: 'old' })).status, 200);
    const found = await plain.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE application_name = 'headgate catalog'`,
    );
    const pids = found.rows.map(({ pid }) => pid);
    assert(pids.length > 0);
    await port.query('BEGIN');
    await port.query(`ALTER SECRET s AS 'new'`);
    onEnd(t, 'sessions', () => signalAll(pids, 'SIGKILL'));
    signalAll(pids, 'SIGSTOP');
    await port.query('COMMIT');
    const revokedAt = performance.now();
    const since = () => performance.now() - revokedAt;
    let acceptedMs = 0;
    let slowestMs = 0;
    const names = (async () => {
      for (let i = 0; since() < 4_500; i++) {
        const sent = performance.now();
        const { status } = await headgate.post(`postgres/public/unknown_${i}`, '{}');
        slowestMs = Math.max(slowestMs, performance.now() - sent);
        await delay(20);
        assert(status === 404 || status === 503, String(status));
      }
    })();
    while (since() < 4_500) {
      const { status } = await headgate.post('postgres/public/t', '{}', { x: 'old' });
      if (status === 200) acceptedMs = since();
      await delay(20);
    }
    await names;
    assert(acceptedMs < 2_300, `the old key was accepted after ${acceptedMs} ms`);
    assert(slowestMs < 2_500, `an unknown name got its answer after ${slowestMs} ms`);
    await within(10_000, async () =>
      assert.equal((await headgate.post('postgres/public/t', '{}', { x: 'new' })).status, 200),
    );
  });

  test('while a look at all tables takes long, requests wait for one at their own, and a revoked key works no longer', async (t) => {
    const { headgate, port, plain } = await stageOn(t, await serverOf(t));
    await port.query(`CREATE SECRET s WITH (backend = 'meta') AS 'old'`);
    await port.query(`CREATE TABLE t (data JSONB) ${checked}`);
    // 202 would say that the request went to the disk.
    await port.query(
      `CREATE TABLE spools (data JSONB) ${checked}; ALTER TABLE spools SET (spool = 'fallback')`,
    );
    const post = async (x: string, table = 't') =>
      (await headgate.post(`postgres/public/${table}`, '{}', { x })).status;
    for (const table of ['t', 'spools'])
      await within(5_000, async () => assert.equal(await post('old', table), 200));
    // As with very many tables on a busy machine.
    await plain.query(`ALTER FUNCTION headgate.look(text, text) RENAME TO look_at_once;
      CREATE FUNCTION headgate.look(INOUT snapshot text, INOUT fingerprint text, OUT versions text) LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM pg_sleep(1.5);
        SELECT l.* INTO snapshot, fingerprint, versions FROM headgate.look_at_once(snapshot, fingerprint) AS l;
      END $$`);
    let slowestMs = 0;
    for (const end = performance.now() + 6_000; performance.now() < end;) {
      const sent = performance.now();
      assert.equal(await post('old'), 200);
      slowestMs = Math.max(slowestMs, performance.now() - sent);
      assert.equal(await post('old', 'spools'), 200);
      await breath();
    }
    assert(slowestMs < 1_000, `${slowestMs} ms`);
    await port.query(`ALTER SECRET s AS 'new'`);
    const revokedAt = performance.now();
    let acceptedMs = 0;
    await within(10_000, async () => {
      if ((await post('old')) === 200) acceptedMs = performance.now() - revokedAt;
      assert.equal(await post('new'), 200);
    });
    assert(acceptedMs < 1_000, `${acceptedMs} ms`);
  });

  test('behind a transaction pooler with JIT a revoked key works no longer than a second', async (t) => {
    const program = requireTool(t, 'pgbouncer');
    if (program === null) return;
    const server = await serverOf(t);
    const pooled = await openPgbouncer(t, program, server.port, 'transaction', '');
    const { headgate, port, plain } = await stageOn(t, server, pooled);
    await port.query(`CREATE SECRET s WITH (backend = 'meta') AS 'key 0'`);
    await port.query(`CREATE TABLE t (data JSONB) ${checked}`);
    const post = async (key: string) => (await headgate.post('postgres/public/t', '{}', { x: key })).status;
    await within(5_000, async () => assert.equal(await post('key 0'), 200));
    const heard = run('psql', ['-X', '-h', '127.0.0.1', '-p', String(pooled), '-U', 'root', 'postgres'], {
      input: 'SELECT pg_sleep(0.02), count(*) FROM pg_listening_channels();\n'.repeat(50),
    });
    let slowestMs = 0;
    for (let round = 1; round <= 12; round++) {
      const [old, now] = [`key ${round - 1}`, `key ${round}`];
      assert.equal(await post(old), 200);
      await port.query(`ALTER SECRET s AS '${now}'`);
      const revokedAt = performance.now();
      const right = post(now);
      await until(async () => (await post(old)) !== 200);
      slowestMs = Math.max(slowestMs, performance.now() - revokedAt);
      assert.equal(await right, 200);
    }
    assert(slowestMs < 1_000, `the old key was accepted for ${slowestMs} ms`);
    const { stdout, stderr } = await heard;
    assert.doesNotMatch(stdout + stderr, /Asynchronous notification/);
    assert.doesNotMatch(stdout, /\|\s+[1-9]\d*$/m, 'a session that is lent listens');
    // Sessions are as they were for whoever is lent them next.
    const lent = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const stranger = await connected(t, pooled);
        const { rows } = await stranger.query<{ name: string }>(
          `SELECT name FROM pg_settings, pg_sleep(0.2) WHERE source = 'session' AND name IN ('search_path', 'jit', 'lock_timeout')`,
        );
        return rows.map(({ name }) => name);
      }),
    );
    assert.deepEqual(lent.flat(), []);
    // The lookups of the events gateway, too.
    await plain.query('CREATE TABLE plain (a int)');
    const sent = performance.now();
    const event = await asked(`${headgate.gatewayUrl}/v1/events?name=plain`, {
      method: 'POST',
      body: '{"a":1}',
    });
    assert.equal(event.status, 200, event.text);
    assert(performance.now() - sent < 1_000);
  });

  test('a flood of forged requests costs the engine a bounded number of looks a second', async () => {
    const { headgate, port, plain } = await shared();
    await port.query(`CREATE SECRET flood WITH (backend = 'meta') AS 'k'`);
    await port.query(`CREATE TABLE flooded (data JSONB) ${checkedBy('flood')}`);
    const looks = async () => {
      const { rows } = await plain.query<{ calls: string }>(
        `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_user_functions WHERE funcname LIKE '%\\_versions'`,
      );
      return Number(rows[0]?.calls ?? 0);
    };
    const before = await looks();
    const started = performance.now();
    const seconds = () => (performance.now() - started) / 1_000;
    let forged = 0;
    // Of a transaction each, so that something may have changed.
    const others = (async () => {
      while (seconds() < floodS) await plain.query('SELECT pg_current_xact_id()');
    })();
    const senders = Array.from({ length: 16 }, async () => {
      for (; seconds() < floodS; forged++)
        assert.equal((await headgate.post('postgres/public/flooded', '{}', { x: 'forged' })).status, 401);
    });
    await Promise.all([...senders, others]);
    const tookS = seconds();
    // PostgreSQL counts what a session has done a second later at most.
    await delay(1_100);
    const count = (await looks()) - before;
    assert(forged > 4 * count, `${forged} requests, ${count} looks`);
    assert(count > 0 && count < (tookS + 1) * 24, `${count} looks in ${tookS} s`);
  });
});
