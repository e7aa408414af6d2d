import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createDelivery, networkFor, publicNetwork } from '../access/outgoing.ts';
import { problemOf, retryAfterOf } from './deliveries.ts';
import { keyOf, receiver } from './plan.ts';

const bounds = { outgoingMs: 5_000, outgoingBytesMax: 65_536 };
const body = { type: 'application/json', text: '{}' };

test('headgate deliver calls only hosts that the setting lists', () => {
  const hosts = ['hooks.example.com:443', '127.0.0.1:3000', '[::1]:3000'];
  for (const good of ['https://hooks.example.com/a?b=c', 'http://127.0.0.1:3000/', 'http://[::1]:3000/'])
    assert.equal(receiver(good, hosts).href, good);
  for (const bad of [
    'https://hooks.example.com:444/',
    'http://hooks.example.com/',
    'https://hooks.example.com.evil.example/',
    'https://evil.example/?hooks.example.com:443',
    'https://hooks.example.com@evil.example/',
    'https://user:p@hooks.example.com/',
    'https://hooks.example.com/#x',
    'ftp://hooks.example.com/',
    'http://2130706433:3001/',
    'no url',
  ])
    assert.throws(() => receiver(bad, hosts), /no https|does not list/, bad);
});

test('headgate deliver calls a listed name at public addresses, and at others only in a listed network', () => {
  const secret = [
    '127.0.0.1',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '::1',
    '::',
    '::ffff:127.0.0.1',
    '::ffff:169.254.169.254',
    '::ffff:a00:1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'fe80::1',
    'fc00::1',
    'ff02::1',
    'not an address',
  ];
  const open = networkFor(new URL('https://hooks.example.com/'), null);
  for (const address of secret) assert.equal(open.isAllowed(address), false, address);
  assert.equal(open.isAllowed('8.8.8.8'), true);
  assert.equal(open.isAllowed('2606:4700::1111'), true);
  const listed = networkFor(new URL('https://hooks.internal/'), '10.0.0.0/8');
  assert.deepEqual(['10.1.2.3', '::ffff:10.1.2.3', '192.168.1.1'].map(listed.isAllowed), [true, true, false]);
  // Without TLS no public address.
  const plain = networkFor(new URL('http://hooks.example.com/'), null);
  assert.deepEqual(['8.8.8.8', '127.0.0.1'].map(plain.isAllowed), [false, false]);
  const literal = networkFor(new URL('http://127.0.0.1:3000/'), null);
  assert.deepEqual(['127.0.0.1', '127.0.0.2', '10.0.0.1'].map(literal.isAllowed), [true, false, false]);
});

test('headgate deliver resolves a name once, refuses it if one address is not allowed, and follows no redirect', async (t) => {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? '');
    response.writeHead(302, { location: 'http://127.0.0.1:1/elsewhere' }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const url = new URL(`http://hooks.example.com:${port}/hook`);
  const answers = [['127.0.0.1'], ['10.0.0.1']];
  let resolved = 0;
  const network = {
    ...networkFor(url, '127.0.0.1'),
    resolve: () => Promise.resolve(answers[resolved++] ?? []),
  };
  const post = createDelivery(network, bounds);
  const { status } = await post(url, { method: 'POST', body });
  assert.deepEqual([status, resolved, paths], [302, 1, ['/hook']]);
  // The next lookup has another answer: refused, and nobody called.
  await assert.rejects(post(url, { method: 'POST', body }), /no address that may be called/);
  const mixed = { ...network, resolve: () => Promise.resolve(['127.0.0.1', '::ffff:10.0.0.1']) };
  await assert.rejects(createDelivery(mixed, bounds)(url, { method: 'POST', body }), /no address/);
  assert.equal(paths.length, 1);
});

test('headgate deliver resolves a name once for concurrent calls, and again for later ones', async () => {
  const first = publicNetwork.resolve('localhost');
  assert.equal(publicNetwork.resolve('localhost'), first);
  assert.ok((await first).length > 0);
  const next = publicNetwork.resolve('localhost');
  assert.notEqual(next, first);
  await next;
  await assert.rejects(publicNetwork.resolve('no such name'));
  await assert.rejects(publicNetwork.resolve('no such name'));
});

test('headgate deliver reports a receiver that answers 101', async (t) => {
  const server = createServer((_, response) => {
    response.writeHead(101, { connection: 'Upgrade', upgrade: 'websocket' }).flushHeaders();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const post = createDelivery(networkFor(url, null), bounds);
  await assert.rejects(post(url, { method: 'POST', body }), /it answered 101/);
});

for (const [what, head, part] of [
  ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  [
    'extensions of chunks',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    `1;x=${'x'.repeat(8_000)}\r\ny\r\n`,
  ],
] as const)
  test(`headgate deliver ends an endless answer of ${what}`, async (t) => {
    let wrote = 0;
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      const go = (): void => {
        while (!socket.destroyed && socket.write(part)) wrote += part.length;
      };
      socket.on('drain', go).once('data', () => {
        socket.write(head);
        go();
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const post = createDelivery(networkFor(url, null), { ...bounds, outgoingMs: 60_000 });
    await assert.rejects(post(url, { method: 'POST', body }), /the answer is too large/);
    assert.ok(wrote > 0);
  });

test('headgate deliver reads Retry-After as seconds or a date, with a bound', () => {
  const of = (text: string) => retryAfterOf({ headers: { 'retry-after': text } }, Date.UTC(2026, 0, 1));
  assert.deepEqual(
    [
      '7',
      '999999999',
      'Thu, 01 Jan 2026 00:01:00 GMT',
      'Wed, 31 Dec 2025 00:00:00 GMT',
      '-1',
      'soon',
      '',
    ].map(of),
    [7, 86_400, 60, 0, 0, 0, 0],
  );
});

test('headgate deliver accepts secrets of Standard Webhooks', () => {
  assert.equal(keyOf(`whsec_${Buffer.alloc(24, 1).toString('base64')}\n`).length, 24);
  for (const bad of [
    '',
    'whsec_',
    'whsec_AAAA',
    Buffer.alloc(24).toString('base64'),
    'whsec_a b',
    `whsec_${'A'.repeat(200)}`,
  ])
    assert.throws(() => keyOf(bad), /whsec_/, bad);
});

test('headgate deliver never signs an id that could be read as another id and body', () => {
  assert.equal(problemOf('orders_42', '{}'), null);
  for (const id of ['', 'x.1700000000.{}', 'a b', 'a\r\nx: y', 'ä', 'a'.repeat(257)])
    assert.match(problemOf(id, '{}') ?? '', /its id/, id);
  assert.equal(problemOf('a', null), 'it has no body');
});
