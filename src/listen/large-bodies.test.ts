import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { test } from '../../test/support/both-paths.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';

const path = '/webhook/dev/public/t';

test('large bodies take turns, whole, chunked and compressed ones; each arrives as it was sent', async (t) => {
  const server = await startListener({ bodyBytesMax: 1_000_000, limits: { spacedBodyBytes: 10_000 } });
  t.after(() => server.close());
  const sent = Array.from({ length: 9 }, (_, i) =>
    String(i).repeat(i % 3 === 0 ? 9_999 : 10_000 + i * 10_000),
  );
  const answers = sent.map(async (body, i) => {
    const client = await RawClient.connect(server.port);
    const inflated = `POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n`;
    const packed = gzipSync(body);
    if (i % 3 === 0) client.send(post(path, body));
    if (i % 3 === 1) client.send(chunked(path, [body.slice(0, 5_000), body.slice(5_000)]));
    if (i % 3 === 2) client.send(Buffer.concat([Buffer.from(`${inflated}Content-Length: ${packed.length}\r\n\r\n`), packed]));
    const answer = await client.answer();
    client.destroy();
    return answer?.status;
  }); // prettier-ignore
  assert.deepEqual(await Promise.all(answers), sent.map(() => 200)); // prettier-ignore
  assert.deepEqual(server.bodies.map(String).toSorted(), sent.toSorted());
});
