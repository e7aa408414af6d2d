/** This Node's sockets are read past their streams, those of TLS through them, and once that ends the stream gets everything. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { onEnd } from '../../test/support/cleanup.ts';
import { until } from '../../test/support/until.ts';
import { readEach } from './socket-reader.ts';

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

suite('a socket that is read past its stream', () => {
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
  suite(`reading each piece, over ${kind}`, () => {
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
