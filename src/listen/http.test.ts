import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test, type TestContext } from '../../test/support/both-paths.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import type { TestListener, TestListenerOptions } from '../../test/support/test-listener.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { requireTool } from '../../test/support/tools.ts';
import type { Outcome } from '../types/rows.ts';
import { deferred } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { RefusalCode } from '../errors/refusals.ts';

const path = '/webhook/dev/public/t';
const committed: Outcome = { kind: 'committed', rows: 1 };

async function listen(t: TestContext, options: TestListenerOptions = {}): Promise<TestListener> {
  const server = await startListener({
    ...options,
    limits: { lingerMs: 200, drainMs: 2_000, ...options.limits },
  });
  t.after(() => server.close());
  return server;
}

const answered = (code: RefusalCode | 'committed') => (observation: { kind: string; code?: string }) =>
  observation.kind === 'request.answered' && observation.code === code;

test('a webhook sent by fetch is stored and answered, and its connection is kept', async (t) => {
  const server = await listen(t);
  for (const body of ['{"a":1}', '{"a":"é😀"}', 'x'.repeat(1024)]) {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { method: 'POST', body });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), 'application/json');
    assert.deepEqual(await response.json(), { rows: 1 });
    assert.equal(server.bodies.at(-1)?.toString(), body);
  }
  const [first] = server.observations;
  assert.deepEqual(
    { ...first, seconds: 0, arrivedAtMs: 0 },
    {
      kind: 'request.answered',
      arrivedAtMs: 0,
      table: { database: 'dev', schema: 'public', table: 't' },
      status: 200,
      code: 'committed',
      rows: 1,
      remoteAddress: '127.0.0.1',
      bytes: 7,
      seconds: 0,
    },
  );
});

test('curl posts webhooks with Expect: 100-continue and in chunks, and reads a 413 before it sends the body', async (t) => {
  if (requireTool(t, 'curl') === null) return;
  const server = await listen(t, { bodyBytesMax: 3_000_000 });
  const url = `http://127.0.0.1:${server.port}`;
  const curl = async (...args: string[]) =>
    (await promisify(execFile)('curl', ['-sS', '-m', '5', ...args])).stdout;
  const body = 'y'.repeat(2_000_000);
  const child = promisify(execFile)('curl', ['-sS', '-m', '5', '--data-binary', '@-', url + path]);
  child.child.stdin?.end(body);
  assert.equal((await child).stdout, '{"rows":1}');
  assert.equal(server.bodies.at(-1)?.toString(), body);
  assert.equal(await curl('-H', 'Transfer-Encoding: chunked', '-d', '{}', url + path), '{"rows":1}');
  assert.equal(await curl('--http2', '-d', '{}', url + path), '{"rows":1}');
  const refused = promisify(execFile)('curl', [
    '-sS',
    '-m',
    '5',
    '-H',
    'Expect:',
    '-w',
    '%{http_code}',
    '--data-binary',
    '@-',
    url + path,
  ]);
  refused.child.stdin?.on('error', () => undefined);
  refused.child.stdin?.end('z'.repeat(8_000_000));
  assert.match((await refused).stdout, /"code":"body_too_large"\}413$/);
});

test('the listener keeps pipelined bodies apart for any chunks', async (t) => {
  const server = await listen(t, { bodyBytesMax: 1_000_000 });
  const clients = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect(server.port)));
  const bodies = clients.map((_, i) => String.fromCharCode(65 + i).repeat(1 + i * 9_000));
  clients.forEach((client, i) => client.send(post(path, bodies[i] ?? '') + chunked(path, [bodies[i] ?? ''])));
  for (const client of clients) {
    assert.equal((await client.answer())?.status, 200);
    assert.equal((await client.answer())?.status, 200);
    client.destroy();
  }
  assert.deepEqual(server.bodies.map(String).toSorted(), [...bodies, ...bodies].toSorted());
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('the listener does not overwrite a retained body with later ones', async (t) => {
  const server = await listen(t);
  const client = await RawClient.connect(server.port);
  const texts = Array.from({ length: 500 }, (_, i) => `{"n":${i}}`);
  for (const text of texts) {
    client.send(post(path, text));
    assert.equal((await client.answer())?.status, 200);
  }
  assert.deepEqual(server.bodies.map(String), texts);
  client.destroy();
});

test('the listener answers pipelined requests in order although their commits end in another order', async (t) => {
  const gates = ['0', '1', '2'].map(() => deferred<Outcome>());
  const server = await listen(t, {
    commit: (body) => (gates[Number(body.toString())] ?? deferred<Outcome>()).promise,
  });
  const client = await RawClient.connect(server.port);
  client.send(`${post(path, '0')}${post(path, '1')}${post(path, '2')}garbage\r\n\r\n`);
  gates[2]?.resolve({ kind: 'committed', rows: 3 });
  await server.observed((o) => o.kind === 'request.answered' && o.rows === 3);
  gates[1]?.resolve({ kind: 'committed', rows: 2 });
  gates[0]?.resolve(committed);
  const bodies = [];
  for (let i = 0; i < 4; i++) bodies.push((await client.answer())?.body.slice(0, 10));
  assert.deepEqual(bodies, ['{"rows":1}', '{"rows":2}', '{"rows":3}', '{"error":"']);
  await client.closed;
});

test('a webhook sender that half-closes after its request reads the answer', async (t) => {
  const gate = deferred<Outcome>();
  const server = await listen(t, { commit: () => gate.promise });
  const client = await RawClient.connect(server.port);
  client.socket.end(post(path, '{}'));
  await new Promise((resolve) => setImmediate(resolve));
  gate.resolve(committed);
  assert.equal((await client.answer())?.status, 200);
  await client.closed;
});

test('a webhook reset at any byte leaves no bytes in flight', async (t) => {
  const server = await listen(t);
  const requests = [post(path, '{"a":1}', 'Expect: 100-continue\r\n'), chunked(path, ['{"a"', ':1}'])];
  for (const request of requests) {
    for (let cut = 0; cut < request.length; cut += 3) {
      const client = await RawClient.connect(server.port);
      client.send(request.slice(0, cut));
      await new Promise((resolve) => client.socket.write('', resolve));
      if (cut % 2 === 0) client.reset();
      else {
        client.socket.end();
        // Half a request is answered, when its sender still listens; no request at all is not.
        const answer = await client.answer();
        const last = answer?.status === 100 ? await client.answer() : answer;
        assert.equal(last?.status, cut === 0 ? undefined : 400);
        await client.closed;
        client.destroy();
      }
    }
  }
  await server.close();
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
  assert.equal(server.bodies.length, 0);
});

test('a reset within a webhook body is noticed at once, and the body is not processed', async (t) => {
  const server = await listen(t);
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}', 'Expect: 100-continue\r\n').slice(0, -1));
  assert.equal((await client.answer())?.status, 100);
  assert.ok(server.listener.load.bytesInFlight >= limits.requestCostBytes);
  client.reset();
  await server.observed(answered('request_aborted'));
  assert.equal(server.listener.load.bytesInFlight, 0);
  assert.equal(server.bodies.length, 0);
});

test('a webhook sender that disconnects during the commit misses only the answer', async (t) => {
  const gate = deferred<Outcome>();
  const reached = deferred<void>();
  const server = await listen(t, {
    commit: () => {
      reached.resolve();
      return gate.promise;
    },
  });
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}'));
  await reached.promise;
  client.reset();
  assert.ok(server.listener.load.bytesInFlight > 0);
  gate.resolve(committed);
  await server.observed(answered('committed'));
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('the listener answers slow headers, slow bodies and silence with 408', async (t) => {
  const server = await listen(t, { limits: { headersTimeoutMs: 100, requestTimeoutMs: 200 } });
  for (const bytes of [
    '',
    'POST /web',
    post(path, '{}').slice(0, -1),
    chunked(path, ['{}']).slice(0, -3),
    post('/x', '{}').slice(0, -1),
  ]) {
    const client = await RawClient.connect(server.port);
    client.send(bytes);
    const answer = await client.answer();
    if (bytes.startsWith('POST /x')) assert.equal(answer?.status, 404);
    else
      assert.match(
        `${answer?.status} ${answer?.body}`,
        /^408 \{"error":"the request did not arrive in time","code":"request_timeout"\}/,
      );
    await client.closed;
    client.destroy();
  }
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('bodies beyond the bytes in flight are refused unread, and accepted again afterwards', async (t) => {
  const gate = deferred<Outcome>();
  const server = await listen(t, {
    bodyBytesMax: 100_000,
    limits: { bodiesInFlightBytesMax: 60_000, requestCostBytes: 1_000 },
    commit: () => gate.promise,
  });
  const [a, b, c] = await Promise.all([1, 2, 3].map(() => RawClient.connect(server.port)));
  assert.ok(a && b && c);
  a.send(post(path, 'x'.repeat(50_000)));
  // Announces much and sends nothing: takes nothing from others.
  b.send(`POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n`);
  while (server.listener.load.bytesInFlight < 52_000) await new Promise(setImmediate);
  c.send(`POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\n`);
  const refused = await c.answer();
  assert.equal(refused?.status, 503);
  assert.match(refused?.head ?? '', /^Retry-After: 1$/m);
  c.send('y'.repeat(10_000));
  c.send(chunked(path, ['z'.repeat(9_000)]).slice(0, -'0\r\n\r\n'.length));
  const grown = await c.answer();
  assert.match(grown?.body ?? '', /"code":"overloaded"/);
  await c.closed;
  gate.resolve(committed);
  assert.equal((await a.answer())?.status, 200);
  b.send('1');
  assert.equal((await b.answer())?.status, 200);
  assert.equal(server.listener.load.bytesInFlight, 0);
  for (const client of [a, b, c]) client.destroy();
});

test('the listener refuses a flood of requests in flight by their cost', async (t) => {
  const gate = deferred<Outcome>();
  const server = await listen(t, {
    limits: { bodiesInFlightBytesMax: 10_100, requestCostBytes: 1_000 },
    commit: () => gate.promise,
  });
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}').repeat(11));
  await server.observed(answered('overloaded'));
  gate.resolve(committed);
  const statuses = [];
  for (let i = 0; i < 11; i++) statuses.push((await client.answer())?.status);
  assert.deepEqual(statuses, [...Array.from({ length: 10 }, () => 200), 503]);
  client.destroy();
});

test('a draining listener finishes running requests, answers new ones with 503 and closes idle connections', async (t) => {
  const gate = deferred<Outcome>();
  const reached = deferred<void>();
  const server = await listen(t, {
    commit: (body) => {
      if (body.toString() !== 'slow') return Promise.resolve(committed);
      reached.resolve();
      return gate.promise;
    },
  });
  const [idle, running, fresh] = await Promise.all([1, 2, 3].map(() => RawClient.connect(server.port)));
  assert.ok(idle && running && fresh);
  idle.send(post(path, '{}'));
  assert.equal((await idle.answer())?.status, 200);
  running.send(post(path, 'slow'));
  await reached.promise;
  server.listener.drain();
  await idle.closed;
  fresh.send(post(path, '{}'));
  assert.match((await fresh.answer())?.body ?? '', /"code":"draining"/);
  await fresh.closed;
  const closing = server.close();
  gate.resolve(committed);
  const answer = await running.answer();
  assert.equal(answer?.status, 200);
  assert.match(answer?.head ?? '', /^Connection: close$/m);
  await running.closed;
  for (const client of [idle, running, fresh]) client.destroy();
  await closing;
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});

test('a closing listener refuses new connections and serves requests on open ones before it ends them', async (t) => {
  const server = await listen(t, { limits: { drainIdleMs: 60_000 } });
  const [busy, pipelining, silent] = await Promise.all([1, 2, 3].map(() => RawClient.connect(server.port)));
  assert.ok(busy && pipelining && silent);
  for (const client of [busy, silent]) {
    client.send(post(path, '{}'));
    assert.equal((await client.answer())?.status, 200);
  }
  const closing = server.close();
  await RawClient.refused(server.port);
  busy.send(post(path, '{}'));
  const last = await busy.answer();
  assert.equal(last?.status, 200);
  assert.match(last?.head ?? '', /^Connection: close$/m);
  await busy.closed;
  pipelining.send(post(path, '{}').repeat(2));
  assert.equal((await pipelining.answer())?.status, 200);
  assert.equal((await pipelining.answer())?.status, 200);
  await pipelining.closed;
  // The last one goes by itself: nothing more is waited for.
  silent.destroy();
  await closing;
  assert.equal(server.listener.load.connections, 0);
  for (const client of [busy, pipelining]) client.destroy();
});

test('a closing listener closes idle connections', async (t) => {
  const server = await listen(t, { limits: { drainIdleMs: 50 } });
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}'));
  assert.equal((await client.answer())?.status, 200);
  await server.close();
  await client.closed;
  client.destroy();
});

test('a closing listener ends a request that never ends by itself, at the deadline', async (t) => {
  const server = await listen(t, { limits: { drainMs: 100 }, commit: () => deferred<Outcome>().promise });
  const client = await RawClient.connect(server.port);
  client.send(post(path, '{}'));
  while (server.bodies.length === 0) await new Promise(setImmediate);
  await server.close();
  await client.closed;
  assert.equal(server.listener.load.connections, 0);
  client.destroy();
});

test('an answer that is ready before its body is sent at once, and the rest of the body is not held', async (t) => {
  const late = deferred<void>();
  const server = await listen(t, { bodyBytesMax: 10_000, early: late.promise });
  const client = await RawClient.connect(server.port);
  client.send(`POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n${'x'.repeat(1000)}`);
  while (server.listener.load.bytesInFlight < limits.requestCostBytes + 1000) await new Promise(setImmediate);
  late.resolve();
  assert.match((await client.answer())?.body ?? '', /"code":"deadline"/);
  assert.equal(server.listener.load.bytesInFlight, 0);
  client.send('x'.repeat(2000));
  client.send(`GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`);
  assert.equal((await client.answer())?.status, 405);
  assert.equal(server.listener.load.bytesInFlight, 0);
  client.destroy();
});

test('the answers before a broken webhook body are still sent', async (t) => {
  const gate = deferred<Outcome>();
  const server = await listen(t, { commit: () => gate.promise });
  const client = await RawClient.connect(server.port);
  client.send(`${chunked(path, ['{}'])}${post('/x', '{}').slice(0, -1)}`);
  await server.observed(answered('not_found'));
  // The second request is given up, with its answer waiting behind the first.
  client.socket.end();
  await new Promise((resolve) => client.socket.once('finish', resolve));
  gate.resolve(committed);
  assert.equal((await client.answer())?.status, 200);
  assert.equal((await client.answer())?.status, 404);
  await client.closed;
});

test('an internal error gets 500 with a request id that is in the log, and no details', async (t) => {
  const server = await listen(t);
  const response = await fetch(`http://127.0.0.1:${server.port}/webhook/dev/public/broken`, {
    method: 'POST',
    body: '{}',
  });
  const body = (await response.json()) as { request_id: string };
  const said = await server.observed((o) => o.kind === 'request.failed');
  assert.ok(said.kind === 'request.failed' && said.error instanceof TypeError);
  assert.deepEqual(body, { error: 'internal error', code: 'internal', request_id: said.requestId });
});

test('opening the listener on a port in use fails', async (t) => {
  const server = await listen(t);
  const { openListener } = await import('./http.ts');
  await assert.rejects(
    openListener({
      host: '127.0.0.1',
      port: server.port,
      bodyBytesMax: 1,
      now: Date.now,
      observe: () => undefined,
      ingest: { submit: () => Promise.resolve(committed) },
    }),
    { code: 'EADDRINUSE' },
  );
});
