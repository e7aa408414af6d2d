import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { frame, handshake, init, opcodes, rawSocket, received, text } from '../../test/support/ws-frames.ts';
import type { FrameOptions } from '../../test/support/ws-frames.ts';
import { textsOf } from '../../test/support/streams.ts';
import { batchText, WsClient } from '../../test/support/ws-client.ts';
import { listen, open } from '../../test/support/ws-listener.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import { deferred } from '../kit/promises.ts';
import { refusal } from '../errors/refusals.ts';

const path = '/ingest/dev/public/t';
const committed: Outcome = { kind: 'committed', rows: 1 };
const one = [{ op: 'insert', data: 1 }] as const;
const nothing = { connections: 0, bytesInFlight: 0 };
const turn = () => new Promise(setImmediate);

const f = (opcode: number, payload: string | Buffer, options: FrameOptions = {}) =>
  frame(opcode, payload, options);
/** Name, bytes behind a good batch, the close code. */
const broken: [name: string, bytes: () => Buffer, code: number][] = [
  ['an unmasked frame', () => f(opcodes.text, '{}', { masked: false }), 1002],
  ['a reserved bit', () => f(opcodes.text, '{}', { rsv: 1 }), 1002],
  ['compression that was not agreed on', () => f(opcodes.text, '{}', { rsv: 4 }), 1002],
  ['an unknown opcode', () => f(3, '{}'), 1002],
  ['a fragmented ping', () => f(opcodes.ping, 'a', { fin: false }), 1002],
  ['a ping that is too long', () => f(opcodes.ping, 'a'.repeat(126)), 1002],
  ['a continuation frame without a message', () => f(opcodes.more, 'a'), 1002],
  ['a message within a fragmented message', () => Buffer.concat([f(opcodes.text, 'a', { fin: false }), f(opcodes.text, 'a')]), 1002],
  ['text that is not UTF-8', () => f(opcodes.text, Buffer.from([0x22, 0xff, 0x22])), 1007],
  ['half a UTF-8 character', () => f(opcodes.text, Buffer.from([0xe2, 0x82])), 1007],
  ['an invalid close code', () => f(opcodes.close, Buffer.from([0, 5])), 1002],
  ['a message that is too large', () => f(opcodes.text, 'x'.repeat(1025)), 1009],
  ['a message of too large an announced length', () => f(opcodes.text, '', { claims: 1025 }), 1009],
  ['an announced length of more than 2^53 bytes', () => f(opcodes.text, '', { claims: 2 ** 55 }), 1009],
  ['fragments that are too large together', () => Buffer.concat([f(opcodes.text, 'x'.repeat(600), { fin: false }), f(opcodes.more, 'x'.repeat(600), { fin: false })]), 1009],
  ['too many fragments', () => Buffer.concat([f(opcodes.text, 'x', { fin: false }), ...Array.from({ length: 32 }, () => f(opcodes.more, 'x', { fin: false }))]), 1008],
  ['too many empty fragments', () => Buffer.concat([f(opcodes.text, '', { fin: false }), ...Array.from({ length: 32 }, () => f(opcodes.more, '', { fin: false }))]), 1008],
]; // prettier-ignore

suite('the listener withstands hostile WebSockets', () => {
  for (const [name, bytes, code] of broken) {
    test(`a WebSocket with ${name} is closed with ${code}`, async (t) => {
      const server = await listen(t, {}, {
        limits: { websocketMessageBytesMax: 1024, websocketFragmentsMax: 32 },
      }); // prettier-ignore
      const client = await rawSocket(server.port, path);
      client.send(Buffer.concat([init(), text(batchText(1, one))]));
      await server.observed((o) => o.kind === 'batch.answered');
      client.send(bytes());
      // What comes behind it changes nothing.
      client.send(text(batchText(2, one)));
      assert.deepEqual(await received(client), ['{"ack":1}', code]);
      client.destroy();
      const closed = await server.observed((o) => o.kind === 'websocket.closed');
      assert.ok(closed.kind === 'websocket.closed');
      assert.equal(closed.code, code === 1009 ? 'body_too_large' : 'malformed_payload');
      await server.close();
      assert.deepEqual(server.listener.load, nothing);
    });
  }

  test('a WebSocket whose first message is missing, too large or unfinished is closed in time', async (t) => {
    const server = await listen(t, {}, {
      limits: { websocketInitTimeoutMs: 100, websocketMessageTimeoutMs: 100, websocketInitBytesMax: 500 },
    }); // prettier-ignore
    const end = async (...bytes: Buffer[]) => {
      const client = await rawSocket(server.port, path);
      for (const piece of bytes) client.send(piece);
      const messages = await received(client);
      client.destroy();
      return messages;
    };
    assert.deepEqual(await end(), ['{"fatal":"no init frame came in time"}', 1008]);
    assert.deepEqual(await end(f(opcodes.ping, '')), [
      'pong ',
      '{"fatal":"no init frame came in time"}',
      1008,
    ]);
    assert.deepEqual(await end(f(opcodes.text, 'x'.repeat(600), { fin: false })), [
      '{"fatal":"the init frame is too large"}',
      1009,
    ]);
    const half = text(batchText(2, one)).subarray(0, -1);
    assert.deepEqual(await end(init(), text(batchText(1, one)), half), [
      '{"ack":1}',
      '{"fatal":"the message did not arrive in time"}',
      1008,
    ]);
    const drops = Array.from({ length: 5 }, () => f(opcodes.more, '', { fin: false }));
    assert.deepEqual(await end(init(), f(opcodes.text, '', { fin: false }), ...drops), [
      '{"fatal":"the message did not arrive in time"}',
      1008,
    ]);
    await server.close();
    assert.deepEqual(server.listener.load, nothing);
  });

  test('a WebSocket client that does not answer pings is disconnected, and one that does stays', async (t) => {
    const server = await listen(t, {}, { limits: { websocketPingMs: 100 } });
    const dead = await rawSocket(server.port, path);
    dead.send(init());
    const alive = await open(t, server);
    let pings = 0;
    alive.ws.on('ping', () => pings++);
    await dead.closed;
    await new Promise((resolve) => alive.ws.once('ping', resolve));
    assert.ok(pings >= 2);
    alive.send(1, one);
    await alive.acked(1);
    dead.destroy();
  });

  test('unacknowledged WebSocket batches are bounded: the client is not read until some are acknowledged', async (t) => {
    const gate = deferred<Outcome>();
    const taken: Rows[] = [];
    const server = await listen(t, { submit: (rows) => (taken.push(rows), gate.promise) }, {
      limits: { websocketUnackedMax: 8, websocketUnackedBytesMax: 400_000, websocketPingMs: 200 },
    }); // prettier-ignore
    const large = [{ op: 'insert', data: 'x'.repeat(100_000) }] as const;
    for (const [items, atMost] of [
      [one, 8],
      [large, 4],
    ] as const) {
      taken.length = 0;
      const client = await open(t, server);
      for (let id = 1; id <= 3_000; id++) if (items === one || id <= 100) client.send(id, items);
      while (taken.length < atMost) await turn();
      // Whatever had come in the same read is taken too, and no more.
      for (let i = 0; i < 200; i++) await turn();
      assert.ok(
        taken.length <= atMost + 1_300 && server.listener.load.bytesInFlight < 3_600_000,
        `${taken.length}`,
      );
      // One that is not read is noticed to be gone by the pings that it does not take.
      await client.kill();
    }
    await server.observed((o) => o.kind === 'websocket.closed');
    const client = await open(t, server);
    taken.length = 0;
    for (let id = 1; id <= 5_000; id++) client.send(id, one);
    while (taken.length < 8) await turn();
    gate.resolve(committed);
    await client.acked(5_000);
    assert.deepEqual(
      client.acks,
      Array.from({ length: 5_000 }, (_, i) => String(i + 1)),
    );
    await client.close();
    await server.close();
    assert.deepEqual(server.listener.load, nothing);
  });

  test('WebSocket connections together respect the bytes in flight, and webhooks are refused meanwhile', async (t) => {
    const gate = deferred<Outcome>();
    const max = 2_000_000;
    const server = await listen(t, { submit: () => gate.promise }, {
      limits: { bodiesInFlightBytesMax: max },
    }); // prettier-ignore
    // Of several tables: one alone may not take so much.
    const clients = await Promise.all(Array.from({ length: 10 }, (_, i) => open(t, server, `t${i % 3}`)));
    const items = [{ op: 'insert', data: 'x'.repeat(4_000) }] as const;
    for (const client of clients) for (let id = 1; id <= 200; id++) client.send(id, items);
    while (server.listener.load.bytesInFlight < max) await turn();
    for (let i = 0; i < 200; i++) await turn();
    assert.ok(server.listener.load.bytesInFlight < max + 10 * 70_000);
    const webhook = await RawClient.connect(server.port);
    webhook.send(post('/webhook/dev/public/t', '{}'));
    assert.match((await webhook.answer())?.body ?? '', /"code":"overloaded"/);
    const late = await RawClient.connect(server.port);
    late.send(handshake(path));
    assert.match((await late.answer())?.body ?? '', /"code":"overloaded"/);
    gate.resolve(committed);
    await Promise.all(clients.map((client) => client.acked(200)));
    webhook.send(post('/webhook/dev/public/t', '{}'));
    assert.equal((await webhook.answer())?.status, 200);
    for (const client of clients) await client.kill();
    for (const client of [webhook, late]) client.destroy();
    await server.close();
    assert.deepEqual(server.listener.load, nothing);
  });

  test('unfinished WebSocket messages that fill the bytes in flight are ended, and other clients are served', async (t) => {
    const server = await listen(t, {}, {
      limits: { bodiesInFlightBytesMax: 500_000, websocketMessageTimeoutMs: 200 },
    }); // prettier-ignore
    const half = f(opcodes.text, 'x'.repeat(100_000), { fin: false });
    const hoarders = await Promise.all(Array.from({ length: 8 }, () => rawSocket(server.port, path)));
    for (const hoarder of hoarders) hoarder.send(Buffer.concat([init(), half]));
    for (const hoarder of hoarders) {
      const [fatal, code] = await received(hoarder);
      assert.ok(code === 1013 || code === 1008, `${fatal} ${code}`);
      hoarder.destroy();
    }
    const client = await open(t, server);
    client.send(1, one);
    await client.acked(1);
    await client.close();
    await server.close();
    assert.deepEqual(server.listener.load, nothing);
  });

  test('a WebSocket reset at any byte leaves no bytes in flight', async (t) => {
    const taken: Rows[] = [];
    const server = await listen(t, { submit: (rows) => (taken.push(rows), Promise.resolve(committed)) });
    const bytes = Buffer.concat([
      Buffer.from(handshake(path)),
      init(),
      text(batchText(1, one)),
      text(batchText(2, one)),
    ]);
    for (let cut = 0; cut < bytes.length; cut += 3) {
      const client = await RawClient.connect(server.port);
      client.send(bytes.subarray(0, cut));
      await new Promise((resolve) => client.socket.write('', resolve));
      if (cut % 2 === 0) client.reset();
      else client.socket.end();
      await client.closed;
      client.destroy();
    }
    await server.close();
    assert.deepEqual(server.listener.load, nothing);
    assert.ok(taken.every((rows) => textsOf(rows).join() === '1'));
  });

  test('a draining listener acknowledges received batches, closes WebSockets with 1001, and accepts none', async (t) => {
    const gates = new Map([
      ['1', deferred<Outcome>()],
      ['2', deferred<Outcome>()],
    ]);
    const taken: Rows[] = [];
    const server = await listen(t, {
      submit: (rows) => (taken.push(rows), gates.get(textsOf(rows).join())?.promise ?? Promise.resolve(committed)),
    }); // prettier-ignore
    const [busy, idle, silent] = [
      await open(t, server),
      await open(t, server),
      await rawSocket(server.port, path),
    ];
    const fresh = await RawClient.connect(server.port);
    idle.send(1, [{ op: 'insert', data: 3 }]);
    await idle.acked(1);
    busy.send(1, [{ op: 'insert', data: 1 }]);
    busy.send(2, [{ op: 'insert', data: 2 }]);
    while (taken.length < 3) await turn();
    server.listener.drain();
    assert.equal((await idle.ended).code, 1001);
    assert.deepEqual(await received(silent), [1001]);
    busy.send(3, one);
    fresh.send(handshake(path));
    assert.match((await fresh.answer())?.body ?? '', /"code":"draining"/);
    const closing = server.close();
    gates.get('1')?.resolve(committed);
    await busy.acked(1);
    gates.get('2')?.resolve({ kind: 'aborted', refusal: refusal('row_refused') });
    assert.deepEqual(await busy.ended, {
      code: 1008,
      fatal: 'dml_batch_id 2: the row does not fit the table',
      acks: ['1'],
    });
    for (const client of [silent, fresh]) client.destroy();
    await closing;
    assert.deepEqual(server.listener.load, nothing);
    assert.equal(taken.length, 3);
  });

  test('a closing listener ends a WebSocket with an undecided batch at the deadline', async (t) => {
    const server = await listen(
      t,
      { submit: () => deferred<Outcome>().promise },
      { limits: { drainMs: 100 } },
    );
    const client = await open(t, server);
    client.send(1, one);
    while (server.listener.load.bytesInFlight < 4_000 && client.acks.length === 0) {
      if (server.observations.some((o) => o.kind === 'websocket.opened')) break;
      await turn();
    }
    await server.close();
    assert.equal((await client.ended).code, 1006);
    assert.deepEqual(server.listener.load, nothing);
  });

  test('web pages open a WebSocket only from a listed origin', async (t) => {
    const list = 'https://a.example, http://localhost:3000';
    const server = await listen(t, {}, { websocketOrigins: list });
    const url = `ws://127.0.0.1:${server.port}${path}`;
    const from = (origin: string) => WsClient.connect(url, { headers: { origin } });
    for (const origin of ['https://a.example', 'HTTPS://A.example', 'http://localhost:3000'])
      await (await from(origin)).kill();
    for (const origin of [
      'http://a.example',
      'https://a.example.evil',
      'https://b.a.example',
      'http://localhost',
      'null',
      '*',
    ])
      await assert.rejects(from(origin), /403/, origin);
    const all = await listen(t, {}, { websocketOrigins: '*' });
    await (
      await WsClient.connect(`ws://127.0.0.1:${all.port}${path}`, { headers: { origin: 'null' } })
    ).kill();
  });

  test('the listener chooses no WebSocket subprotocol, and refuses a malformed list of them', async (t) => {
    const server = await listen(t);
    const client = await RawClient.connect(server.port);
    client.send(
      handshake(
        path,
        'Sec-WebSocket-Protocol: graphql-ws, mqtt',
        'Sec-WebSocket-Extensions: permessage-deflate',
      ),
    );
    const answer = await client.answer();
    assert.equal(answer?.status, 101);
    assert.doesNotMatch(answer?.head ?? '', /Sec-WebSocket-(Protocol|Extensions)/);
    client.reset();
    const bad = await RawClient.connect(server.port);
    bad.send(handshake(path, 'Sec-WebSocket-Protocol: a,,b'));
    assert.match((await bad.answer())?.body ?? '', /"code":"malformed_request"/);
    await bad.closed;
    bad.destroy();
  });

  test('a WebSocket counts against the bound on listener connections', async (t) => {
    const server = await listen(t, {}, { limits: { listenConnectionsMax: 2 } });
    const clients = [await open(t, server), await open(t, server)];
    await assert.rejects(
      WsClient.connect(`ws://127.0.0.1:${server.port}${path}`),
      /socket hang up|ECONNRESET/,
    );
    clients[0]?.send(1, one);
    await clients[0]?.acked(1);
  });
});
