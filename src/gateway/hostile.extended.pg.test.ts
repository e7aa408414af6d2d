/**
 * The gateway's answers to hostile bytes, over TCP and over TLS: hostile.test.ts of the listener does the same for the
 * other door. Each is followed by a valid request, and only requests answered 200 are stored.
 */
import assert from 'node:assert/strict';
import { lookup } from 'node:dns/promises';
import { once as emitted } from 'node:events';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { suite, test as once } from 'node:test';
import {
  e,
  gatewayConnections,
  gatewayOnly,
  row,
  select,
  sql,
} from '../../test/support/bad-inputs/gateway.ts';
import type { End } from '../../test/support/bad-inputs/connections.ts';
import { test } from '../../test/support/both-paths.ts';
import { testTls } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { openGate, openTestGateway } from '../../test/support/gateway.ts';
import type { TestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { inLong, isLong, sampleOf } from '../../test/support/sample.ts';
import { within } from '../../test/support/within.ts';
import { Networks } from '../kit/networks.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';

const over = ['tcp', 'tls'] as const;
type Over = (typeof over)[number];

interface Opened {
  readonly gateway: TestGateway;
  readonly port: number;
  /** Rows that were answered 200. */
  rows: number;
}

async function open(
  t: TestContext,
  way: Over,
  own: Partial<Limits> = {},
  gate = openGate(),
): Promise<Opened | null> {
  const made = way === 'tls' ? await testTls() : null;
  if (way === 'tls' && made === null) return null;
  if (made !== null) onEnd(t, 'certificates', () => made.close());
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query('CREATE TABLE t (n int)');
  const gateway = await openTestGateway(t, database, {
    hosts: ['h'],
    gate,
    tls: made?.source ?? null,
    limits: { ...limits, lingerMs: 200, ...own },
  });
  onEnd(t, 'count', async () => {
    const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM t');
    assert.equal(rows[0]?.n, opened.rows, 'what is stored was answered 200');
    await within(10_000, async () => {
      await new Promise(setImmediate);
      const { requests, bytesInFlight } = gateway.door.load;
      assert.deepEqual([requests, bytesInFlight], [0, 0], 'what was begun has ended, and holds nothing');
    });
    assert.deepEqual(
      gateway.spy.seen.filter(({ kind }) => kind === 'request.failed'),
      [],
    );
  });
  const opened = { gateway, port: Number(new URL(gateway.url).port), rows: 0 };
  return opened;
}

function summary(status: number, body: string): string {
  if (status < 300 || body === '') return String(status);
  const parsed = JSON.parse(body) as { error: string; code: string };
  assert.doesNotMatch(parsed.error, /\n|Error:|node_modules|\/src\//);
  assert(status < 500 || status === 503, body);
  return `${status} ${parsed.code}`;
}

async function answers(client: RawClient, opened: Opened, count: number): Promise<string[]> {
  const got: string[] = [];
  while (got.length < count) {
    const answer = await client.answer();
    if (answer === null) break;
    if (answer.body === '{"rows":1}') opened.rows += 1;
    assert.equal(/^retry-after: \d+$/im.test(answer.head), [429, 503].includes(answer.status));
    assert.equal(/^allow: (?:GET, )?(?:HEAD|POST)$/im.test(answer.head), answer.status === 405);
    got.push(summary(answer.status, answer.body));
  }
  return got;
}

async function check(
  way: Over,
  opened: Opened,
  bytes: readonly string[],
  expected: readonly string[],
  end: End,
) {
  const client = await RawClient.connect(opened.port, way);
  for (const part of bytes) {
    client.send(part);
    await new Promise(setImmediate);
  }
  assert.deepEqual(await answers(client, opened, expected.length), expected);
  if (end === 'stays') client.send(post(e, row));
  else await client.closed;
  assert.equal(client.unread, '');
  const next = end === 'stays' ? client : await RawClient.connect(opened.port, way);
  if (end === 'closes') next.send(post(e, row));
  assert.deepEqual(await answers(next, opened, 1), ['200']);
  next.destroy();
  client.destroy();
}

for (const way of over) {
  // A door of TLS hands its bytes to the same parsers.
  const connections = way === 'tls' ? sampleOf(gatewayConnections, 10) : gatewayConnections;
  // Which parser reads does not depend on TLS.
  const byEach = way === 'tls' ? once : test;
  // What TLS does not change is tried over it in the long run only.
  const further = way === 'tls' ? inLong : test;
  suite(`the gateway withstands hostile bytes over ${way}`, () => {
    byEach(
      `the gateway answers ${connections.length} hostile connections over ${way}, each followed by a valid request`,
      async (t) => {
        const opened = await open(t, way);
        if (opened === null) return;
        const wrong: string[] = [];
        for (const [name, bytes, expected, end] of connections) {
          await check(way, opened, [bytes], expected, end).catch((error: Error) =>
            wrong.push(`${name}: ${error.message}`),
          );
        }
        assert.deepEqual(wrong, []);
      },
    );

    // What comes in so many pieces is read by Node's parser in any case.
    const bytewise = way === 'tls' ? inLong : once;
    bytewise(`the gateway over ${way} gives the same answers if every byte arrives alone`, async (t) => {
      const opened = await open(t, way);
      if (opened === null) return;
      for (const [name, bytes, expected, end] of isLong ? connections : gatewayOnly) {
        if (bytes.length > 400) continue;
        await check(way, opened, bytes.split(''), expected, end).catch((cause: unknown) => {
          throw new Error(`differs in pieces: ${name}`, { cause });
        });
      }
    });

    further(`the gateway answers slow headers, slow bodies and silence over ${way} with 408`, async (t) => {
      const opened = await open(t, way, { headersTimeoutMs: 500, eventsUploadMs: 700 });
      if (opened === null) return;
      for (const bytes of [
        '',
        'POST /v1',
        post(e, row).slice(0, -1),
        chunked(e, [row]).slice(0, -3),
        chunked(sql, [select]).slice(0, -3),
      ]) {
        const client = await RawClient.connect(opened.port, way);
        client.send(bytes);
        assert.deepEqual(await answers(client, opened, 1), ['408 request_timeout'], bytes);
        await client.closed;
        client.destroy();
      }
      await check(way, opened, [post(e, row)], ['200'], 'stays');
    });

    further(`a gateway request over ${way} that is reset at any byte stores nothing`, async (t) => {
      const opened = await open(t, way);
      if (opened === null) return;
      for (const request of [post(e, row, 'Expect: 100-continue\r\n'), chunked(e, ['{"n', '":1}'])]) {
        for (let cut = 0; cut < request.length; cut += 5) {
          const client = await RawClient.connect(opened.port, way);
          client.send(request.slice(0, cut));
          await new Promise((resolve) => client.socket.write('', resolve));
          client.reset();
        }
      }
      await check(way, opened, [post(e, row)], ['200'], 'stays');
    });

    further(`a reset connection over ${way} ends all of its pipelined gateway requests`, async (t) => {
      const opened = await open(t, way);
      if (opened === null) return;
      const sleep = post(sql, 'SELECT pg_sleep(0.3)');
      for (const behind of [
        post(sql, select).repeat(5),
        post(e, row).slice(0, -2),
        chunked(e, [row]).slice(0, -4),
        'x',
      ]) {
        const client = await RawClient.connect(opened.port, way);
        client.send(sleep + behind);
        while (opened.gateway.door.load.requests === 0) await new Promise(setImmediate);
        client.reset();
        await client.closed;
      }
    });

    byEach(
      `a draining gateway over ${way} answers running requests, begins none, and ends idle connections and handshakes`,
      async (t) => {
        const opened = await open(t, way);
        if (opened === null) return;
        const [idle, running] = [
          await RawClient.connect(opened.port, way),
          await RawClient.connect(opened.port, way),
        ];
        const shaking = connect({ port: opened.port, host: '127.0.0.1' });
        await emitted(shaking, 'connect');
        const ended = emitted(shaking, 'close');
        // Until its sender goes on, nothing but its first lines is there.
        running.send(post(e, row).slice(0, -1));
        await check(way, opened, [post(e, row)], ['200'], 'stays');
        const drained = opened.gateway.door.drain();
        running.send(`}${post(e, row)}`);
        const got = await answers(running, opened, 2);
        assert(['200', '200,503 draining'].includes(got.join()), got.join());
        await Promise.all([idle.closed, running.closed, ended]);
        await drained;
        await assert.rejects(RawClient.connect(opened.port, way));
      },
    );
  });
}

test('a gateway with TLS ends connections without a TLS handshake and still serves others', async (t) => {
  const opened = await open(t, 'tls', { headersTimeoutMs: 500 });
  if (opened === null) return;
  const strangers = [post(e, row), '\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00', 'x'.repeat(50), ''];
  for (const bytes of strangers) {
    const stranger = connect({ port: opened.port, host: '127.0.0.1' });
    let read = '';
    stranger.on('error', () => undefined);
    stranger.on('data', (data) => (read += data.toString('latin1')));
    if (bytes !== '') stranger.write(bytes, 'latin1');
    await emitted(stranger, 'close');
    assert.doesNotMatch(read, /HTTP/);
  }
  await check('tls', opened, [post(e, row)], ['200'], 'stays');
});

test('the gateway at localhost listens on both loopback addresses', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), { host: 'localhost' });
  const { port } = gateway.door.address;
  const found = await lookup('localhost', { all: true });
  assert(found.length > 0);
  for (const { address, family } of found) {
    const name = family === 6 ? `[${address}]` : address;
    const { status } = await fetch(`http://${name}:${port}/v1/healthz`);
    assert.equal(status, 200, name);
  }
});

test('the gateway answers HEAD without a body, also where it cannot read the request', async (t) => {
  const opened = await open(t, 'tcp');
  assert(opened !== null);
  const head = (...lines: string[]) => `HEAD ${sql} HTTP/1.1\r\nHost: h\r\n${lines.join('\r\n')}\r\n\r\n`;
  const cases: [bytes: string, status: number][] = [
    [head(`X: ${'x'.repeat(20_000)}`), 431],
    [`HEAD /${'x'.repeat(30_000)}`, 414],
    [head('nonsense'), 400],
    [head('Authorization: Bearer a', 'Authorization: Bearer b'), 400],
    [`${head('Transfer-Encoding: chunked')}zz\r\n`, 400],
    [head('Connection: close'), 405],
  ];
  for (const [bytes, status] of cases) {
    const client = await RawClient.connect(opened.port);
    client.send(bytes);
    await client.closed;
    assert.match(client.unread, new RegExp(`^HTTP/1.1 ${status} [^]*\\r\\n\\r\\n$`), bytes.slice(0, 60));
    client.destroy();
  }
});

test('unfinished bodies at the gateway give way to bodies of other addresses', async (t) => {
  const trustedProxies = Networks.parse('127.0.0.1');
  assert(trustedProxies instanceof Networks);
  const believed = {
    trustedProxies,
    forwardedHeader: 'x-forwarded-for',
  } as const;
  const opened = await open(t, 'tcp', { gatewayBodiesBytesMax: 1024 * 1024 }, openGate(believed));
  assert(opened !== null);
  const begun = (announced: number) =>
    post(e, ' '.repeat(100_000), 'X-Forwarded-For: 198.51.100.1\r\n').replace(/100000/, String(announced));
  const slow = await Promise.all(Array.from({ length: 10 }, () => RawClient.connect(opened.port)));
  // One after the other, so that those who began first are the first here.
  for (const [i, client] of slow.entries()) {
    client.send(begun(i % 2 === 0 ? 200_000 : 5_000_000));
    while (opened.gateway.door.load.bytesInFlight < (i + 1) * 100_000) await new Promise(setImmediate);
  }
  await check('tcp', opened, [post(e, row + ' '.repeat(250_000))], ['200'], 'stays');
  const refused = slow.slice(0, 3).map((client) => answers(client, opened, 1));
  assert.deepEqual(await Promise.race(refused), ['429 sender_overloaded']);
  for (const client of slow) client.destroy();
});
