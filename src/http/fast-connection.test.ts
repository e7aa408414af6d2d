/** Which requests stay on the fast path, and which leave it, when, and with which bytes. src/listen tests that both paths serve alike. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { FastBench, ok, path } from '../../test/support/fast-bench.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { until } from '../../test/support/until.ts';
import { readEach } from './sockets.ts';

suite('a connection of the fast path answers plain requests and leaves for others', () => {
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

  test('a connection leaves the fast path at its first other request, after the answers owed', async (t) => {
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

  test('a connection leaves the fast path for a slow or fragmented request, or too many incomplete ones, without loss', async (t) => {
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

  test('a connection leaves the fast path if its client closes within a request, and closes if no answer is owed', async (t) => {
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

/** Both ends of a connection; the sender's is a half that can be ended by itself. */
interface Ends {
  readonly sender: Socket;
  readonly socket: Socket;
}

type Connect = (t: TestContext) => Promise<Ends>;

async function overTcp(t: TestContext): Promise<Ends> {
  const { server, port } = await listen(t, createServer({ allowHalfOpen: true }));
  const accepted = once(server, 'connection');
  return ends(t, connect({ port, host: '127.0.0.1', allowHalfOpen: true }), accepted);
}

/** With a key that both know, which takes no certificate. */
async function overTls(t: TestContext): Promise<Ends> {
  const psk = randomBytes(32);
  const ciphers = 'PSK';
  const made = createTlsServer({ ciphers, pskCallback: () => psk, allowHalfOpen: true });
  const { server, port } = await listen(t, made);
  const accepted = once(server, 'secureConnection');
  const options = {
    ciphers,
    pskCallback: () => ({ psk, identity: 'test' }),
    checkServerIdentity: () => undefined,
  };
  return ends(t, connectTls({ port, host: '127.0.0.1', ...options }), accepted);
}

async function listen(t: TestContext, server: Server): Promise<{ server: Server; port: number }> {
  onEnd(t, 'server', () => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

async function ends(t: TestContext, sender: Socket, accepted: Promise<unknown[]>): Promise<Ends> {
  onEnd(t, 'sender', () => void sender.destroy());
  const [socket] = (await accepted) as [Socket];
  onEnd(t, 'socket', () => void socket.destroy());
  return { sender, socket };
}

suite('sockets are read past their stream where Node allows it', () => {
  test('socket reads past the stream work for TCP on this version of Node', async (t) => {
    const { sender, socket } = await overTcp(t);
    const places = new Set<ArrayBufferLike>();
    let came = '';
    readEach(socket, (bytes) => {
      places.add(bytes.buffer);
      came += bytes.toString();
    });
    assert.equal(socket.listenerCount('data'), 0);
    for (const piece of ['one ', 'two ', 'three']) {
      const before = came.length;
      sender.write(piece);
      await until(() => came.length > before);
    }
    assert.deepEqual([came, places.size, socket.bytesRead], ['one two three', 1, 13]);
  });

  test('socket reads past the stream are not used for TLS', async (t) => {
    const { sender, socket } = await overTls(t);
    let came = '';
    readEach(socket, (bytes) => (came += bytes.toString()));
    assert.equal(socket.listenerCount('data'), 1);
    sender.write('one');
    await until(() => came === 'one');
  });
});

for (const [kind, connected] of [
  ['TCP', overTcp],
  ['TLS', overTls],
] as const satisfies [string, Connect][])
  // prettier-ignore
  suite(`a socket reader reads each piece over ${kind}`, () => {
    test("a socket reader reports the client's end and its disconnection", async (t) => {
      for (const leave of ['end', 'destroy'] as const) {
        const { sender, socket } = await connected(t);
        let came = 0;
        readEach(socket, (bytes) => (came += bytes.length));
        sender.write('12345');
        await until(() => came === 5);
        const told = once(socket, leave === 'end' ? 'end' : 'close');
        if (leave === 'destroy') socket.on('end', () => socket.end());
        sender[leave]();
        await told;
      }
    });

    test('a socket reader hands remaining bytes to the stream in order and with back-pressure', async (t) => {
      const { sender, socket } = await connected(t);
      const sent = randomBytes(8_000_000);
      const came: Buffer[] = [];
      const endReads = readEach(socket, (bytes) => {
        came.push(Buffer.from(bytes.subarray(0, 10)));
        socket.pause();
        socket.unshift(Buffer.from(bytes.subarray(10)));
        endReads();
      });
      sender.end(sent);
      await until(() => came.length === 1);
      // Nobody reads: what is held is no more than the stream's own bound and one piece.
      const ended = once(socket, 'end');
      let looks = 0;
      await until(() => (looks += 1) === 10);
      assert.ok(socket.readableLength <= socket.readableHighWaterMark + 65_536, `${socket.readableLength}`);
      socket.on('data', (bytes: Buffer) => {
        came.push(bytes);
        socket.pause();
        setImmediate(() => socket.resume());
      });
      socket.resume();
      await ended;
      assert.ok(Buffer.concat(came).equals(sent));
    });
  });
