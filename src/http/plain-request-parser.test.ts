import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { suite, test } from 'node:test';
import { fuzzRequests } from '../../test/support/fuzz-requests.ts';
import { seededRandom } from '../../test/support/random.ts';
import { post } from '../../test/support/raw-http.ts';
import { WholeRequest } from './plain-request.ts';
import { doubtful, more, PlainRequestParser } from './plain-request-parser.ts';

const path = '/webhook/dev/public/t';
const rules = {
  prefixes: ['/webhook/', '/v1/events'],
  headBytesMax: 500,
  targetBytesMax: 100,
  linesMax: 10,
  bodyBytesMax: 1_000,
};
const recogniser = new PlainRequestParser(rules);
const read = (text: string) => recogniser.read(Buffer.from(text, 'latin1'), 0);

function whole(text: string): WholeRequest {
  const bytes = Buffer.from(`before${text}behind`, 'latin1');
  assert.ok(recogniser.read(bytes, 6) > 0);
  return new WholeRequest(bytes.subarray(6), recogniser);
}

suite('the plain request parser recognises plain requests', () => {
  test('the plain request parser accepts typical webhooks and nothing else', () => {
    for (const good of [
      post(path, '{}'),
      post(`${path}?a=%20&b=(c)`, ''),
      post('/v1/events?name=t', '{}', 'Connection: close\r\n'),
      post(path, '{}', 'connection:Keep-Alive\r\nX:\t a\tb\r\n'),
      post(path, 'x'.repeat(1_000)),
      post(path, '{}', 'X: 1\r\n'.repeat(8)),
    ])
      assert.equal(read(good), good.indexOf('\r\n\r\n') + 4, good);
    for (const bad of [
      post('/other', '{}'),
      post(path, '{}').replace('POST', 'PUT'),
      post(path, '{}').replace('1.1', '1.0'),
      post(path, '{}').replace('POST ', 'POST  '),
      post(path, '{}').replace('Host: h', 'Host: h\r\nHost: h'),
      post(path, '{}').replace('Host: h\r\n', ''),
      post(path, '{}').replace('Host: h', 'Host:'),
      post(path, '{}').replace('Host: h', 'Host : h'),
      post(path, '{}').replace('Host: h', 'Host: h '),
      post(path, '{}').replace('Host: h', 'Host: h\r\n i'),
      post(path, '{}').replace('Host: h', 'Host: \xe9'),
      post(path, '{}').replaceAll('\r\n', '\n'),
      post(path, '{}', 'Content-Length: 2\r\n'),
      post(path, '{}').replace(': 2', ': 02'),
      post(path, '{}').replace(': 2', ': +2'),
      post(path, '{}').replace('Content-Length: 2\r\n', ''),
      post(path, 'x'.repeat(1_001)),
      post(path, '{}', 'X: 1\r\n'.repeat(9)),
      post(path, '{}', `X: ${'1'.repeat(450)}\r\n`),
      post(`/webhook/${'t'.repeat(100)}`, '{}'),
      post(`${path}#`, '{}'),
      ...['close, x', 'upgrade', 'close\r\nConnection: close'].map((it) =>
        post(path, '{}', `Connection: ${it}\r\n`),
      ),
      ...[
        'Transfer-Encoding: chunked',
        'Expect: 100-continue',
        'Upgrade: h2c',
        'Content-Encoding: gzip',
        'Trailer: x',
      ].map((it) => post(path, '{}', `${it}\r\n`)),
    ])
      // prettier-ignore
      assert.equal(read(bad), doubtful, bad);
  });

  test('the plain request parser waits for more bytes while the head is valid, up to a bound', () => {
    const good = post(path, '{}');
    const head = good.indexOf('\r\n\r\n') + 4;
    for (let cut = 0; cut < head; cut++) assert.equal(read(good.slice(0, cut)), more, String(cut));
    assert.equal(read(`POST ${path}?${'x'.repeat(90)}`), doubtful);
    assert.equal(read(`${good.slice(0, head - 2)}X: ${'x'.repeat(500 - head - 1)}`), doubtful);
    assert.equal(read('POST /webhook/a b'), doubtful);
    assert.equal(read('POST /x'), doubtful);
    assert.equal(read(`${good.slice(0, head - 2)}Transfer-Encoding: chunke`), more);
    assert.equal(read(`${good.slice(0, head - 2)}Transfer-Encoding: x\r`), doubtful);
  });
});

suite("a plain request's headers are those of Node", () => {
  test('a parsed plain request returns one header, or all headers as received', () => {
    const it = whole(post(path, '{}', 'X-One: 1\r\nX-Two: a\r\nx-two: b\r\n'));
    assert.deepEqual([it.url, it.method, it.body.toString(), it.closes], [path, 'POST', '{}', false]);
    assert.equal(it.header('x-one'), '1');
    assert.equal(it.header('x-two'), undefined);
    assert.equal(it.header('x-three'), null);
    assert.equal(it.header('X-One'), null);
    const lines = ['Host', 'h', 'X-One', '1', 'X-Two', 'a', 'x-two', 'b', 'Content-Length', '2'];
    assert.deepEqual(it.rawHeaders, lines);
    assert.equal(whole(post(path, '{}', 'Connection: close\r\n')).closes, true);
  });

  test('the plain request parser joins repeated headers as Node does', () => {
    const given = ['User-Agent', 'Cookie', 'Set-Cookie', 'X-A', 'Authorization', 'Toto'];
    const text = given.map((name) => `${name}: a\r\n${name.toLowerCase()}: b\r\n`).join('');
    const large = new PlainRequestParser({ ...rules, linesMax: 50 });
    const bytes = Buffer.from(post(path, '{}', text));
    assert.ok(large.read(bytes, 0) > 0);
    const request = new WholeRequest(bytes, large);
    const node = new IncomingMessage(new Socket()) as IncomingMessage & {
      _addHeaderLines(lines: readonly string[], count: number): void;
    };
    node._addHeaderLines(request.rawHeaders, request.rawHeaders.length);
    assert.deepEqual(request.headers, { ...node.headers });
  });
});

/** Millions are in test/fuzz/requests.long.ts. */
const count = 80_000;

test("Node's parser reads every request accepted by the plain request parser in the same way", (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  const accepted = fuzzRequests(count, random);
  t.diagnostic(`${accepted} accepted`);
  assert.ok(accepted > count / 7, `only ${accepted} of them are good ones`);
});
