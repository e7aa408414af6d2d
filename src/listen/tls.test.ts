/** What the listener promises for connections, over TLS: hostile.test.ts checks the same for requests. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { WebSocket } from 'ws';
import { test } from '../../test/support/both-paths.ts';
import { testTls } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import type { TestListener, TestListenerOptions } from '../../test/support/test-listener.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { run } from '../../test/support/run.ts';
import { testStreams } from '../../test/support/streams.ts';
import { requireTool } from '../../test/support/tools.ts';
import type { Outcome } from '../types/rows.ts';
import { deferred } from '../kit/promises.ts';

const path = '/webhook/dev/public/t';
const committed: Outcome = { kind: 'committed', rows: 1 };

async function listen(t: TestContext, options: TestListenerOptions = {}): Promise<TestListener | null> {
  if (requireTool(t, 'openssl') === null) return null;
  const tls = await testTls();
  if (tls === null) return null;
  onEnd(t, 'certificates', () => tls.close());
  const limits = { lingerMs: 200, drainMs: 2_000, ...options.limits };
  const server = await startListener({ ...options, limits, tls: tls.source });
  onEnd(t, 'listener', () => server.close());
  return server;
}

const open = (server: TestListener) => RawClient.connect(server.port, 'tls');

test('curl over TLS posts with Expect, in chunks and while offering h2, and reads a 413 while it sends the body', async (t) => {
  const server = await listen(t, { bodyBytesMax: 3_000_000 });
  if (server === null || requireTool(t, 'curl') === null) return;
  const curl = async (input: string, ...args: string[]) => {
    const url = `https://127.0.0.1:${server.port}${path}`;
    const all = [
      '-sSk',
      '-m',
      '10',
      '-w',
      ' %{http_code} %{http_version}',
      ...args,
      '--data-binary',
      '@-',
      url,
    ];
    return (await run('curl', all, { input })).stdout;
  };
  const body = 'y'.repeat(2_000_000);
  assert.equal(await curl(body), '{"rows":1} 200 1.1');
  assert.equal(server.bodies.at(-1)?.toString(), body);
  assert.equal(await curl('{}', '-H', 'Transfer-Encoding: chunked'), '{"rows":1} 200 1.1');
  assert.equal(await curl('{}', '--http2'), '{"rows":1} 200 1.1');
  assert.equal(await curl('{}', '--http1.0'), '{"rows":1} 200 1.1');
  // The answer gets to a sender that is still writing.
  assert.match(await curl('z'.repeat(8_000_000), '-H', 'Expect:'), /"code":"body_too_large"\} 413 1\.1$/);
});

test('a sender over TLS that half-closes after its request reads the answer', async (t) => {
  const gate = deferred<Outcome>();
  const server = await listen(t, { commit: () => gate.promise });
  if (server === null) return;
  const client = await open(server);
  client.socket.end(post(path, '{}'));
  await new Promise((resolve) => setImmediate(resolve));
  gate.resolve(committed);
  assert.equal((await client.answer())?.status, 200);
  await client.closed;
});

test('slow headers, slow bodies and silence over TLS get 408, and an unfinished handshake is closed unanswered', async (t) => {
  const server = await listen(t, { limits: { headersTimeoutMs: 100, requestTimeoutMs: 200 } });
  if (server === null) return;
  for (const bytes of ['', 'POST /web', post(path, '{}').slice(0, -1), chunked(path, ['{}']).slice(0, -3)]) {
    const client = await open(server);
    client.send(bytes);
    assert.equal((await client.answer())?.status, 408);
    await client.closed;
    client.destroy();
  }
  const silent = connect({ port: server.port, host: '127.0.0.1' });
  silent.on('error', () => undefined);
  silent.resume();
  await once(silent, 'close');
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});

test('a TLS connection reset at any byte leaves no bytes in flight', async (t) => {
  const server = await listen(t);
  if (server === null) return;
  const request = post(path, '{"a":1}', 'Expect: 100-continue\r\n');
  for (let cut = 0; cut < request.length; cut += 9) {
    const client = await open(server);
    client.send(request.slice(0, cut));
    await new Promise((resolve) => client.socket.write('', resolve));
    client.reset();
  }
  await server.close();
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
  assert.equal(server.bodies.length, 0);
});

test('WebSockets work over TLS', async (t) => {
  const server = await listen(t, { streams: testStreams() });
  if (server === null) return;
  const url = `wss://127.0.0.1:${server.port}/ingest/dev/public/t`;
  const socket = new WebSocket(url, { rejectUnauthorized: false });
  onEnd(t, 'socket', () => socket.terminate());
  const answers: string[] = [];
  const acked = new Promise<void>((resolve, reject) => {
    socket.on('message', (data) => {
      answers.push(String(data as Buffer));
      if (answers.length === 2) resolve();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('closed')));
  });
  await once(socket, 'open');
  socket.send(JSON.stringify({ type: 'init', timestamp: Date.now() }));
  for (const id of [1, 2])
    socket.send(JSON.stringify({ dml_batch_id: id, items: [{ op: 'insert', data: {} }] }));
  await acked;
  assert.deepEqual(answers, ['{"ack":1}', '{"ack":2}']);
});

test('a draining listener with TLS answers running requests, and ends idle connections and handshakes', async (t) => {
  const gate = deferred<Outcome>();
  const reached = deferred<void>();
  const server = await listen(t, {
    limits: { drainMs: 60_000 },
    commit: () => {
      reached.resolve();
      return gate.promise;
    },
  });
  if (server === null) return;
  const [idle, running] = [await open(server), await open(server)];
  const shaking = connect({ port: server.port, host: '127.0.0.1' });
  await once(shaking, 'connect');
  running.send(post(path, '{}'));
  await reached.promise;
  const closing = server.close();
  gate.resolve(committed);
  assert.match((await running.answer())?.head ?? '', /^HTTP\/1\.1 200 [\s\S]*Connection: close/);
  await Promise.all([idle.closed, running.closed, once(shaking, 'close')]);
  await closing;
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});

test('a client that speaks no TLS is disconnected from a TLS listener and costs others nothing', async (t) => {
  const server = await listen(t);
  if (server === null) return;
  const client = await open(server);
  for (const bytes of [post(path, '{}'), '\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00', 'x'.repeat(50)]) {
    const stranger = connect({ port: server.port, host: '127.0.0.1' });
    stranger.on('error', () => undefined);
    stranger.resume();
    stranger.end(bytes, 'latin1');
    await once(stranger, 'close');
  }
  client.send(post(path, '{}'));
  assert.equal((await client.answer())?.status, 200);
  client.destroy();
});
