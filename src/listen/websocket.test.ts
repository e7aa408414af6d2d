import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textsOf } from '../../test/support/streams.ts';
import { post, RawClient } from '../../test/support/raw-http.ts';
import { targetOf } from '../../test/support/rows.ts';
import { frame, handshake, init, opcodes, received, text } from '../../test/support/ws-frames.ts';
import { batchText, WsClient } from '../../test/support/ws-client.ts';
import { listen, open } from '../../test/support/ws-listener.ts';
import type { CheckRequest } from '../types/request.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import { deferred } from '../kit/promises.ts';
import { refusal, Refused } from '../errors/refusals.ts';

const path = '/ingest/dev/public/t';
const committed: Outcome = { kind: 'committed', rows: 1 };
const one = [{ op: 'insert', data: 1 }] as const;

test('WebSocket batches are acknowledged in order, with ids beyond 2^53 and without items too', async (t) => {
  const rows: Rows[] = [];
  const server = await listen(t, {
    submit: (it) => {
      rows.push(it);
      return Promise.resolve({ kind: 'committed', rows: it.count });
    },
  });
  const client = await open(t, server);
  const ids = ['0', '7', '9007199254740992', '9007199254740993', '18446744073709551615'];
  for (const id of ids) client.send(id, id === '7' ? [] : [{ op: 'upsert', data: { id } }, ...one]);
  await client.acked(ids.length);
  assert.deepEqual(client.acks, ids);
  assert.deepEqual(
    rows.map(textsOf),
    ['0', ...ids.slice(2)].map((id) => [`{"id":"${id}"}`, '1']),
  );
  const answered = server.observations.filter((o) => o.kind === 'batch.answered');
  assert.deepEqual(
    answered.map((o) => [o.code, o.rows, o.table?.table]),
    ids.map((id) => ['committed', id === '7' ? 0 : 2, 't']),
  );
  const { code, fatal } = await client.close();
  assert.deepEqual([code, fatal], [1005, null]);
  const closed = await server.observed((o) => o.kind === 'websocket.closed');
  assert.ok(closed.kind === 'websocket.closed');
  assert.deepEqual([closed.code, closed.batches, closed.rows], ['closed', 5, 8]);
  await server.close();
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});

test('WebSocket acknowledgements wait for the earlier commits, and none follows a refusal', async (t) => {
  const gates = [1, 2, 3, 4].map(() => deferred<Outcome>());
  const taken: Rows[] = [];
  const server = await listen(t, {
    submit: (rows) => (gates[taken.push(rows) - 1] ?? deferred<Outcome>()).promise,
  });
  const client = await open(t, server);
  for (const id of [1, 2, 3, 4]) client.send(id, one);
  while (taken.length < 4) await new Promise(setImmediate);
  gates[0]?.resolve(committed);
  await client.acked(1);
  gates[1]?.resolve({ kind: 'aborted', refusal: refusal('row_refused'), row: 0 });
  gates[2]?.resolve({ kind: 'aborted', refusal: refusal('engine_unavailable') });
  gates[3]?.resolve({ kind: 'aborted', refusal: refusal('engine_unavailable') });
  assert.deepEqual(await client.ended, {
    code: 1008,
    fatal: 'dml_batch_id 2 item 1: the row does not fit the table',
    acks: ['1'],
  });
});

const now = () => Date.now();
/** Name, first message, code and reason of the close. */
const openings: [name: string, first: () => string, code: number, fatal: RegExp][] = [
  ['text that is no JSON', () => 'hello', 1008, /^malformed payload: the first message is not JSON$/],
  ['null', () => 'null', 1008, /^malformed payload: the first message must be/],
  ['a batch', () => batchText(1, one), 1008, /^malformed payload: the first message must be/],
  ['no timestamp', () => '{"type":"init"}', 1008, /^malformed payload: the timestamp/],
  ['a text as timestamp', () => `{"type":"init","timestamp":"${now()}"}`, 1008, /^malformed payload: the timestamp/],
  ['half a ms', () => `{"type":"init","timestamp":${now()}.5}`, 1008, /^malformed payload: the timestamp/],
  ['seconds', () => `{"type":"init","timestamp":${Math.floor(now() / 1000)}}`, 1008, /^timestamp skew of \d+ s/],
  ['yesterday', () => `{"type":"init","timestamp":${now() - 301_000}}`, 1008, /^timestamp skew of 30\d s is beyond the 300 s/],
  ['tomorrow', () => `{"type":"init","timestamp":${now() + 302_000}}`, 1008, /^timestamp skew of 30\d s/],
]; // prettier-ignore

test('a WebSocket whose first message is no init frame is closed with the reason', async (t) => {
  const server = await listen(t);
  for (const [name, first, code, fatal] of openings) {
    const client = await WsClient.connect(`ws://127.0.0.1:${server.port}${path}`);
    client.ws.send(first());
    client.send(1, one);
    const ended = await client.ended;
    assert.equal(ended.code, code, name);
    assert.match(ended.fatal ?? '', fatal, name);
    assert.deepEqual(ended.acks, []);
  }
  const good = await open(t, server, 't', { timestamp: Date.now() - 290_000 });
  good.send(1, one);
  await good.acked(1);
});

test('a WebSocket to a missing, unauthorized or unavailable table gets a message with the reason', async (t) => {
  const seen: CheckRequest[] = [];
  const server = await listen(t, {
    find: (name) => {
      if (name.table === 'none') throw new Refused('not_found');
      if (name.table === 'away') return Promise.reject(new Refused('engine_unavailable'));
      if (name.table === 'unusable') return targetOf({ ...name, check: 'unusable' });
      if (name.table === 'broken') throw new TypeError('a bug with /a/path in it');
      return targetOf({ ...name, check: (request) => seen.push(request) > 0 && name.table === 'signed' });
    },
  });
  const end = async (table: string) => {
    const { code, fatal } = await (await open(t, server, table)).ended;
    return `${code} ${fatal}`;
  };
  assert.equal(await end('none'), '1008 table lookup failed: no such webhook table');
  assert.equal(await end('away'), '1013 table lookup failed: the database is not available');
  assert.equal(
    await end('unusable'),
    '1013 table lookup failed: this table cannot accept requests at the moment',
  );
  assert.match(await end('broken'), /^1011 internal error \(request id [0-9a-f-]{36}\)$/);
  assert.equal(await end('refused'), '1008 Signature verification failed');
  const client = await open(t, server, 'signed?a=b', { headers: { 'x-a': 'b' } });
  client.send(1, one);
  await client.acked(1);
  const request = seen.at(-1);
  assert.ok(request !== undefined && Math.abs(request.arrivedAtMs - Date.now()) < 60_000);
  assert.equal(request.method, 'GET');
  assert.equal(request.target, '/ingest/dev/public/signed?a=b');
  assert.equal(request.rawHeaders[request.rawHeaders.indexOf('x-a') + 1], 'b');
  assert.match(request.body.toString(), /^\{"type":"init","timestamp":\d+\}$/);
  const closed = server.observations.filter((o) => o.kind === 'websocket.closed');
  assert.deepEqual(
    closed.map((o) => o.code),
    ['not_found', 'engine_unavailable', 'table_unusable', 'internal', 'signature_failed'],
  );
});

/** Name, the second message, the reason. The first one was acknowledged. */
const refusedMessages: [name: string, message: string, fatal: string][] = [
  ['the id of the previous batch', batchText(3, one), 'dml_batch_id must increase monotonically: received 3 after 3'],
  ['a smaller id', batchText(0, one), 'dml_batch_id must increase monotonically: received 0 after 3'],
  ['a negative id', batchText(-4, one), 'malformed payload: dml_batch_id must be a whole number from 0 to 18446744073709551615 at byte 18'],
  ['a fraction as id', batchText('4.0', one), 'malformed payload: dml_batch_id must be a whole number from 0 to 18446744073709551615 at byte 19'],
  ['the id 2^64', batchText('18446744073709551616', one), 'malformed payload: dml_batch_id must be a whole number from 0 to 18446744073709551615 at byte 36'],
  ['an id in quotes', batchText('"4"', one), 'malformed payload: dml_batch_id must be a whole number from 0 to 18446744073709551615 at byte 19'],
  ['no dml_batch_id', '{"items":[]}', 'malformed payload: missing field `dml_batch_id`'],
  ['no items', '{"dml_batch_id":4}', 'malformed payload: missing field `items`'],
  ['two dml_batch_ids', '{"dml_batch_id":4,"dml_batch_id":5,"items":[]}', 'malformed payload: duplicate field `dml_batch_id` at byte 33'],
  ['text that is no JSON', 'x', 'malformed payload: expected an object at byte 0'],
  ['no content', '', 'malformed payload: it ends in the middle'],
  ['half a batch', '{"dml_batch_id":4,"items":[{"op":"insert","data":{"a":"', 'malformed payload: it ends in the middle'],
  ['text behind the batch', `${batchText(4, one)} 1`, 'malformed payload: trailing characters at byte 54'],
  ['an unknown op', '{"dml_batch_id":4,"items":[{"op":"truncate","data":1}]}', 'malformed payload: the `op` of item 1 must be one of insert, upsert, update, delete'],
  ['no op', '{"dml_batch_id":4,"items":[{"data":1}]}', 'malformed payload: the `op` of item 1 must be one of insert, upsert, update, delete'],
  ['no data', '{"dml_batch_id":4,"items":[{"op":"insert","data":1},{"op":"insert"}]}', 'malformed payload: item 2 has no `data`'],
  ['data that is no JSON', '{"dml_batch_id":4,"items":[{"op":"insert","data":1},{"op":"insert","data":{"a":}}]}', 'dml_batch_id 4 item 2: failed to decode webhook JSON payload: unexpected character at byte 5'],
  ['a delete without a key', '{"dml_batch_id":4,"items":[{"op":"insert","data":1},{"op":"delete","data":1}]}', 'dml_batch_id 4 item 2: delete needs a PRIMARY KEY that requests fill'],
  ['too deeply nested data', `{"dml_batch_id":4,"items":[{"op":"insert","data":${'['.repeat(2_000)}`, 'malformed payload: nested too deeply at byte 1074'],
]; // prettier-ignore

for (const [name, message, fatal] of refusedMessages) {
  test(`a WebSocket message with ${name} is refused`, async (t) => {
    const server = await listen(t);
    const client = await open(t, server);
    client.send(3, one);
    client.ws.send(message);
    client.send(9, one);
    assert.deepEqual(await client.ended, { code: 1008, fatal, acks: ['3'] });
  });
}

test('a WebSocket batch frame may hold other members', async (t) => {
  const rows: Rows[] = [];
  const server = await listen(t, {
    submit: (it) => {
      rows.push(it);
      return Promise.resolve({ kind: 'committed', rows: it.count });
    },
  });
  const client = await open(t, server, 'keyed');
  client.ws.send(
    ' { "items" : [ {"data":"a]}\\"[{","op":"delete"} ,{"op":"\\u0075psert","x":[{"data":1}],"data": [1, {"b":"}"}] }],\n"more":{"a":[]},"dml_batch_id":1} ',
  );
  await client.acked(1);
  assert.deepEqual(rows.map(textsOf), [['"a]}\\"[{"', '[1, {"b":"}"}]']]);
  assert.deepEqual([...(rows[0]?.deletes ?? [])], [1, 0]);
});

test('binary WebSocket messages are refused', async (t) => {
  const client = await open(t, await listen(t));
  client.send(1, one);
  client.ws.send(Buffer.from(batchText(2, one)));
  const fatal = 'malformed payload: binary messages are not read';
  assert.deepEqual(await client.ended, { code: 1003, fatal, acks: ['1'] });
});

test("a WebSocket's handshake, init frame and batches are read in one write and in single bytes", async (t) => {
  const server = await listen(t);
  const all = [
    Buffer.from(handshake(path)),
    init(),
    text(batchText(1, one)),
    frame(opcodes.ping, 'hi'),
    frame(opcodes.text, '{"dml_batch_id":2,', { fin: false }),
    frame(opcodes.more, '', { fin: false }),
    frame(opcodes.ping, 'ho'),
    frame(opcodes.more, '"items":[]}'),
    frame(opcodes.close, Buffer.from([3, 232])),
  ];
  const bytes = Buffer.concat(all);
  for (const pieces of [[bytes], [...bytes].map((byte) => Buffer.from([byte]))]) {
    const client = await RawClient.connect(server.port);
    for (const piece of pieces) {
      client.send(piece);
      if (pieces.length > 1) await new Promise(setImmediate);
    }
    assert.equal((await client.answer())?.status, 101);
    const messages = await received(client);
    assert.deepEqual(
      messages.filter((message) => String(message).startsWith('pong') || message === 1000),
      ['pong hi', 'pong ho', 1000],
    );
    client.destroy();
  }
  await server.observed((o) => o.kind === 'websocket.closed' && o.batches === 2);
  await server.close();
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});

test('a WebSocket upgrade waits for earlier answers on its connection', async (t) => {
  const gate = deferred<Outcome>();
  const server = await listen(t, {}, { commit: () => gate.promise });
  const client = await RawClient.connect(server.port);
  client.send(post('/webhook/dev/public/t', '{}') + handshake(path));
  client.send(Buffer.concat([init(), text(batchText(1, []))]));
  while (server.bodies.length === 0) await new Promise(setImmediate);
  gate.resolve(committed);
  assert.equal((await client.answer())?.body, '{"rows":1}');
  const answer = await client.answer();
  assert.equal(answer?.status, 101);
  assert.match(answer?.head ?? '', /^Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=$/m);
  await server.observed((o) => o.kind === 'batch.answered');
  client.reset();
  await server.close();
  assert.deepEqual(server.listener.load, { connections: 0, bytesInFlight: 0 });
});
