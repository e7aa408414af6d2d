import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { testTls } from '../../test/support/certificates.ts';
import { chunked, post, RawClient } from '../../test/support/raw-http.ts';
import { streamRooms } from '../../test/support/streams.ts';
import type { TestListener } from '../../test/support/test-listener.ts';
import { startListener } from '../../test/support/test-listener.ts';
import { createStreams } from '../ingest/ingest-stream.ts';

const t = '/webhook/dev/public/t';
const none = '/webhook/dev/public/none';
const ingest = '/ingest/dev/public/t';
const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`;
const head = (start: string, ...rest: string[]) => lines(start, 'Host: h', ...rest);
const upgrade = (path: string, ...rest: string[]) =>
  head(`GET ${path} HTTP/1.1`, 'Connection: keep-alive, Upgrade', 'Upgrade: websocket', ...rest);
const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
const handshake = ['Sec-WebSocket-Version: 13', key];
const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n';

/** Without the last chunk: whether a body that has come to its end was refused before is a matter of turns. */
const unended = (message: string) => message.slice(0, -'0\r\n\r\n'.length);

/** Name, bytes of one connection, its answers in order (`200` or `status code`), and whether the connection is then closed. */
const cases: [name: string, bytes: string, answers: string[], end: 'closes' | 'stays' | `sends ${number}`][] = [
  // What is good.
  ['a POST', post(t, '{}'), ['200'], 'stays'],
  ['a POST with a query', post(`${t}?a=b/c#`.replace('#', ''), '{}'), ['200'], 'stays'],
  ['an empty body', post(t, ''), ['200'], 'stays'],
  ['chunked', chunked(t, ['{"a', '":1}']), ['200'], 'stays'],
  ['chunked, with trailers that are ignored', chunked(t, ['{}'], '', 'X-Late: 1\r\n'), ['200'], 'stays'],
  ['chunked, with chunk extensions', chunked(t, []).replace('0\r\n', '2;a=b\r\n{}\r\n0\r\n'), ['200'], 'stays'],
  ['Transfer-Encoding: CHUNKED', chunked(t, ['{}']).replace('chunked', 'CHUNKED'), ['200'], 'stays'],
  ['Content-Encoding: identity', post(t, '{}', 'Content-Encoding: identity\r\n'), ['200'], 'stays'],
  ['the absolute form', post(`http://h${t}`, '{}'), ['200'], 'stays'],
  ['a blank line before the request', `\r\n${post(t, '{}')}`, ['200'], 'stays'],
  ['Expect: 100-continue', post(t, '{}', 'Expect: 100-continue\r\n'), ['100', '200'], 'stays'],
  ['HTTP/1.0', post(t, '{}').replace('HTTP/1.1', 'HTTP/1.0'), ['200'], 'closes'],
  ['HTTP/1.0 without Host', post(t, '{}').replace('1.1\r\nHost: h', '1.0'), ['200'], 'closes'],
  ['Connection: close', post(t, '{}', 'Connection: close\r\n'), ['200'], 'closes'],
  ['three pipelined, answered in order', post(t, '1') + post(none, '2') + post(t, '3'), ['200', '404 not_found', '200'], 'stays'],
  ['a body that looks like a request', post(t, post(t, '{}')), ['200'], 'stays'],
  ['a POST that offers h2c', post(t, '{}', 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n'), ['200'], 'stays'],
  ['200 headers', post(t, '{}', 'X: 1\r\n'.repeat(198)), ['200'], 'stays'],
  ['OPTIONS', head(`OPTIONS ${t} HTTP/1.1`, 'Origin: https://a', 'Access-Control-Request-Headers: x-a, content-type'), ['204'], 'stays'],


  // Other paths and methods.
  ['no such table', post(none, '{}'), ['404 not_found'], 'stays'],
  ['another path', post('/', '{}'), ['404 not_found'], 'stays'],
  ['the prefix alone', post('/webhook', '{}'), ['404 not_found'], 'stays'],
  ['a part too few', post('/webhook/dev/public', '{}'), ['404 not_found'], 'stays'],
  ['a part too many', post(`${t}/x`, '{}'), ['404 not_found'], 'stays'],
  ['dot segments', post('/webhook/dev/../t', '{}'), ['404 not_found'], 'stays'],
  ['a fragment in the target', post(`${t}#x`, '{}'), ['400 malformed_path'], 'stays'],
  ['a broken escape', post('/webhook/dev/public/%zz', '{}'), ['400 malformed_path'], 'stays'],
  ['an escape that is not UTF-8', post('/webhook/dev/public/%ff', '{}'), ['400 malformed_path'], 'stays'],
  ['GET', head(`GET ${t} HTTP/1.1`), ['405 method_not_allowed'], 'stays'],
  ['PUT with a small body', post(t, '{}').replace('POST', 'PUT'), ['405 method_not_allowed'], 'stays'],
  ['GET elsewhere', head('GET /metrics HTTP/1.1'), ['404 not_found'], 'stays'],
  ['OPTIONS *', head('OPTIONS * HTTP/1.1'), ['404 not_found'], 'stays'],
  ['CONNECT', head('CONNECT a:443 HTTP/1.1'), ['405 method_not_allowed'], 'closes'],
  ['CONNECT to the WebSocket door', head('CONNECT /ingest/dev/public/t HTTP/1.1', 'Upgrade: websocket', 'Connection: Upgrade', ...handshake), ['405 method_not_allowed'], 'closes'],

  // What does not become a WebSocket.
  ['an upgrade without a key', upgrade(ingest, 'Sec-WebSocket-Version: 13'), ['400 malformed_request'], 'stays'],
  ['a key that is too short', upgrade(ingest, 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAA'), ['400 malformed_request'], 'stays'],
  ['two keys', upgrade(ingest, ...handshake, 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='), ['400 malformed_request'], 'stays'],
  ['another version', upgrade(ingest, 'Sec-WebSocket-Version: 8', key), ['426 upgrade_required'], 'stays'],
  ['no version', upgrade(ingest, key), ['426 upgrade_required'], 'stays'],
  ['no upgrade at all', head(`GET ${ingest} HTTP/1.1`), ['426 upgrade_required'], 'stays'],
  ['an upgrade that Connection does not name', head(`GET ${ingest} HTTP/1.1`, 'Upgrade: websocket', ...handshake), ['426 upgrade_required'], 'stays'],
  ['an upgrade to h2c there', upgrade(ingest, ...handshake).replace('websocket', 'h2c'), ['426 upgrade_required'], 'stays'],
  ['an upgrade to one of two', upgrade(ingest, ...handshake).replace('websocket', 'h2c, websocket'), ['426 upgrade_required'], 'stays'],
  ['POST there', post(ingest, '{}'), ['426 upgrade_required'], 'stays'],
  ['OPTIONS there', head(`OPTIONS ${ingest} HTTP/1.1`), ['426 upgrade_required'], 'stays'],
  ['an upgrade by POST, with a body', post(ingest, '{}', lines('Connection: Upgrade', 'Upgrade: websocket', ...handshake).slice(0, -2)), ['426 upgrade_required'], 'stays'],
  ['an upgrade with a body', upgrade(ingest, ...handshake, 'Content-Length: 2') + '{}', ['400 malformed_request'], 'stays'],
  ['an upgrade in HTTP/1.0', upgrade(ingest, ...handshake).replace('HTTP/1.1', 'HTTP/1.0'), ['426 upgrade_required'], 'stays'],
  ['an upgrade with two Hosts', upgrade(ingest, ...handshake, 'Host: h'), ['400 malformed_request'], 'closes'],
  ['an upgrade from a page', upgrade(ingest, ...handshake, 'Origin: https://evil.example'), ['403 origin_refused'], 'stays'],
  ['an upgrade from a sandboxed page', upgrade(ingest, ...handshake, 'Origin: null'), ['403 origin_refused'], 'stays'],
  ['an upgrade to a path that names no table', upgrade('/ingest/dev/public', ...handshake), ['404 not_found'], 'stays'],
  ['an upgrade to a broken path', upgrade('/ingest/dev/public/%zz', ...handshake), ['400 malformed_path'], 'stays'],
  ['an upgrade elsewhere', upgrade('/', ...handshake), ['404 not_found'], 'stays'],
  ['an upgrade of a webhook path', upgrade(t, ...handshake), ['405 method_not_allowed'], 'stays'],
  ['a POST that offers a WebSocket', post(t, '{}', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'), ['200'], 'stays'],
  ['two pipelined POSTs that offer h2c', post(t, '1', h2c) + post(t, '2', h2c), ['200', '200'], 'stays'],
  ['a chunked POST that offers h2c, then another', chunked(t, ['{"a', '":1}'], h2c) + post(t, '2'), ['200', '200'], 'stays'],
  ['a POST that offers h2c and expects', post(t, '{}', `${h2c}Expect: 100-continue\r\n`), ['100', '200'], 'stays'],
  ['a GET that offers h2c, then a POST', head(`GET ${t} HTTP/1.1`, h2c.trimEnd()) + post(t, '2'), ['405 method_not_allowed', '200'], 'stays'],

  ['an engine that is away', post('/webhook/dev/public/away', '{}'), ['503 engine_unavailable'], 'stays'],
  ['a bug', post('/webhook/dev/public/broken', '{}'), ['500 internal'], 'stays'],

  // Bodies.
  ['no length', head(`POST ${t} HTTP/1.1`), ['411 length_required'], 'stays'],
  ['too large by its length, unsent', head(`POST ${t} HTTP/1.1`, 'Content-Length: 1025'), ['413 body_too_large'], 'sends 1025'],
  ['too large by its length, sent', post(t, 'x'.repeat(1025)), ['413 body_too_large'], 'stays'],
  ['far too large, unsent', head(`POST ${t} HTTP/1.1`, 'Content-Length: 999999999999'), ['413 body_too_large'], 'closes'],
  ['far too large to count', head(`POST ${t} HTTP/1.1`, `Content-Length: ${'9'.repeat(40)}`), ['400 malformed_request'], 'closes'],
  ['chunks that become too large', unended(chunked(t, ['x'.repeat(600), 'x'.repeat(600)])), ['413 body_too_large'], 'closes'],
  ['a chunk far too large', `${head(`POST ${t} HTTP/1.1`, 'Transfer-Encoding: chunked')}fffffff\r\n${'x'.repeat(2000)}`, ['413 body_too_large'], 'closes'],
  ['unread chunks behind a 404', unended(chunked(none, ['x'.repeat(600)])), ['404 not_found'], 'closes'],
  ['Content-Encoding: zstd', post(t, '{}', 'Content-Encoding: zstd\r\n'), ['415 encoding_unsupported'], 'stays'],
  ['Content-Encoding: constructor', post(t, '{}', 'Content-Encoding: constructor\r\n'), ['415 encoding_unsupported'], 'stays'],
  ['Content-Encoding of three', post(t, '{}', 'Content-Encoding: gzip, br\r\nContent-Encoding: gzip\r\n'), ['415 encoding_unsupported'], 'stays'],
  ['Content-Encoding: gzip that is none', post(t, '{}', 'Content-Encoding: gzip\r\n'), ['400 malformed_encoding'], 'stays'],
  ['Content-Encoding: gzip of nothing', post(t, '', 'Content-Encoding: gzip\r\n'), ['400 malformed_encoding'], 'stays'],
  ['Content-Encoding for no such table', post(none, '{}', 'Content-Encoding: gzip\r\n'), ['404 not_found'], 'stays'],
  ['Expect with a body too large', head(`POST ${t} HTTP/1.1`, 'Expect: 100-continue', 'Content-Length: 9999'), ['413 body_too_large'], 'closes'],
  ['Expect for no such table', head(`POST ${none} HTTP/1.1`, 'Expect: 100-continue', 'Content-Length: 2'), ['404 not_found'], 'closes'],
  ['another expectation', post(t, '{}', 'Expect: coffee\r\n'), ['417 expectation_failed'], 'closes'],

  // Broken HTTP.
  ['no HTTP at all', 'hello\r\n\r\n', ['400 malformed_request'], 'closes'],
  ['a TLS client hello', '\x16\x03\x01\x02\x00\x01\x00', ['400 malformed_request'], 'closes'],
  ['HTTP/0.9', `POST ${t}\r\n\r\n`, ['400 malformed_request'], 'closes'],
  ['HTTP/2.0 in words', post(t, '{}').replace('HTTP/1.1', 'HTTP/2.0'), ['400 malformed_request'], 'closes'],
  ['HTTP/1.2', post(t, '{}').replace('HTTP/1.1', 'HTTP/1.2'), ['400 malformed_request'], 'closes'],
  ['an unknown method', post(t, '{}').replace('POST', 'BREW'), ['400 malformed_request'], 'closes'],
  ['no Host', post(t, '{}').replace('Host: h\r\n', ''), ['400 malformed_request'], 'closes'],
  ['two Hosts', post(t, '{}', 'host: h\r\n'), ['400 malformed_request'], 'closes'],
  ['two lengths', post(t, '{}', 'Content-Length: 2\r\n'), ['400 malformed_request'], 'closes'],
  ['a signed length', post(t, '{}').replace('Length: 2', 'Length: +2'), ['400 malformed_request'], 'closes'],
  ['a list of lengths', post(t, '{}').replace('Length: 2', 'Length: 2, 2'), ['400 malformed_request'], 'closes'],
  ['length and chunked', chunked(t, ['{}'], 'Content-Length: 2\r\n'), ['400 malformed_request'], 'closes'],
  ['chunked and length', chunked(t, ['{}']).replace('chunked', 'chunked\r\nContent-Length: 2'), ['400 malformed_request'], 'closes'],
  ['TE: gzip, chunked', chunked(t, ['{}']).replace('chunked', 'gzip, chunked'), ['415 encoding_unsupported'], 'closes'],
  ['TE: chunked, gzip', chunked(t, ['{}']).replace('chunked', 'chunked, gzip'), ['400 malformed_request'], 'closes'],
  ['TE: chunked twice', chunked(t, ['{}'], 'Transfer-Encoding: chunked\r\n'), ['400 malformed_request'], 'closes'],
  ['TE: xchunked', chunked(t, ['{}']).replace('chunked', 'xchunked'), ['415 encoding_unsupported'], 'closes'],
  ['HTTP/1.0 and chunked', chunked(t, ['{}']).replace('HTTP/1.1', 'HTTP/1.0'), ['400 malformed_request'], 'closes'],
  ['a chunk size that is none', chunked(t, ['{}']).replace('2\r\n{}', 'zz\r\n{}'), ['400 malformed_request'], 'closes'],
  ['a chunk longer than it says', chunked(t, ['{}']).replace('2\r\n{}', '1\r\n{}'), ['400 malformed_request'], 'closes'],
  ['a negative chunk', chunked(t, ['{}']).replace('2\r\n{}', '-2\r\n{}'), ['400 malformed_request'], 'closes'],
  ['a space before the colon', post(t, '{}', 'X-A : b\r\n'), ['400 malformed_request'], 'closes'],
  ['a header line without colon', post(t, '{}', 'nonsense\r\n'), ['400 malformed_request'], 'closes'],
  ['a folded header', post(t, '{}', 'X-A: b\r\n c\r\n'), ['400 malformed_request'], 'closes'],
  ['a NUL in a header', post(t, '{}', 'X-A: b\0c\r\n'), ['400 malformed_request'], 'closes'],
  ['a lone CR in a header', post(t, '{}', 'X-A: b\rc\r\n'), ['400 malformed_request'], 'closes'],
  ['a lone LF in a header', post(t, '{}', 'X-A: b\nContent-Length: 5\r\n'), ['400 malformed_request'], 'closes'],
  ['a space in the target', post(`${t} x`, '{}'), ['400 malformed_request'], 'closes'],
  ['201 headers', post(t, '{}', 'X: 1\r\n'.repeat(199)), ['431 headers_too_large'], 'closes'],
  ['3,000 headers', post(t, '{}', 'X:\r\n'.repeat(3000)), ['431 headers_too_large'], 'closes'],
  ['a header too long', post(t, '{}', `X: ${'x'.repeat(20_000)}\r\n`), ['431 headers_too_large'], 'closes'],
  ['a target too long', post(`${t}?${'x'.repeat(9_000)}`, '{}'), ['414 path_too_long'], 'closes'],
  ['a target far too long', `POST ${t}?${'x'.repeat(30_000)}`, ['414 path_too_long'], 'closes'],
  ['garbage behind a good request', `${post(t, '{}')}\x01\x02`, ['200', '400 malformed_request'], 'closes'],
  ['garbage behind two good ones', `${post(t, '1')}${post(none, '2')}garbage\r\n\r\n`, ['200', '404 not_found', '400 malformed_request'], 'closes'],
  ['a refused one with half its body, behind two', post(t, '1') + chunked(t, ['2']) + head(`POST ${none} HTTP/1.1`, 'Content-Length: 5') + 'xx', ['200', '200', '404 not_found'], 'sends 3'],
  ['a good request behind a refused one', post(t, '{}', 'host: h\r\n') + post(t, '{}'), ['400 malformed_request'], 'closes'],
]; // prettier-ignore

/** Each of these is asked over all of them. */
const ways = ['tcp', 'tls', "tcp, Node's parser alone", "tls, Node's parser alone"] as const;
type Way = (typeof ways)[number];
const servers: { [way in Way]?: TestListener } = {};
const overOf = (way: Way) => (way.startsWith('tls') ? 'tls' : 'tcp');
let tls: Awaited<ReturnType<typeof testTls>> = null;
before(async () => {
  const limits = { lingerMs: 200 };
  const openStream = createStreams(streamRooms());
  tls = await testTls();
  for (const way of ways) {
    const source = overOf(way) === 'tls' ? tls?.source : null;
    if (source === undefined) continue;
    const fastPath = !way.endsWith('alone');
    servers[way] = await startListener({
      limits,
      openStream,
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
  test(`${name}: ${answers.join(', ')}, ${end}`, () => check([bytes], answers, end));
}

test('the same answers when every byte comes alone', async () => {
  for (const [name, bytes, answers, end] of cases) {
    if (bytes.length > 700) continue;
    // What comes in so many pieces is read by Node's parser in any case.
    await check(bytes.split(''), answers, end, ['tcp', 'tls']).catch((cause: unknown) => {
      throw new Error(`differs in pieces: ${name}`, { cause });
    });
  }
});

test('HEAD is answered without a body, also where it cannot be read', async () => {
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
