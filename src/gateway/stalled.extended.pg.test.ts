/** Clients that read nothing, and clients that leave: what they held becomes available to others. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway } from '../../test/support/gateway.ts';
import type { TestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { until } from '../../test/support/until.ts';
import { limits } from '../config/limits.ts';

const megabytes = (n: number) => `SELECT repeat('x', 1000000) AS x FROM generate_series(1, ${n})`;
const portOf = (gateway: TestGateway) => Number(new URL(gateway.url).port);

/** A client that reads nothing of the answer to its first request, of which the first bytes have come. */
async function stalled(t: TestContext, gateway: TestGateway, requests: string): Promise<Socket> {
  const socket = connect({ port: portOf(gateway), host: '127.0.0.1' });
  socket.on('error', () => {});
  onEnd(t, 'stalled client', () => void socket.destroy());
  socket.write(requests);
  await once(socket, 'readable');
  return socket;
}

const large = (n: number) => post('/v1/sql', megabytes(n));

/** The sessions of a gateway, which has answered one statement, and the timers of this process. */
async function watched(t: TestContext) {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database, { hosts: ['h'] });
  const client = await database.connect();
  const sessions = async () => {
    const { rows } = await client.query<{ state: string; query: string }>(
      `select state, query from pg_stat_activity where datname = current_database() and application_name = 'headgate gateway'`,
    );
    return rows;
  };
  const timers = () => process.getActiveResourcesInfo().filter((it) => it === 'Timeout').length;
  assert.deepEqual(await gateway.rows('SELECT 1 AS n'), [{ n: 1 }]);
  const { door } = gateway;
  await until(() => door.load.connections === 0);
  const before = timers();
  /** Resolves once nothing of a request is left but idle sessions, each of which has a timer. */
  const isOver = async (idleMax: number) => {
    await until(() => door.load.connections === 0 && door.load.requests === 0);
    // The text of a statement is held until the engine has said how it ended.
    await until(() => door.load.bytesInFlight === 0);
    await until(async () => (await sessions()).every(({ state }) => state === 'idle'));
    const idle = (await sessions()).length;
    assert(idle <= idleMax, `${idle} sessions`);
    // Those of a reader would run for longer than this waits.
    await until(() => timers() <= before + idle - 1, 20_000);
    assert.deepEqual(
      gateway.spy.seen.filter(({ kind }) => kind === 'request.failed'),
      [],
    );
  };
  return { gateway, client, sessions, isOver };
}

test('two stalled readers of SQL results do not keep others from results of some megabytes', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), { hosts: ['h'] });
  await stalled(t, gateway, large(60));
  await stalled(t, gateway, large(30));
  const honest = async (): Promise<number> => {
    for (;;) {
      const { status, text, headers, json } = await gateway.sql(megabytes(3));
      if (status === 200) return (json.rows as unknown[]).length;
      // For a moment, and said so.
      assert.equal(status, 503, text.slice(0, 200));
      await delay(Number(headers.get('retry-after')) * 100);
    }
  };
  const rows = await Promise.all(Array.from({ length: 30 }, honest));
  assert.deepEqual(new Set(rows), new Set([3]));
  // One that is far larger than others has to wait until they are gone.
  const third = await gateway.sql(megabytes(60));
  assert.deepEqual([third.status, third.json.code], [503, 'results_full']);
  assert(third.headers.has('retry-after'));
});

test('a stalled reader of a SQL result is disconnected, and its result memory is free again', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), {
    hosts: ['h'],
    // The honest reader shares a process with the gateway, and pauses where others take the processors.
    limits: { ...limits, gatewayReadPauseMs: 2_000 },
  });
  const sockets = [await stalled(t, gateway, large(60)), await stalled(t, gateway, large(30))];
  const startedMs = performance.now();
  for (;;) {
    const { status, json } = await gateway.sql(megabytes(60));
    if (status === 200) break;
    assert.deepEqual([status, json.code], [503, 'results_full']);
    assert(performance.now() - startedMs < 20_000, 'they were not cut off');
  }
  for (const socket of sockets) {
    let bytes = 0;
    socket.on('data', (piece: Buffer) => (bytes += piece.length));
    await once(socket, 'close');
    assert(bytes < 30_000_000, `${bytes} bytes of its result came`);
  }
});

test('a client that resets its connection within a streamed SQL answer leaves its session and its memory to others', async (t) => {
  const { gateway, sessions, isOver } = await watched(t);
  const isAsleep = async () =>
    (await sessions()).some(({ state, query }) => state === 'active' && query === 'SELECT pg_sleep(20)');
  // The answer stands still; it is being read; another one waits behind it, and a third statement is running.
  const behind = large(3) + post('/v1/sql', 'SELECT pg_sleep(20)');
  for (const [requests, bytesRead] of [
    ['', 0],
    ['', 8_000_000],
    [behind, 0],
  ] as const) {
    // The largest result there is: if the one before were still held, even in part, there would be no room.
    const socket = await stalled(t, gateway, large(60) + requests);
    let bytes = 0;
    if (bytesRead > 0) socket.on('data', (piece: Buffer) => (bytes += piece.length));
    await until(() => bytes >= bytesRead);
    if (requests !== '') await until(isAsleep);
    assert.equal(gateway.door.load.requests, requests === '' ? 1 : 3);
    socket.resetAndDestroy();
    // The session of a statement that was cancelled is not lent again.
    await isOver(2);
    assert.deepEqual(await gateway.rows('SELECT 1 AS n'), [{ n: 1 }]);
  }
  const { status, json } = await gateway.sql(megabytes(60));
  assert.deepEqual([status, (json.rows as unknown[]).length], [200, 60]);
});

test('a client that resets its connection within a stream of rows leaves its session and the table to others', async (t) => {
  const { gateway, client, isOver } = await watched(t);
  await client.query(
    `CREATE TABLE followed AS SELECT n, repeat('x', 10000) AS x FROM generate_series(1, 3000) AS n`,
  );
  const follow = 'GET /v1/events?name=followed&after=0 HTTP/1.1\r\nHost: h\r\n\r\n';
  for (const bytesRead of [0, 5_000_000]) {
    const socket = await stalled(t, gateway, follow);
    let bytes = 0;
    if (bytesRead > 0) socket.on('data', (piece: Buffer) => (bytes += piece.length));
    await until(() => bytes >= bytesRead);
    assert.equal(gateway.door.load.requests, 1);
    socket.resetAndDestroy();
    // One of SQL; of the stream one that follows, and one that catches up.
    await isOver(3);
  }
  await client.query(`SET lock_timeout = '1s'; DROP TABLE followed`);
});

test('event uploads that break off during the table lookup release their room, and other uploads get no 503', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query(
    'CREATE TABLE t (n int); CREATE TABLE other (n int); CREATE VIEW slow AS SELECT n FROM other',
  );
  const gateway = await openTestGateway(t, database, { hosts: ['h'] });
  assert.equal((await gateway.events('name=t', '{"n":1}')).status, 200);
  // Whether a view takes rows is asked behind the lock, and with the question wait all who send to it.
  await client.query('BEGIN; LOCK TABLE slow IN ACCESS EXCLUSIVE MODE');
  const answered = gateway.spy.seen.length;
  const broken = await Promise.all(Array.from({ length: 160 }, () => RawClient.connect(portOf(gateway))));
  for (const sender of broken) {
    sender.send('POST /v1/events?name=slow HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n{"n":');
  }
  while (gateway.door.load.requests < broken.length) await new Promise(setImmediate);
  for (const sender of broken) sender.reset();
  await Promise.all(broken.map(({ closed }) => closed));
  const events = await Promise.all(
    Array.from({ length: 20 }, (_, n) => gateway.events('name=t', `{"n":${n}}`)),
  );
  assert.deepEqual(new Set(events.map(({ status }) => status)), new Set([200]));
  const behind = gateway.events('name=slow', '{"n":1}');
  await client.query('ROLLBACK');
  // It has waited behind all of them, which go on before it.
  assert.equal((await behind).status, 200);
  const later = await Promise.all(
    Array.from({ length: 20 }, (_, n) => gateway.events('name=t', `{"n":${n}}`)),
  );
  assert.deepEqual(new Set(later.map(({ status }) => status)), new Set([200]));
  const refused = gateway.spy.seen
    .slice(answered)
    .filter((it) => it.kind === 'gateway.answered' && it.status === 503);
  assert.deepEqual(refused, []);
});

test('a gateway client that disconnects at any time releases its memory', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query(
    'CREATE TABLE t (n text); CREATE TABLE other (n text); CREATE VIEW slow AS SELECT n FROM other',
  );
  const gateway = await openTestGateway(t, database, { hosts: ['h'] });
  const { door } = gateway;
  assert.equal((await gateway.events('name=t', '{"n":"x"}')).status, 200);
  await client.query('BEGIN; LOCK TABLE slow IN ACCESS EXCLUSIVE MODE');
  const body = `{"n":"${'x'.repeat(1_000)}"}`;
  const [slow, fast] = [post('/v1/events?name=slow', body), post('/v1/events?name=t', body)];
  // All of it has come while the table is looked for, or a part; it is being read, as a whole or as it comes.
  const large = `POST /v1/events?name=t HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n${body}`;
  const sql = post('/v1/sql', 'SELECT 1').slice(0, -1);
  const requests = [slow, slow.slice(0, -500), fast.slice(0, -500), large, sql];
  const before = door.load.connections;
  const senders = await Promise.all(requests.map(() => RawClient.connect(portOf(gateway))));
  for (const [i, sender] of senders.entries()) sender.send(requests[i] ?? '');
  const read = fast.slice(fast.indexOf('{'), -500).length + body.length + 'SELECT '.length;
  while (door.load.requests < requests.length || door.load.bytesInFlight < read)
    await new Promise(setImmediate);
  assert.equal(door.load.bytesInFlight, read);
  const answered = gateway.spy.seen.length;
  for (const sender of senders) sender.reset();
  await Promise.all(senders.map(({ closed }) => closed));
  while (door.load.connections > before) await new Promise(setImmediate);
  await client.query('ROLLBACK');
  const codes = () =>
    gateway.spy.seen
      .slice(answered)
      .flatMap((it) => (it.kind === 'gateway.answered' && it.route !== 'other' ? [it.code] : []));
  while (codes().length < requests.length) await new Promise(setImmediate);
  assert.deepEqual(codes(), Array<string>(requests.length).fill('request_aborted'));
  assert.equal(door.load.bytesInFlight, 0);
  while (door.load.requests > 0) await new Promise(setImmediate);
  assert.equal((await client.query('SELECT FROM t')).rowCount, 1);
  assert.equal((await client.query('SELECT FROM other')).rowCount, 0);
});

test('a request pipelined behind a stream is not executed', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE watched (n int); CREATE TABLE done (n int)');
  const port = portOf(gateway);
  const insert = 'INSERT INTO done VALUES (1)';
  const head = `HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`;
  const sql = `POST /v1/sql ${head}Content-Length: ${insert.length}\r\n\r\n${insert}`;
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  client.send(`${sql}GET /v1/events?name=watched ${head}\r\n${sql}`);
  assert.equal((await client.answer())?.status, 200);
  await until(() => client.unread.includes('id: '));
  assert.match(client.unread, /^HTTP\/1\.1 200 .*^Connection: close\r\n/ims);
  await gateway.rows('INSERT INTO watched VALUES (42)');
  await until(() => client.unread.includes('{"n":42}'));
  assert.deepEqual(await gateway.rows('SELECT count(*)::int AS n FROM done'), [{ n: 1 }]);
});
