import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { testTls } from '../../test/support/certificates.ts';
import { head, hostileConnections } from '../../test/support/bad-inputs/connections.ts';
import type { Connection } from '../../test/support/bad-inputs/connections.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { testStreams } from '../../test/support/streams.ts';
import type { TestListener } from '../../test/support/test-listener.ts';
import { startListener } from '../../test/support/test-listener.ts';

const t = '/webhook/dev/public/t';
const none = '/webhook/dev/public/none';
const ingest = '/ingest/dev/public/t';
const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`;
const upgrade = (path: string, ...rest: string[]) =>
  head(`GET ${path} HTTP/1.1`, 'Connection: keep-alive, Upgrade', 'Upgrade: websocket', ...rest);
const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
const handshake = ['Sec-WebSocket-Version: 13', key];

/** Without the last chunk: whether a body that has come to its end was refused before is a matter of turns. */
const unended = (message: string) => message.slice(0, -'0\r\n\r\n'.length);

/** What every door is asked, and what is the listener's own; `sends`: so many bytes of the refused body, and stays. */
const cases: Connection<'closes' | 'stays' | `sends ${number}`>[] = [
  ...hostileConnections({ good: t, body: '{}', nowhere: none, missing: '404 not_found' }),

  // What is good.
  ['a POST with a query', post(`${t}?a=b/c#`.replace('#', ''), '{}'), ['200'], 'stays'],
  ['an empty body', post(t, ''), ['200'], 'stays'],
  ['a body that looks like a request', post(t, post(t, '{}')), ['200'], 'stays'],
  ['an OPTIONS request of a web page', head(`OPTIONS ${t} HTTP/1.1`, 'Origin: https://a', 'Access-Control-Request-Headers: x-a, content-type'), ['204'], 'stays'],


  // Other paths and methods.
  ['a POST to an unknown table', post(none, '{}'), ['404 not_found'], 'stays'],
  ['a POST to the prefix /webhook alone', post('/webhook', '{}'), ['404 not_found'], 'stays'],
  ['a path without a table', post('/webhook/dev/public', '{}'), ['404 not_found'], 'stays'],
  ['a path with a part behind the table', post(`${t}/x`, '{}'), ['404 not_found'], 'stays'],
  ['a path with dot segments', post('/webhook/dev/../t', '{}'), ['404 not_found'], 'stays'],
  ['a fragment in the target', post(`${t}#x`, '{}'), ['400 malformed_path'], 'stays'],
  ['a path with a broken escape', post('/webhook/dev/public/%zz', '{}'), ['400 malformed_path'], 'stays'],
  ['a path with an escape that is not UTF-8', post('/webhook/dev/public/%ff', '{}'), ['400 malformed_path'], 'stays'],
  ['GET of another path', head('GET /metrics HTTP/1.1'), ['404 not_found'], 'stays'],
  ['OPTIONS *', head('OPTIONS * HTTP/1.1'), ['404 not_found'], 'stays'],
  ['CONNECT to the WebSocket door', head('CONNECT /ingest/dev/public/t HTTP/1.1', 'Upgrade: websocket', 'Connection: Upgrade', ...handshake), ['405 method_not_allowed'], 'closes'],

  // What does not become a WebSocket.
  ['an upgrade without a key', upgrade(ingest, 'Sec-WebSocket-Version: 13'), ['400 malformed_request'], 'stays'],
  ['an upgrade with a key that is too short', upgrade(ingest, 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAA'), ['400 malformed_request'], 'stays'],
  ['an upgrade with two keys', upgrade(ingest, ...handshake, 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='), ['400 malformed_request'], 'stays'],
  ['an upgrade to another WebSocket version', upgrade(ingest, 'Sec-WebSocket-Version: 8', key), ['426 upgrade_required'], 'stays'],
  ['an upgrade without a WebSocket version', upgrade(ingest, key), ['426 upgrade_required'], 'stays'],
  ['GET of a WebSocket path without an upgrade', head(`GET ${ingest} HTTP/1.1`), ['426 upgrade_required'], 'stays'],
  ['an upgrade missing in the header Connection', head(`GET ${ingest} HTTP/1.1`, 'Upgrade: websocket', ...handshake), ['426 upgrade_required'], 'stays'],
  ['an upgrade to h2c on a WebSocket path', upgrade(ingest, ...handshake).replace('websocket', 'h2c'), ['426 upgrade_required'], 'stays'],
  ['an upgrade to h2c or WebSocket', upgrade(ingest, ...handshake).replace('websocket', 'h2c, websocket'), ['426 upgrade_required'], 'stays'],
  ['POST to a WebSocket path', post(ingest, '{}'), ['426 upgrade_required'], 'stays'],
  ['OPTIONS of a WebSocket path', head(`OPTIONS ${ingest} HTTP/1.1`), ['426 upgrade_required'], 'stays'],
  ['an upgrade by POST, with a body', post(ingest, '{}', lines('Connection: Upgrade', 'Upgrade: websocket', ...handshake).slice(0, -2)), ['426 upgrade_required'], 'stays'],
  ['an upgrade with a body', upgrade(ingest, ...handshake, 'Content-Length: 2') + '{}', ['400 malformed_request'], 'stays'],
  ['an upgrade in HTTP/1.0', upgrade(ingest, ...handshake).replace('HTTP/1.1', 'HTTP/1.0'), ['426 upgrade_required'], 'stays'],
  ['an upgrade with two Hosts', upgrade(ingest, ...handshake, 'Host: h'), ['400 malformed_request'], 'closes'],
  ['an upgrade from a web page', upgrade(ingest, ...handshake, 'Origin: https://evil.example'), ['403 origin_refused'], 'stays'],
  ['an upgrade from a sandboxed web page', upgrade(ingest, ...handshake, 'Origin: null'), ['403 origin_refused'], 'stays'],
  ['an upgrade to a path that names no table', upgrade('/ingest/dev/public', ...handshake), ['404 not_found'], 'stays'],
  ['an upgrade to a broken path', upgrade('/ingest/dev/public/%zz', ...handshake), ['400 malformed_path'], 'stays'],
  ['an upgrade of another path', upgrade('/', ...handshake), ['404 not_found'], 'stays'],
  ['an upgrade of a webhook path', upgrade(t, ...handshake), ['405 method_not_allowed'], 'stays'],
  ['a POST that offers a WebSocket', post(t, '{}', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'), ['200'], 'stays'],

  ['a POST while the engine is away', post('/webhook/dev/public/away', '{}'), ['503 engine_unavailable'], 'stays'],
  ['a POST that meets a bug', post('/webhook/dev/public/broken', '{}'), ['500 internal'], 'stays'],

  // Bodies.
  ['a POST without a length', head(`POST ${t} HTTP/1.1`), ['411 length_required'], 'stays'],
  ['a body too large by its length, unsent', head(`POST ${t} HTTP/1.1`, 'Content-Length: 1025'), ['413 body_too_large'], 'sends 1025'],
  ['a body too large by its length, sent', post(t, 'x'.repeat(1025)), ['413 body_too_large'], 'stays'],
  ['chunks that become too large', unended(chunked(t, ['x'.repeat(600), 'x'.repeat(600)])), ['413 body_too_large'], 'closes'],
  ['a chunk far too large', `${head(`POST ${t} HTTP/1.1`, 'Transfer-Encoding: chunked')}fffffff\r\n${'x'.repeat(2000)}`, ['413 body_too_large'], 'closes'],
  ['a chunked body for an unknown table', unended(chunked(none, ['x'.repeat(600)])), ['404 not_found'], 'closes'],
  ['Content-Encoding: zstd', post(t, '{}', 'Content-Encoding: zstd\r\n'), ['415 encoding_unsupported'], 'stays'],
  ['three content codings', post(t, '{}', 'Content-Encoding: gzip, br\r\nContent-Encoding: gzip\r\n'), ['415 encoding_unsupported'], 'stays'],
  ['Content-Encoding: gzip with a plain body', post(t, '{}', 'Content-Encoding: gzip\r\n'), ['400 malformed_encoding'], 'stays'],
  ['Content-Encoding: gzip with an empty body', post(t, '', 'Content-Encoding: gzip\r\n'), ['400 malformed_encoding'], 'stays'],
  ['Expect: 100-continue with a body too large', head(`POST ${t} HTTP/1.1`, 'Expect: 100-continue', 'Content-Length: 9999'), ['413 body_too_large'], 'closes'],

  // Broken HTTP.
  ['a target far too long', `POST ${t}?${'x'.repeat(30_000)}`, ['414 path_too_long'], 'closes'],
  ['garbage behind two requests', `${post(t, '1')}${post(none, '2')}garbage\r\n\r\n`, ['200', '404 not_found', '400 malformed_request'], 'closes'],
  ['half a body to an unknown table behind two requests', post(t, '1') + chunked(t, ['2']) + head(`POST ${none} HTTP/1.1`, 'Content-Length: 5') + 'xx', ['200', '200', '404 not_found'], 'sends 3'],
]; // prettier-ignore

/** Each of these is asked over all of them. */
const ways = ['tcp', 'tls', "tcp, Node's parser alone", "tls, Node's parser alone"] as const;
type Way = (typeof ways)[number];
const servers: { [way in Way]?: TestListener } = {};
const overOf = (way: Way) => (way.startsWith('tls') ? 'tls' : 'tcp');
let tls: Awaited<ReturnType<typeof testTls>> = null;
before(async () => {
  const limits = { lingerMs: 200 };
  const streams = testStreams();
  tls = await testTls();
  for (const way of ways) {
    const source = overOf(way) === 'tls' ? tls?.source : null;
    if (source === undefined) continue;
    const fastPath = !way.endsWith('alone');
    servers[way] = await startListener({
      limits,
      streams,
      fastPath,
      ...(source === null ? {} : { tls: source }),
    });
  }
});
after(async () => {
  for (const way of ways) await servers[way]?.close();
  await tls?.close();
});

function summary(status: number, body: string): string {
  if (status < 300) {
    if (status === 200) assert.equal(body, '{"rows":1}');
    else assert.equal(body, '');
    return String(status);
  }
  const parsed = JSON.parse(body) as { error: string; code: string; request_id?: string };
  assert.equal(Object.keys(parsed).join(), status === 500 ? 'error,code,request_id' : 'error,code');
  assert.doesNotMatch(parsed.error, /webhook\/|\n|Error|a bug/);
  return `${status} ${parsed.code}`;
}

async function check(
  bytes: readonly string[],
  answers: readonly string[],
  end: string,
  over: readonly Way[] = ways,
): Promise<void> {
  // A TLS record ends where the parser's bound does: it overflows in bytes that do not show what they belong to.
  const beyondOneRecord = bytes.join('').length > 16_384;
  const secure = (answer: string) =>
    beyondOneRecord && answer === '414 path_too_long' ? '431 headers_too_large' : answer;
  for (const way of over)
    await checkOver(way, bytes, overOf(way) === 'tls' ? answers.map(secure) : answers, end);
}

async function checkOver(
  way: Way,
  bytes: readonly string[],
  answers: readonly string[],
  end: string,
): Promise<void> {
  const server = servers[way];
  if (server === undefined) return;
  const client = await RawClient.connect(server.port, overOf(way));
  for (const part of bytes) {
    client.send(part);
    await new Promise(setImmediate);
  }
  const got: string[] = [];
  for (const _ of answers) {
    const answer = await client.answer();
    if (answer === null) break;
    got.push(summary(answer.status, answer.body));
    if (answer.status >= 200) assert.match(answer.head, /^access-control-allow-origin: \*$/im);
    assert.equal(/^allow: POST$/im.test(answer.head), answer.status === 405);
    assert.equal(/^upgrade: websocket$/im.test(answer.head), answer.status === 426);
    assert.equal(/^sec-websocket-version: 13$/im.test(answer.head), answer.status === 426);
    assert.equal(/^retry-after: [1-5]$/im.test(answer.head), answer.status === 503);
  }
  assert.deepEqual(got, answers);
  if (end === 'closes') await client.closed;
  else {
    // The connection is sound: what follows is read as a request of its own.
    if (end.startsWith('sends')) client.send('x'.repeat(Number(end.slice(6))));
    client.send(post(t, '"next"'));
    assert.equal((await client.answer())?.status, 200);
    assert.equal(server.bodies.at(-1)?.toString(), '"next"');
  }
  assert.equal(client.unread, '');
  client.destroy();
  assert.equal(server.listener.load.bytesInFlight, 0);
}

for (const [name, bytes, answers, end] of cases) {
  const after = end === 'closes' ? 'closes the connection' : 'keeps the connection';
  test(`the listener answers ${name} with ${answers.join(', ')}, and ${after}`, () =>
    check([bytes], answers, end));
}

test('the listener gives the same answers when every byte arrives alone', async () => {
  for (const [name, bytes, answers, end] of cases) {
    if (bytes.length > 700) continue;
    // What comes in so many pieces is read by Node's parser in any case.
    await check(bytes.split(''), answers, end, ['tcp', 'tls']).catch((cause: unknown) => {
      throw new Error(`differs in pieces: ${name}`, { cause });
    });
  }
});

test('the listener answers HEAD without a body, also where it cannot read the request', async () => {
  const { port } = servers.tcp ?? assert.fail();
  const cases: [bytes: string, status: number][] = [
    [head(`HEAD ${t} HTTP/1.1`, `X: ${'x'.repeat(20_000)}`), 431],
    [`HEAD ${t}?${'x'.repeat(30_000)}`, 414],
    [head(`HEAD ${t} HTTP/1.1`, 'nonsense'), 400],
    [head(`HEAD ${t} HTTP/1.1`, 'Connection: close'), 405],
  ];
  for (const [bytes, status] of cases) {
    const client = await RawClient.connect(port);
    client.send(bytes);
    await client.closed;
    assert.match(client.unread, new RegExp(`^HTTP/1.1 ${status} [^]*\\r\\n\\r\\n$`), bytes.slice(0, 60));
    client.destroy();
  }
  const other = await RawClient.connect(port);
  other.send(post(t, '{}') + head(`PUT ${t} HTTP/1.1`, 'X: HEAD', 'nonsense'));
  assert.equal((await other.answer())?.status, 200);
  assert.match((await other.answer())?.body ?? '', /malformed_request/);
  other.destroy();
});
