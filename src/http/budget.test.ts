/** Strangers who fill the bytes in flight with requests that never become complete, and slow tables: others are served. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { suite, test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { holdSockets } from '../../test/support/held-sockets.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { listen, open } from '../../test/support/ws-listener.ts';
import { frame, handshake, init, opcodes } from '../../test/support/ws-frames.ts';
import type { Outcome } from '../types/rows.ts';
import { deferred } from '../kit/promises.ts';
import { BytesInFlight } from './budget.ts';
import { Share } from './share.ts';

const max = 4_000_000;
const hoard = 'x'.repeat(235_000);
const webhook = '/webhook/dev/public/t';
const committed: Outcome = { kind: 'committed', rows: 1 };

/** A message, or a body, of which most comes and the end does not. */
const hoarders: readonly [name: string, talk: (socket: Socket) => void, words: RegExp][] = [
  [
    'WebSockets',
    (socket) => {
      socket.write(handshake('/ingest/dev/public/t'));
      socket.write(Buffer.concat([init(), frame(opcodes.text, hoard, { claims: hoard.length + 1_000 })]));
    },
    /too many bytes from this address are in flight/,
  ],
  [
    'webhooks',
    (socket) =>
      socket.write(
        `POST ${webhook} HTTP/1.1\r\nHost: h\r\nContent-Length: ${hoard.length + 1_000}\r\n\r\n${hoard}`,
      ),
    /^HTTP\/1.1 429 .*Retry-After: \d.*"code":"sender_overloaded"/s,
  ],
];

suite('bytes in flight are shared among senders', () => {
  for (const [name, talk, words] of hoarders) {
    for (const addresses of [['127.0.0.2'], ['127.0.0.2', '127.0.0.3', '127.0.0.4'], ['127.0.0.1']]) {
      test(`incomplete ${name} from ${addresses.join(', ')} that fill the bytes in flight do not keep out other senders`, async (t) => {
        const server = await listen(t, {}, {
          limits: { bodiesInFlightBytesMax: max, websocketMessageBytesMax: 250_000 }, bodyBytesMax: 1_000_000,
        }); // prettier-ignore
        const held = await holdSockets(server.port, 25, addresses, talk);
        onEnd(t, 'hoarders', () => held.close());
        while (server.listener.load.bytesInFlight < max / 3) await new Promise(setImmediate);
        const client = await RawClient.connect(server.port);
        onEnd(t, 'client', () => client.destroy());
        for (let i = 0; i < 20; i++) {
          client.send(post(webhook, '{}'));
          assert.equal((await client.answer())?.status, 200);
        }
        // Large ones find room as long as they are not of the address that hoards.
        for (let i = 0; i < 3 && !addresses.includes('127.0.0.1'); i++) {
          client.send(post(webhook, JSON.stringify('y'.repeat(900_000))));
          assert.equal((await client.answer())?.status, 200);
        }
        const ws = await open(t, server);
        for (let id = 1; id <= 20; id++) ws.send(id, [{ op: 'insert', data: 1 }]);
        await ws.acked(20);
        while (held.renewed === 0) {
          client.send(post(webhook, '{}'));
          assert.equal((await client.answer())?.status, 200);
        }
        assert.ok(
          [...held.lastWords].some((said) => words.test(said)),
          [...held.lastWords].join().slice(0, 500),
        );
        assert.ok(server.listener.load.bytesInFlight < max + 25 * 70_000);
        await ws.close();
      });
    }
  }

  test('a slow table holds back its own WebSockets, and no webhook of another table', async (t) => {
    const gate = deferred<Outcome>();
    const server = await listen(
      t,
      { submit: () => gate.promise },
      { limits: { bodiesInFlightBytesMax: 2_000_000 } },
    );
    const clients = await Promise.all(Array.from({ length: 10 }, () => open(t, server)));
    const items = [{ op: 'insert', data: 'x'.repeat(100_000) }] as const;
    for (const client of clients) for (let id = 1; id <= 10; id++) client.send(id, items);
    while (server.listener.load.bytesInFlight < 1_000_000) await new Promise(setImmediate);
    for (let i = 0; i < 200; i++) await new Promise(setImmediate);
    assert.ok(server.listener.load.bytesInFlight < 1_000_000 + 10 * 70_000);
    const other = await RawClient.connect(server.port);
    other.send(post('/webhook/dev/public/other', '{}'));
    assert.equal((await other.answer())?.status, 200);
    other.destroy();
    gate.resolve(committed);
    await Promise.all(clients.map((client) => client.acked(10)));
    for (const client of clients) await client.close();
    await server.close();
    assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
  });

  test('bytes in flight evict from the fullest network the request silent for longest, and never a complete one', () => {
    const inFlight = new BytesInFlight(1_000_000);
    const gone: string[] = [];
    const share = (address: string, name: string, bytes: number) => {
      const made = new Share(inFlight, address, { fail: () => gone.push(name) });
      return { made, why: made.take(bytes)?.code ?? null };
    };
    const whole = share('192.0.2.1', 'whole', 300_000).made;
    whole.settle();
    const oldest = share('2001:db8::1', 'oldest', 200_000).made;
    share('2001:db8::2', 'silent', 200_000);
    oldest.take(10_000);
    share('192.0.2.3', 'less', 250_000);
    // Both IPv6 addresses are of one network, which has the most.
    assert.equal(share('192.0.2.4', 'new', 100_000).why, null);
    assert.deepEqual(gone, ['silent']);
    // Who would have more than anybody is refused, and keeps nobody else from coming.
    assert.equal(share('192.0.2.5', 'greedy', 600_000).why, 'overloaded');
    assert.deepEqual(gone, ['silent']);
    assert.equal(share('192.0.2.6', 'small', 200_000).why, null);
    assert.deepEqual(gone, ['silent', 'less']);
    whole.release();
    assert.equal(inFlight.held, 510_000);
  });
});
