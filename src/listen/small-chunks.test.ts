import assert from 'node:assert/strict';
import { test } from '../../test/support/both-paths.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { deferred } from '../kit/promises.ts';

const path = '/webhook/dev/public/t';
const ones = (n: number) => Array.from({ length: n }, () => 'x');
const bounds = { bodyBytesMax: 1_000_000, limits: { bodyPiecesMax: 100, bodyPieceBytes: 64, lingerMs: 200 } };

test('a body in too many small chunks is refused, and earlier requests and other connections are served', async (t) => {
  const server = await startListener(bounds);
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  // As many as may be; more where they are larger; and a body with a length behind both.
  const large = Array.from({ length: 300 }, () => 'y'.repeat(100));
  for (const good of [chunked(path, ones(100)), chunked(path, large), post(path, 'z'.repeat(500_000))]) {
    client.send(good);
    assert.equal((await client.answer())?.status, 200);
  }
  assert.deepEqual(
    server.bodies.map(({ length }) => length),
    [100, 30_000, 500_000],
  );
  client.send(chunked(path, ones(60_000)) + post(path, '{}'));
  const refused = await client.answer();
  assert.equal(refused?.status, 400);
  assert.match(refused.body, /"error":"the body comes in too many small chunks"/);
  await client.closed;
  assert.equal(client.unread, '');
  for (const size of [1, 100]) {
    const next = await RawClient.connect(server.port);
    next.send(post(path, '1') + chunked(path, ones(size)));
    assert.equal((await next.answer())?.status, 200);
    assert.equal((await next.answer())?.status, 200);
    next.destroy();
  }
  assert.equal(server.bodies.length, 7);
});

test('a chunked request refused before its body is not read chunk by chunk', async (t) => {
  const server = await startListener(bounds);
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(chunked('/webhook/dev/public/none', ones(60_000)));
  assert.equal((await client.answer())?.status, 404);
  await client.closed;
  assert.equal(client.unread, '');
});

const offer = 'GET /none HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n';

test('after a refused chunked request the bytes behind it are not read, and other connections are served', async (t) => {
  for (const following of [post(path, 'a body'), offer, offer + post(path, 'a body')]) {
    const server = await startListener({ ...bounds, limits: { ...bounds.limits, lingerMs: 60_000 } });
    t.after(() => server.close());
    const client = await RawClient.connect(server.port);
    client.send(chunked(path, ones(110)) + following);
    assert.equal((await client.answer())?.status, 400);
    // The refused connection still lingers.
    const other = await RawClient.connect(server.port);
    other.send(chunked(path, ['all', ' of it']));
    assert.equal((await other.answer())?.status, 200);
    assert.deepEqual(server.bodies.map(String), ['all of it']);
    other.destroy();
    client.destroy();
  }
});

test('the bound on small chunks holds after a refused offer of another protocol on the connection', async (t) => {
  const server = await startListener(bounds);
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(chunked(path, ['1']) + offer);
  assert.equal((await client.answer())?.status, 200);
  assert.equal((await client.answer())?.status, 404);
  client.send(chunked(path, ones(300)));
  assert.equal((await client.answer())?.status, 400);
  await client.closed;
});

test('the end of a connection that offered another protocol does not change the chunk bound of others', async (t) => {
  const waits = deferred<void>();
  const server = await startListener({
    ...bounds,
    commit: (body) => {
      if (String(body) !== 'waits') return Promise.resolve({ kind: 'committed', rows: 1 });
      waits.resolve();
      return new Promise(() => {});
    },
  });
  t.after(() => server.close());
  const first = await RawClient.connect(server.port);
  first.send(chunked(path, ['waits']) + offer);
  await waits.promise;
  // It gets the parser that Node has taken from the first one.
  const second = await RawClient.connect(server.port);
  second.send(chunked(path, ['2']));
  assert.equal((await second.answer())?.status, 200);
  first.reset();
  while (server.listener.load.connections > 1) await new Promise(setImmediate);
  second.send(chunked(path, ones(300)));
  assert.equal((await second.answer())?.status, 400);
  await second.closed;
});
