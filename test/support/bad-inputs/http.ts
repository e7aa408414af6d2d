/**
 * Bad requests to the webhook door, each with its answer: what to send, and `status code`, or `reset` if the client has
 * already left. test/e2e/bad-inputs.extended.test.ts uses these tables.
 */
import { deflateRawSync, deflateSync, gzipSync, brotliCompressSync } from 'node:zlib';
import { chunked, post } from '../raw-http.ts';

export type BadRequest = readonly [name: string, bytes: string | Buffer, answer: string];

const to = (table: string) => `/webhook/dev/public/${table}`;
const notJson = '422 body_not_json';
const undecodable = '422 payload_undecodable';
const options = (name: string, value: string) => `x-rw-webhook-${name}: ${value}\r\n`;

/** Bodies that are not JSON documents that can be stored. */
const bodies: readonly (readonly [string, string])[] = [
  ['nothing', ''],
  ['blanks', ' \r\n\t '],
  ['a word', 'hello'],
  ['half a word', 'tru'],
  ['words run together', 'truefalse'],
  ['capitals', 'TRUE'],
  ['NaN', 'NaN'],
  ['Infinity', '-Infinity'],
  ['undefined', 'undefined'],
  ['a single quote', "{'a':1}"],
  ['a bare key', '{a:1}'],
  ['a number as key', '{1:1}'],
  ['a trailing comma in an object', '{"a":1,}'],
  ['a trailing comma in an array', '[1,]'],
  ['a leading comma', '[,1]'],
  ['two commas', '[1,,2]'],
  ['no comma', '[1 2]'],
  ['no colon', '{"a" 1}'],
  ['two colons', '{"a"::1}'],
  ['no value', '{"a":}'],
  ['no key', '{:1}'],
  ['an open object', '{"a":1'],
  ['an open array', '[1'],
  ['an open string', '"abc'],
  ['crossed brackets', '[{]}'],
  ['too many brackets', '[1]]'],
  ['two documents', '{}{}'],
  ['two documents on lines', '{}\n{}'],
  ['a comment', '{/* a */}'],
  ['a line comment', '{} // a'],
  ['two byte order marks', '\xef\xbb\xbf\xef\xbb\xbf{}'],
  ['a leading zero', '[01]'],
  ['a leading plus', '[+1]'],
  ['a leading point', '[.5]'],
  ['a trailing point', '[1.]'],
  ['an empty exponent', '[1e]'],
  ['a hexadecimal number', '[0x10]'],
  ['two signs', '[--1]'],
  ['a sign alone', '[-]'],
  ['a number out of range', '[1e131072]'],
  ['a number far out of range', `[1e${'9'.repeat(400)}]`],
  ['a small number out of range', '[1e-16384]'],
  ['a control character in a string', '"a\x01b"'],
  ['a line break in a string', '"a\nb"'],
  ['a NUL in a string', '"a\0b"'],
  ['a NUL behind the document', '{}\0'],
  ['an escaped NUL', '"\\u0000"'],
  ['an escaped NUL in a key', '{"\\u0000":1}'],
  ['an unknown escape', '"\\x41"'],
  ['a short escape', '"\\u00e"'],
  ['an escape at the end', '"\\'],
  ['a high surrogate alone', '"\\ud83d"'],
  ['a low surrogate alone', '"\\ude00"'],
  ['surrogates the wrong way round', '"\\ude00\\ud83d"'],
  ['invalid UTF-8', '"\xff"'],
  ['UTF-8 cut off', '"\xe2\x82"'],
  ['overlong UTF-8', '"\xc0\xaf"'],
  ['a surrogate in UTF-8', '"\xed\xa0\x80"'],
  ['beyond Unicode', '"\xf5\x80\x80\x80"'],
  ['UTF-16', '\xff\xfe{\0}\0'],
  ['Latin-1', '"\xe9"'],
  ['513 arrays', '['.repeat(513) + ']'.repeat(513)],
  ['513 objects', '{"a":'.repeat(513) + '1' + '}'.repeat(513)],
  ['a million brackets', '['.repeat(1_000_000)],
  ['a form', 'a=1&b=2'],
  ['XML', '<a/>'],
  ['YAML', 'a: 1'],
  ['MessagePack', '\x81\xa1a\x01'],
  ['a chunk size', '2\r\n{}\r\n0\r\n\r\n'],
  ['a request', 'POST / HTTP/1.1\r\nHost: h\r\n\r\n'],
];

/** JSON documents that fit no row of `typed`. */
const rows: readonly (readonly [string, string, string])[] = [
  ['an array', '[1]', undecodable],
  ['a string', '"a"', undecodable],
  ['null', 'null', undecodable],
  ['no key', '{}', '422 row_refused'],
  ['the key as null', '{"id":null}', '422 row_refused'],
  ['the key as text', '{"id":"abc"}', undecodable],
  ['the key as an object', '{"id":{}}', undecodable],
  ['the key with a fraction', '{"id":1.5}', undecodable],
  ['the key too large', '{"id":2147483648}', undecodable],
  ['the key as a bomb', '{"id":1e100000}', undecodable],
  ['the key in two ways, the last one bad', '{"id":1,"id":"x"}', undecodable],
  ['a numeric that overflows', '{"id":1,"amount":123456789012345}', undecodable],
  ['a numeric that is text', '{"id":1,"amount":"much"}', undecodable],
  ['a numeric as a bomb', '{"id":1,"amount":1e131071}', undecodable],
  ['a moment that is none', '{"id":1,"at":"yesterday or so"}', undecodable],
  ['a moment out of range', '{"id":1,"at":1e300}', undecodable],
  ['an array that is an object', '{"id":1,"tags":{}}', undecodable],
  ['an array that is text', '{"id":1,"tags":"{a,"}', undecodable],
  ['a mood that is none', '{"id":1,"mood":"furious"}', undecodable],
  ['a domain that refuses', '{"id":1,"small":11}', undecodable],
  ['a network that is none', '{"id":1,"net":"300.1.1.1"}', undecodable],
  ['an uuid that is none', '{"id":1,"uid":"x"}', undecodable],
  ['a check that refuses', '{"id":-1}', '422 row_refused'],
  ['a trigger that refuses', '{"id":666}', '422 row_refused'],
  ['a text with an escaped NUL', '{"id":1,"note":"\\u0000"}', undecodable],
  ['invalid UTF-8', '{"id":1,"note":"\xff"}', undecodable],
];

const lines: readonly (readonly [string, string])[] = [
  ['a bad line first', 'x\n{"a":1}\n'],
  ['a bad line last', '{"a":1}\n{"a":2}\n{'],
  ['a bad line among thousands', `${'{"a":1}\n'.repeat(3_000)}[\n${'{"a":1}\n'.repeat(3_000)}`],
  ['two documents on one line', '{"a":1}{"a":2}\n'],
  ['a document over two lines', '{"a":\n1}\n'],
  ['a line that is too deep', `{"a":1}\n${'['.repeat(600)}${']'.repeat(600)}\n`],
  ['lines ended by CR', '{"a":1}\r{"a":2}\r'],
  ['one array of all', '[{"a":1},\n{"a":2}]\n'],
  ['a line of bad UTF-8', '{"a":1}\n"\xff"\n'],
  ['a line with an escaped NUL', '{"a":1}\n"\\u0000"\n'],
];

const headers: readonly BadRequest[] = [
  ['format avro', post(to('typed'), '{"id":1}', options('format', 'avro')), '400 invalid_option'],
  ['encode csv', post(to('typed'), '{"id":1}', options('encode', 'csv')), '400 invalid_option'],
  ['an empty encode', post(to('typed'), '{"id":1}', options('encode', '')), '400 invalid_option'],
  ...['timestamp', 'timestamptz', 'time'].map((it): BadRequest => [
    `${it} in years`,
    post(to('typed'), '{"id":1}', options(`json-${it}-handling-mode`, 'years')),
    '400 invalid_option',
  ]),
  ['bigint wide', post(to('typed'), '{"id":1}', options('json-bigint-unsigned-handling-mode', 'wide')), '400 invalid_option'],
  ['toast maybe', post(to('typed'), '{"id":1}', options('json-handle-toast-columns', 'maybe')), '400 invalid_option'],
  ['toast with a NUL', post(to('typed'), '{"id":1}', options('json-handle-toast-columns', '\0')), '400 malformed_request'],
  ['no signature', post(to('signed'), '{}'), '401 signature_failed'],
  ['an empty signature', post(to('signed'), '{}', 'x-signature: \r\n'), '401 signature_failed'],
  ['a wrong signature', post(to('signed'), '{}', 'x-signature: 00\r\n'), '401 signature_failed'],
  ['a long signature', post(to('signed'), '{}', `x-signature: ${'0'.repeat(12_000)}\r\n`), '401 signature_failed'],
  ['two signatures', post(to('signed'), '{}', 'x-signature: 00\r\nx-signature: 01\r\n'), '401 signature_failed'],
  ['a signature that is no hex', post(to('signed'), '{}', 'x-signature: zz\xff\r\n'), '401 signature_failed'],
  ['a bad body without signature', post(to('signed'), '{'), '401 signature_failed'],
  ['a claim to be local', post(to('signed'), '{}', 'x-forwarded-for: 127.0.0.1\r\nforwarded: for=127.0.0.1\r\n'), '401 signature_failed'],
  ['a claim of another method', post(to('signed'), '{}', 'x-http-method-override: DELETE\r\n'), '401 signature_failed'],
  ['__proto__ as a header', post(to('signed'), '{}', '__proto__: 1\r\nconstructor: 2\r\n'), '401 signature_failed'],
]; // prettier-ignore

const paths: readonly BadRequest[] = (
  [
    ['a table of PostgreSQL', '/webhook/dev/pg_catalog/pg_class', 404],
    ['a table of Headgate', '/webhook/dev/headgate/webhook_table', 404],
    ['the secrets', '/webhook/dev/headgate/secret', 404],
    ['a table that is no webhook table', to('plain'), 404],
    ['a view', to('view'), 404],
    ['another case', to('DOC'), 404],
    ['a quoted name', to('%22doc%22'), 404],
    ['a schema in the name', '/webhook/dev/public/public.doc', 404],
    ['a slash in the name', to('a%2fb'), 404],
    ['a NUL in the name', to('doc%00'), 404],
    ['a name of 255 bytes', to('x'.repeat(255)), 404],
    ['a name of 3,000 bytes', to('x'.repeat(3_000)), 404],
    ['SQL in the name', to("doc';drop%20table%20doc;--"), 404],
    ['SQL in the database', "/webhook/dev'%20or%20'1'='1/public/doc", 404],
    ['another database', '/webhook/postgres/public/doc', 404],
    ['the template', '/webhook/template1/public/doc', 404],
    ['__proto__', '/webhook/__proto__/constructor/toString', 404],
    ['dots', '/webhook/dev/public/..', 404],
    ['encoded dots', '/webhook/dev/public/%2e%2e', 404],
    ['a blank at the end', to('doc%20'), 404],
    ['an overlong slash', to('%c0%af'), 400],
    ['a surrogate', to('%ed%a0%80'), 400],
    ['half an escape', to('doc%2'), 400],
    ['doubly encoded', to('%2564oc'), 404],
    ['the WebSocket door by POST', '/ingest/dev/public/doc', 426],
    ['metrics', '/metrics', 404],
    ['health', '/healthz', 404],
    ['the gateway', '/v1/sql', 404],
    ['a file', '/../../etc/passwd', 404],
    ['another host', 'http://169.254.169.254/latest/meta-data', 404],
  ] as const
).map(([name, path, status]) => [
  name,
  post(path, '{}'),
  { 404: '404 not_found', 400: '400 malformed_path', 426: '426 upgrade_required' }[status],
]);

const packed = (body: Buffer, coding: string, table = 'doc') =>
  Buffer.concat([
    Buffer.from(
      `POST ${to(table)} HTTP/1.1\r\nHost: h\r\nContent-Encoding: ${coding}\r\nContent-Length: ${body.length}\r\n\r\n`,
    ),
    body,
  ]);
const bomb = Buffer.alloc(64 * 1024 * 1024, 32);
const small = Buffer.from('{"a":1}');

const codings: readonly BadRequest[] = [
  ['a bomb of gzip', packed(gzipSync(bomb), 'gzip'), '413 body_too_large'],
  ['a bomb of deflate', packed(deflateSync(bomb), 'deflate'), '413 body_too_large'],
  ['a bomb of bare deflate', packed(deflateRawSync(bomb), 'deflate'), '413 body_too_large'],
  ['a bomb of brotli', packed(brotliCompressSync(bomb.subarray(0, 30 * 2 ** 20)), 'br'), '413 body_too_large'],
  ['a bomb in a bomb', packed(gzipSync(gzipSync(bomb)), 'gzip, gzip'), '413 body_too_large'],
  ['gzip said to be brotli', packed(gzipSync(small), 'br'), '400 malformed_encoding'],
  ['brotli said to be gzip', packed(brotliCompressSync(small), 'gzip'), '400 malformed_encoding'],
  ['gzip cut off', packed(gzipSync(small).subarray(0, -1), 'gzip'), '400 malformed_encoding'],
  ['gzip with a wrong sum', packed(Buffer.concat([gzipSync(small).subarray(0, -8), Buffer.alloc(8)]), 'gzip'), '400 malformed_encoding'],
  ['gzip that goes on', packed(Buffer.concat([gzipSync(small), Buffer.from('x')]), 'gzip'), '400 malformed_encoding'],
  ['gzip of no JSON', packed(gzipSync('{'), 'gzip'), notJson],
  ['gzip without its coding', packed(gzipSync(small), 'identity'), notJson],
  ['zstd', packed(small, 'zstd'), '415 encoding_unsupported'],
  ['a coding that is a list of one hundred', packed(small, Array(100).fill('gzip').join(', ')), '415 encoding_unsupported'],
  ['a coding with parameters', packed(small, 'gzip;q=1'), '415 encoding_unsupported'],
  ['aws-chunked', packed(small, 'aws-chunked'), '415 encoding_unsupported'],
]; // prettier-ignore

const framing: readonly BadRequest[] = [
  ['a body larger than allowed', `POST ${to('doc')} HTTP/1.1\r\nHost: h\r\nContent-Length: 26214401\r\n\r\n`, '413 body_too_large'],
  ['chunks with a length', chunked(to('doc'), ['{}'], 'Content-Length: 2\r\n'), '400 malformed_request'],
  ['two lengths', post(to('doc'), '{}', 'Content-Length: 3\r\n'), '400 malformed_request'],
  ['a chunk that lies', chunked(to('doc'), ['{}']).replace('2\r\n', '3\r\n'), '400 malformed_request'],
  ['300 headers', post(to('doc'), '{}', 'X: 1\r\n'.repeat(300)), '431 headers_too_large'],
  ['2,000 headers', post(to('doc'), '{}', 'X: 1\r\n'.repeat(2_000)), '431 headers_too_large'],
  ['a header of 64 KiB', post(to('doc'), '{}', `X: ${'x'.repeat(65_536)}\r\n`), '431 headers_too_large'],
  ['a query of 10 KB', post(`${to('doc')}?${'a=1&'.repeat(2_500)}`, '{}'), '414 path_too_long'],
  ['HTTP/0.9', `GET ${to('doc')}\r\n\r\n`, '400 malformed_request'],
  ['HTTP/2 with prior knowledge', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '400 malformed_request'],
  ['the start of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', '400 malformed_request'],
  ['the start of PostgreSQL', '\x00\x00\x00\x08\x04\xd2\x16\x2f', '400 malformed_request'],
  ['the start of SSH', 'SSH-2.0-OpenSSH_9.0\r\n', '400 malformed_request'],
  ['a response', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', '400 malformed_request'],
  ['an ESC in the target', post(`${to('doc')}\x1b[2J`, '{}'), '400 malformed_request'],
]; // prettier-ignore

const forms: readonly BadRequest[] = [
  ['a form of bad UTF-8', post(to('form'), 'a=%ff'), notJson],
  ['a form with a NUL', post(to('form'), 'a=%00'), notJson],
  ['text with a NUL', post(to('plaintext'), 'a\0b'), notJson],
  ['text of bad UTF-8', post(to('plaintext'), '\xff'), notJson],
];

export const badRequests: readonly BadRequest[] = [
  ...bodies.map(([name, body]): BadRequest => [`${name} as a document`, post(to('doc'), body), notJson]),
  ...rows.map(([name, body, answer]): BadRequest => [`${name} as a row`, post(to('typed'), body), answer]),
  ...lines.map(([name, body]): BadRequest => [`${name} of a batch`, post(to('batch'), body), notJson]),
  ...headers,
  ...paths,
  ...codings,
  ...framing,
  ...forms,
];
