/** Which requests stay on the fast path, and which leave it, when, and with which bytes. src/listen tests that both paths serve alike. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { FastBench, ok, path } from '../../test/support/fast-bench.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';

suite('a connection of the fast path', () => {
  test('a fast-path connection stays on the fast path while its requests are plain, however they are split', async (t) => {
    const bench = await FastBench.open(t, { fastHoldMs: 60_000 });
    const client = await RawClient.connect(bench.port);
    const first = post(path, '{"n":1}');
    const pieces = [
      first.slice(0, 20),
      first.slice(20, -3),
      first.slice(-3) + post(path, '2').repeat(2).slice(0, -1),
      '2',
    ];
    for (const [i, piece] of pieces.entries()) {
      client.send(piece);
      await bench.until(() => bench.all.heldBytes > 0 || bench.begun.length > i - 1);
    } // prettier-ignore
    await bench.until(() => bench.begun.length === 3);
    assert.deepEqual(
      bench.begun.map(({ body }) => body),
      ['{"n":1}', '2', '2'],
    );
    assert.deepEqual([bench.all.heldBytes, bench.handed], [0, []]);
    client.destroy();
  });

  test('a fast-path connection answers in the order of its requests, one write each', async (t) => {
    const bench = await FastBench.open(t);
    const client = await RawClient.connect(bench.port);
    client.send(
      post(path, '1') + post(path, '2') + post(path, '3', 'Connection: close\r\n') + post(path, '4'),
    );
    await bench.until(() => bench.begun.length === 3);
    let written = 0;
    for (const { answer } of bench.begun) answer.once('finish', () => (written += 1));
    for (const i of [2, 1]) bench.begun[i]?.answer.send({ ...ok, body: String(i) }, i === 2, 0);
    assert.equal(written, 0);
    bench.begun[0]?.answer.send({ ...ok, body: Buffer.from('0') }, false, 0);
    assert.equal(written, 3);
    const answers = [await client.answer(), await client.answer(), await client.answer()];
    assert.deepEqual(answers.map((it) => it?.body), ['0', '1', '2']); // prettier-ignore
    const last = 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n';
    assert.equal(answers[0]?.head, `${last}Connection: keep-alive\r\nKeep-Alive: timeout=75`);
    assert.equal(answers[2]?.head, `${last}Connection: close`);
    await client.closed;
    assert.equal(bench.begun.length, 3);
  });

  test('a fast-path connection leaves it with the first other request, after the answers owed', async (t) => {
    const bench = await FastBench.open(t);
    const client = await RawClient.connect(bench.port);
    const other = chunked(path, ['{}']);
    client.send(post(path, '1') + other + post(path, '2'));
    await bench.until(() => bench.begun.length === 1);
    client.send('x');
    client.socket.end();
    assert.deepEqual(bench.handed, []);
    bench.begun[0]?.answer.send(ok, false, 0);
    await bench.until(() => bench.handed[0]?.endsWith('<end>') === true);
    assert.deepEqual(bench.handed, [`${other}${post(path, '2')}x<end>`]);
    assert.equal((await client.answer())?.status, 200);
    assert.equal(bench.begun.length, 1);
    client.destroy();
  });

  test('a fast-path connection leaves it for a slow or fragmented request, or too many incomplete ones, without loss', async (t) => {
    const half = post(path, 'x'.repeat(1_000)).slice(0, -10);
    for (const [own, pieces] of [
      [{ fastHoldMs: 5 }, [half]],
      [{ fastHoldMs: 60_000, fastPiecesMax: 3 }, [half, 'x', 'x', 'x']],
      [{ fastHoldMs: 60_000, fastHeldBytesMax: 500 }, [half]],
      [{ fastHoldMs: 60_000 }, [half.replace('1000', '70000')]],
    ] as const) {
      const bench = await FastBench.open(t, own);
      const client = await RawClient.connect(bench.port);
      for (const [i, piece] of pieces.entries()) {
        client.send(piece);
        if (i < pieces.length - 1)
          while (bench.all.heldBytes < half.length + i) await new Promise(setImmediate);
      }
      await bench.until(() => bench.handed[0] === pieces.join(''));
      assert.equal(bench.all.heldBytes, 0);
      client.destroy();
    }
  });

  test('a fast-path connection leaves it when its client closes within a request, and closes when no answer is owed', async (t) => {
    const bench = await FastBench.open(t, { fastHoldMs: 60_000 });
    const [early, late] = [await RawClient.connect(bench.port), await RawClient.connect(bench.port)];
    early.socket.end('POST /webhook/dev');
    await bench.until(() => bench.handed[0]?.endsWith('<end>') === true);
    assert.deepEqual(bench.handed, ['POST /webhook/dev<end>']);
    late.socket.end(post(path, '1'));
    await bench.until(() => bench.begun.length === 1);
    bench.begun[0]?.answer.send(ok, false, 0);
    assert.equal((await late.answer())?.status, 200);
    await late.closed;
    early.destroy();
  });

  test('a fast-path connection is closed when idle, before its first request or after its last', async (t) => {
    const bench = await FastBench.open(t, { headersTimeoutMs: 20, keepAliveTimeoutMs: 20 });
    const [silent, idle] = [await RawClient.connect(bench.port), await RawClient.connect(bench.port)];
    idle.send(post(path, '1'));
    await bench.until(() => bench.begun.length === 1);
    await silent.closed;
    bench.begun[0]?.answer.send(ok, false, 0);
    assert.equal((await idle.answer())?.status, 200);
    await idle.closed;
    assert.deepEqual([bench.expired, bench.handed], [1, []]);
  });
});
