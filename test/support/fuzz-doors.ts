/**
 * Bytes that nobody would send on purpose, to every door of the real program. Whatever they are, the program answers or
 * disconnects; it hits no bug, answers no 500, and serves an honest sender after each of them.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from './fuzz.ts';
import { mutate, pick } from './fuzz.ts';
import { startHeadgate } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { chunked, post } from './raw-http.ts';
import { within } from './within.ts';

const doc = '/webhook/dev/public/doc';
const signed = '/webhook/dev/public/signed';
const upgrade =
  'GET /ingest/dev/public/typed HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';

/** A client's frame, masked with zeros so that mutations reach its content. */
function frame(opcode: number, text: string): Buffer {
  const body = Buffer.from(text);
  const length =
    body.length < 126
      ? Buffer.from([0x80 | body.length])
      : Buffer.from([0xfe, body.length >> 8, body.length & 255]);
  return Buffer.concat([Buffer.from([0x80 | opcode]), length, Buffer.alloc(4), body]);
}

const batch =
  '{"dml_batch_id":1,"items":[{"op":"upsert","data":{"id":1,"note":"x"}},{"op":"delete","data":{"id":1}}]}';
const init = () => frame(1, `{"type":"init","timestamp":${Date.now()}}`);

const startup = (() => {
  const text = Buffer.from('\0\x03\0\0user\0root\0database\0dev\0\0');
  const length = Buffer.alloc(4);
  length.writeInt32BE(text.length + 4);
  return Buffer.concat([length, text]);
})();

function message(type: string, text: string): Buffer {
  const head = Buffer.from(`${type}\0\0\0\0`, 'latin1');
  head.writeInt32BE(Buffer.byteLength(text) + 4, 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

const statements = [
  `CREATE TABLE IF NOT EXISTS f (data JSONB) WITH (connector = 'webhook', is_batched = true,)`,
  `CREATE TABLE f (id INT PRIMARY KEY, s STRING[]) INCLUDE HEADER 'x-id' AS x INCLUDE TIMESTAMP AS at WITH (connector = 'webhook')`,
  `CREATE TABLE f (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'a', encode(hmac(s, data, 'sha256'), 'hex'))`,
  `CREATE SECRET f WITH (backend = 'meta') AS 'it''s'; DROP SECRET f`,
  `SHOW CREATE TABLE doc; SHOW TABLES; DESCRIBE doc; FLUSH`,
  `ALTER TABLE doc VALIDATE SECRET s USING github; ALTER TABLE doc DROP VALIDATE`,
  `EXPLAIN VALIDATE signed WITH (headers = '{"a":"b"}', body = 'x')`,
  `select E'\\'' || $a$ ; $a$ /* /* */ */ -- x`,
];

const packets = (): Buffer[] => [
  startup,
  Buffer.concat([startup, message('Q', 'select 1\0'), message('X', '')]),
  Buffer.concat([startup, message('P', 's\0select $1::int\0\0\0'), message('B', '\0s\0\0\0\0\x01\0\0\0\x011\0\0'), message('E', '\0\0\0\0\0'), message('S', '')]),
  Buffer.concat([startup, message('Q', `${statements[0]}\0`), message('S', '')]),
  Buffer.from('\0\0\0\x08\x04\xd2\x16\x2f', 'latin1'),
  Buffer.from('\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02', 'latin1'),
]; // prettier-ignore

const seeds: Readonly<Record<string, (random: Random) => Buffer>> = {
  'HTTP bytes': (random) =>
    mutate(random, Buffer.from(pick(random, [post(doc, '{"a":1}'), chunked(signed, ['{"a', '":1}']), post(`${doc}?a=b`, '1', 'Content-Encoding: gzip\r\n'), post(doc, '{}', 'Expect: 100-continue\r\n'), upgrade, `OPTIONS ${doc} HTTP/1.1\r\nHost: h\r\n\r\n`, post(doc, '1') + post(doc, '2')]))),
  'JSON bodies': (random) => {
    const body = mutate(random, Buffer.from(pick(random, ['{"id":1,"note":"é\\ud83d\\ude00","n":[1.5e3,-0,true,null]}', '[[],{},"",0]', '{"id":1,"at":"2020-01-01","tags":["a"],"amount":1.50}'])));
    const to = pick(random, ['doc', 'typed', 'lines', 'form']);
    return Buffer.concat([Buffer.from(`POST /webhook/dev/public/${to} HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n`), body]);
  },
  'WebSocket frames': (random) =>
    Buffer.concat([Buffer.from(upgrade), ...(random() < 0.7 ? [init()] : []), mutate(random, pick(random, [frame(1, batch), init(), frame(9, 'ping'), frame(8, '\x03\xe8'), frame(2, batch), Buffer.concat([frame(1, batch), frame(1, batch.replace('1', '2'))])]))]),
}; // prettier-ignore

/** `count` inputs to each door. */
export async function fuzzDoors(t: TestContext, count: number, random: Random): Promise<void> {
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  await client.query(`
    CREATE SECRET s WITH (backend = 'meta') AS 'key';
    CREATE TABLE doc (data JSONB) WITH (connector = 'webhook');
    CREATE TABLE lines (data JSONB) WITH (connector = 'webhook', is_batched = true);
    CREATE TABLE form (data JSONB) WITH (connector = 'webhook', format = 'form');
    CREATE TABLE typed (id INT PRIMARY KEY, note TEXT, n JSONB, at TIMESTAMPTZ, tags TEXT[], amount NUMERIC) WITH (connector = 'webhook');
    CREATE TABLE signed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'a', s)`);
  const { listen, sql } = headgate.ports;
  await within(5_000, async () => assert.equal((await headgate.post('dev/public/doc', '1')).status, 200));
  for (const [door, make] of Object.entries(seeds))
    for (let i = 0; i < count; i++) await survives(headgate, door, listen.port, make(random));
  for (let i = 0; i < count; i++)
    await survives(headgate, 'wire packets', sql.port, mutate(random, pick(random, packets())));
  for (let i = 0; i < count; i++) {
    const text = mutate(random, Buffer.from(pick(random, statements)))
      .toString('latin1')
      .replaceAll('\0', '');
    // A COPY or a lock would wait indefinitely.
    if (!/copy|listen|begin|lock/i.test(text)) await client.query(text).catch(() => undefined);
  }
  assert.doesNotMatch(headgate.stderr, /request\.failed|sql\.failed|uncaught/i);
  await client.query('rollback');
  assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }]);
}

async function survives(headgate: Headgate, door: string, port: number, bytes: Buffer): Promise<void> {
  const input = `${door}: ${bytes.toString('base64')}`;
  const answer = await exchange(port, bytes);
  assert.doesNotMatch(answer, /^HTTP\/1\.1 5(?!03)/m, input);
  assert.equal((await headgate.post('dev/public/doc', '1')).status, 200, input);
  assert.doesNotMatch(headgate.stderr, /request\.failed|sql\.failed|uncaught/i, input);
}

/** Sends the bytes, ends this side, and reads until the other side ends or falls silent. */
function exchange(port: number, bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    let said = '';
    const patience = new AbortController();
    const end = () => {
      patience.abort();
      socket.destroy();
      resolve(said);
    };
    socket.setEncoding('latin1').on('data', (text: string) => {
      said += text;
    });
    socket.on('error', end).on('close', end).on('end', end);
    socket.end(bytes);
    void delay(1_000, undefined, { signal: patience.signal }).then(end, () => undefined);
  });
}
