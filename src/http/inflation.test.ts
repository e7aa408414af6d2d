import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import * as zlib from 'node:zlib';
import * as fc from 'fast-check';
import { onEnd } from '../../test/support/cleanup.ts';
import { temporaryFolder } from '../../test/support/headgate.ts';
import type { TestListener, TestListenerOptions } from '../../test/support/test-listener.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { requireTool } from '../../test/support/tools.ts';
import type { Outcome } from '../types/rows.ts';
import { deferred } from '../kit/promises.ts';

const bodyBytesMax = 1024 * 1024;
const mebibyte = 1024 * 1024;

async function listen(t: TestContext, options: TestListenerOptions = {}): Promise<TestListener> {
  const server = await startListener({ bodyBytesMax, ...options });
  onEnd(t, 'listener', () => server.close());
  return server;
}

async function send(server: TestListener, body: Buffer, encoding: string): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${server.port}/webhook/dev/public/t`, {
    method: 'POST',
    body,
    headers: { 'content-encoding': encoding },
  });
  const { code } = (await response.json()) as { code?: string };
  return code === undefined ? String(response.status) : `${response.status} ${code}`;
}

const codings: [name: string, pack: (body: Buffer) => Buffer][] = [
  ['gzip', (body) => zlib.gzipSync(body)],
  ['x-GZip', (body) => zlib.gzipSync(body)],
  ['deflate', (body) => zlib.deflateSync(body)],
  ['deflate', (body) => zlib.deflateSync(body, { level: 1, windowBits: 9 })],
  ['deflate', (body) => zlib.deflateRawSync(body)],
  ['deflate', (body) => zlib.deflateRawSync(body, { level: 0 })],
  ['br', (body) => zlib.brotliCompressSync(body, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } })],
  ['identity, gzip', (body) => zlib.gzipSync(body)],
  ['gzip, br', (body) => zlib.brotliCompressSync(zlib.gzipSync(body))],
  ['deflate,deflate', (body) => zlib.deflateRawSync(zlib.deflateSync(body))],
];
// Not compressible in one size, very much so in the other.
const noise = Buffer.from(Array.from({ length: bodyBytesMax }, (_, i) => (i * i * 7919) >> 5));

test('the listener decompresses every coding, up to the last byte of the body bound', async (t) => {
  const server = await listen(t);
  const bodies = [Buffer.from('{"a":1}'), noise.subarray(0, 60_000), noise.subarray(0, 300_000)];
  bodies.push(Buffer.alloc(bodyBytesMax, ' '), noise.subarray(0, bodyBytesMax - 5_000));
  for (const [name, pack] of codings) {
    for (const body of bodies) {
      // What is not compressed at all is a little more than it was.
      if (pack(body).length > bodyBytesMax) continue;
      assert.equal(await send(server, pack(body), name), '200', `${name} of ${body.length}`);
      assert.ok(server.bodies.at(-1)?.equals(body), `${name} of ${body.length}`);
    }
    assert.equal(await send(server, pack(Buffer.alloc(bodyBytesMax + 1)), name), '413 body_too_large', name);
  }
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('a gzip body sent by curl is decompressed', async (t) => {
  if (!requireTool(t, 'curl') || !requireTool(t, 'gzip')) return;
  const server = await listen(t);
  const file = join(await temporaryFolder(t), 'body.gz');
  const { stdout } = spawnSync('gzip', ['-9', '-c'], { input: noise.subarray(0, 500_000) });
  writeFileSync(file, Buffer.concat([stdout, spawnSync('gzip', ['-c'], { input: 'and more' }).stdout]));
  const url = `http://127.0.0.1:${server.port}/webhook/dev/public/t`;
  for (const more of [[], ['-H', 'Transfer-Encoding: chunked']]) {
    const args = [
      '-sS',
      '-m',
      '20',
      '-H',
      'Content-Encoding: gzip',
      ...more,
      '--data-binary',
      `@${file}`,
      url,
    ];
    // The server is in this process: it must be able to answer meanwhile.
    const { execFile } = await import('node:child_process');
    const answer = deferred<string>();
    execFile('curl', args, (error, out) => (error === null ? answer.resolve(out) : answer.reject(error)));
    assert.equal(await answer.promise, '{"rows":1}');
    assert.equal(server.bodies.at(-1)?.length, 500_008);
    assert.equal(server.bodies.at(-1)?.subarray(500_000).toString(), 'and more');
  }
});

test('a compressed body that is truncated, has trailing data or is malformed is refused', async (t) => {
  const server = await listen(t);
  const body = Buffer.from(JSON.stringify({ text: 'abc'.repeat(20) }));
  const large = noise.subarray(0, 400_000);
  for (const [name, pack] of codings) {
    const packed = pack(body);
    for (let cut = 0; cut < packed.length; cut += 3) {
      const answer = await send(server, packed.subarray(0, cut), name);
      assert.equal(answer, '400 malformed_encoding', `${name} cut at ${cut}`);
    }
    const packedLarge = pack(large);
    for (const bad of [packedLarge.subarray(0, -1), packedLarge.subarray(0, packedLarge.length >> 1)])
      assert.equal(await send(server, bad, name), '400 malformed_encoding', name);
    for (const behind of [
      Buffer.from('x'),
      Buffer.from([0]),
      Buffer.alloc(1_000),
      Buffer.from([0x1f, 0x8b]),
    ]) {
      for (const good of [packed, packedLarge])
        assert.equal(await send(server, Buffer.concat([good, behind]), name), '400 malformed_encoding', name);
    }
  }
  assert.equal(server.bodies.length, 0);
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('a gzip body with flipped bits is refused or gives the original body', async (t) => {
  const server = await listen(t);
  const body = Buffer.from(JSON.stringify({ text: 'The quick brown fox', n: [1, 2, 3] }));
  const packed = zlib.gzipSync(body);
  await fc.assert(
    fc.asyncProperty(fc.nat(packed.length - 1), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
      const bad = Buffer.from(packed);
      bad[at] = (bad[at] ?? 0) ^ bits;
      // Time, level and system stand in the header, and mean nothing for what is in it.
      const answer = await send(server, bad, 'gzip');
      if (answer === '200') assert.deepEqual(server.bodies.at(-1), body);
      else assert.equal(answer, '400 malformed_encoding');
    }),
    { numRuns: 300 },
  );
});

test('decompression bombs are refused at the size bound', async (t) => {
  const server = await listen(t, { bodyBytesMax: 12 * mebibyte });
  const zeros = Buffer.alloc(64 * mebibyte);
  // 10 GiB in 160 members, and a little that becomes a little that becomes much.
  const member = zlib.gzipSync(zeros, { level: 9 });
  const members = Buffer.concat(Array.from({ length: 160 }, () => member));
  const twice = zlib.gzipSync(members, { level: 9 });
  const quality = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } };
  const brotli = zlib.brotliCompressSync(zeros, quality);
  assert.ok(members.length < 12 * mebibyte && twice.length < 200_000 && brotli.length < 1_000);
  const before = process.memoryUsage().rss;
  const answers = await Promise.all([
    send(server, members, 'gzip'),
    send(server, twice, 'gzip, gzip'),
    send(server, twice, 'gzip'),
    ...Array.from({ length: 20 }, () => send(server, brotli, 'br')),
  ]);
  assert.deepEqual(new Set(answers.toSpliced(2, 1)), new Set(['413 body_too_large']));
  // One coding named, two applied: what comes out is a gzip, and no JSON; that is for decode to say.
  assert.equal(answers[2], '200');
  assert.ok(process.memoryUsage().rss - before < 200 * mebibyte);
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('compressed bodies are inflated in turn, and requests beyond the waiting bound get 503 overloaded', async (t) => {
  const server = await listen(t, { limits: { inflationsMax: 1, inflationsWaitingMax: 2 } });
  const packed = zlib.gzipSync(Buffer.alloc(bodyBytesMax));
  const answers = await Promise.all(Array.from({ length: 40 }, () => send(server, packed, 'gzip')));
  assert.deepEqual(new Set(answers), new Set(['200', '503 overloaded']));
  assert.equal(await send(server, packed, 'gzip'), '200');
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('decompressed bytes count as bytes in flight', async (t) => {
  const gate = deferred<Outcome>();
  const reached = deferred<number>();
  const server: TestListener = await listen(t, {
    limits: { bodiesInFlightBytesMax: mebibyte, requestCostBytes: 0 },
    commit: () => {
      reached.resolve(server.listener.load.bytesInFlight);
      return gate.promise;
    },
  });
  const packed = zlib.gzipSync(Buffer.alloc(700_000));
  const first = send(server, packed, 'gzip');
  assert.equal(await reached.promise, 700_000 + packed.length);
  assert.equal(await send(server, packed, 'gzip'), '503 overloaded');
  assert.equal(await send(server, zlib.gzipSync(Buffer.alloc(500_000)), 'gzip'), '503 overloaded');
  gate.resolve({ kind: 'committed', rows: 1 });
  assert.equal(await first, '200');
  assert.equal(server.listener.load.bytesInFlight, 0);
});

test('a compressed request answered before its inflation releases its bytes in flight', async (t) => {
  const early = deferred<void>();
  const server = await listen(t, { early: early.promise, limits: { inflationsMax: 0 } });
  const answer = send(server, zlib.gzipSync(Buffer.alloc(bodyBytesMax)), 'gzip');
  while (server.listener.load.bytesInFlight < 1_000) await new Promise(setImmediate);
  early.resolve();
  assert.equal(await answer, '503 deadline');
  assert.equal(server.listener.load.bytesInFlight, 0);
});
