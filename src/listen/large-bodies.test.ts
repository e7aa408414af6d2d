import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { deferred } from '../kit/promises.ts';
import { test } from '../../test/support/both-paths.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { until } from '../../test/support/until.ts';

const path = '/webhook/dev/public/t';

test('large bodies take turns and arrive unchanged, with a length, chunked or compressed', async (t) => {
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

test('the listener does not read ahead a body that is not consumed yet, so its sender waits', async (t) => {
  const mebibyte = 1024 * 1024;
  const read = deferred<void>();
  const server = await startListener({ bodyBytesMax: 64 * mebibyte, found: () => read.promise });
  t.after(() => server.close());
  const socket = connect(server.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write(`POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: ${64 * mebibyte}\r\n\r\n`);
  let taken = 0;
  // One behind the other: of several that are written together none is told of before all are.
  const send = (left: number): void => {
    if (left === 0) return;
    socket.write(Buffer.alloc(mebibyte / 16, ' '), () => {
      taken += 1;
      send(left - 1);
    });
  };
  send(1_024);
  let [before, looks] = [-1, 0];
  // What the kernel holds for both sides is taken at once; then nothing more is, for as long as it is looked at.
  await until(() => {
    looks = taken === before && taken > 0 ? looks + 1 : 0;
    before = taken;
    return looks > 100;
  });
  assert.ok(taken < 512, `${taken / 16} of 64 MiB were taken`);
  read.resolve();
  const [answer] = (await once(socket, 'data')) as [Buffer];
  assert.match(String(answer), /^HTTP\/1\.1 200 /);
});
