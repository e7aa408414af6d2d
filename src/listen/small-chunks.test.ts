import assert from 'node:assert/strict';
import { test } from '../../test/support/both-paths.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';

const path = '/webhook/dev/public/t';
const ones = (n: number) => Array.from({ length: n }, () => 'x');
const bounds = { bodyBytesMax: 1_000_000, limits: { bodyPiecesMax: 100, bodyPieceBytes: 64, lingerMs: 200 } };

test('a body in too many small chunks is refused, whole ones before it are not, and the parser serves others again', async (t) => {
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

test('what is refused before its body is read does not have it read chunk by chunk either', async (t) => {
  const server = await startListener(bounds);
  t.after(() => server.close());
  const client = await RawClient.connect(server.port);
  client.send(chunked('/webhook/dev/public/none', ones(60_000)));
  assert.equal((await client.answer())?.status, 404);
  await client.closed;
  assert.equal(client.unread, '');
});
