/**
 * Every answer of the gateway, byte for byte, as in test/support/golden/gateway.json: routes, methods, refusals, requests of
 * browsers, bodies of every kind. For an intended change the file is rewritten (test/support/golden.ts), and the diff
 * reviewed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { gatewayConnections } from '../../test/support/bad-inputs/gateway.ts';
import { openGate, openTestGateway } from '../../test/support/gateway.ts';
import { answerTo, compareWithGolden } from '../../test/support/golden.ts';
import type { GoldenAnswer } from '../../test/support/golden.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { chunked, post } from '../../test/support/raw-http.ts';
import { Refused, refusals } from '../errors/refusals.ts';
import type { EventStore, EventStores } from './event-store.ts';
import type { RefusalCode } from '../errors/refusals.ts';

const page = 'https://app.example';
const from = (origin: string) => `Origin: ${origin}\r\n`;
const gzip = 'Content-Encoding: gzip\r\n';
const packed = (text: string) => gzipSync(text).toString('latin1');
const row = '{"n":1}';

/** Without a body. */
const ask = (method: string, target: string, headers = '') =>
  `${method} ${target} HTTP/1.1\r\nHost: h\r\n${headers}\r\n`;

type Cases = readonly (readonly [name: string, bytes: string])[];

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY', 'PROPFIND'];
const targets = [
  '/v1/events',
  '/v1/events?name=t',
  '/v1/sql',
  '/v1/healthz',
  '/v1/openapi.json',
  '/v1/metrics',
  '/',
  '/v1/nothing',
];
const everyRoute: Cases = targets.flatMap((target) =>
  methods
    // A document that has a test of its own, and a stream, which has no end.
    .filter((method) => method !== 'GET' || !['/v1/openapi.json', '/v1/events?name=t'].includes(target))
    .map((method) => [`${method} ${target}`, ask(method, target)] as const),
);

const paths: Cases = [
  '/v1/%68ealthz',
  '/v1/healthz/',
  '/v1//healthz',
  '/V1/healthz',
  '/v1/healthz?x=1',
  '/v1/healthz?',
  '/v1/healthz;x',
  '/v1/./healthz',
  'http://h/v1/healthz',
  'https://other:1/v1/healthz?a',
  'HTTP://h/v1/healthz',
  'http://h',
  '*',
  '//v1/healthz',
  '/v1/h%C3%A4lthz',
  '/v1/healthz%2f',
  '/v1%2Fhealthz',
  '/v1/healthz%3Fx',
  '/v1/healthz%00',
  '/v1/healthz%25',
].map((target) => [`the target ${target}`, ask('GET', target)] as const);

const bodies: Cases = [
  ['an event', post('/v1/events?name=t', row)],
  ['an event by an escaped path', post('/v1/%65vents?name=t', row)],
  ['an event in the absolute form', post('http://h/v1/events?name=t', row)],
  ['an event of another media type', post('/v1/events?name=t', row, 'Content-Type: nonsense\r\n')],
  ['an event of a media type that is a list', post('/v1/events?name=t', row, 'Content-Type: a/b, c/d\r\n')],
  ['an event of a form', post('/v1/events?name=t', row, 'Content-Type: multipart/form-data\r\n')],
  ['an event with an id', post('/v1/events?name=t', row, 'X-Request-Id: given-1\r\n')],
  ['an event with an id that is none', post('/v1/events?name=t', row, 'X-Request-Id: given 1\r\n')],
  ['two ids', post('/v1/events?name=t', row, 'X-Request-Id: given-1\r\nX-Request-Id: given-2\r\n')],
  ['two lines', post('/v1/events?name=t', `${row}\n${row}\n`)],
  ['chunked', chunked('/v1/events?name=t', [row])],
  ['gzip', post('/v1/events?name=t', packed(row), gzip)],
  ['x-gzip', post('/v1/events?name=t', packed(row), 'Content-Encoding: X-GZIP\r\n')],
  ['identity', post('/v1/events?name=t', row, 'Content-Encoding: identity\r\n')],
  ['br', post('/v1/events?name=t', row, 'Content-Encoding: br\r\n')],
  ['gzip, gzip', post('/v1/events?name=t', packed(row), 'Content-Encoding: gzip, gzip\r\n')],
  ['gzip that is none', post('/v1/events?name=t', row, gzip)],
  ['gzip that is cut off', post('/v1/events?name=t', packed(row).slice(0, -6), gzip)],
  ['gzip of too much', post('/v1/sql', packed(' '.repeat(17 * 2 ** 20)), gzip)],
  ['gzip of SQL', post('/v1/sql', packed('SELECT 1 AS a'), gzip)],
  ['gzip of SQL that is none', post('/v1/sql', 'SELECT 1 AS a', gzip)],
  ['gzip of SQL and more', post('/v1/sql', `${packed('SELECT 1 AS a')}more`, gzip)],
  ['br of SQL', post('/v1/sql', 'SELECT 1 AS a', 'Content-Encoding: br\r\n')],
  ['no length', ask('POST', '/v1/events?name=t')],
  ['too large', ask('POST', '/v1/events?name=t', 'Content-Length: 999999999\r\n')],
  ['SQL too large', ask('POST', '/v1/sql', 'Content-Length: 999999999\r\n')],
  [
    'too large, asked for',
    ask('POST', '/v1/events?name=t', 'Expect: 100-continue\r\nContent-Length: 999999999\r\n'),
  ],
  ['an unsent body of another path', ask('POST', '/v1/x', 'Expect: 100-continue\r\nContent-Length: 9\r\n')],
  ['a body of GET', post('/v1/healthz', row).replace('POST', 'GET')],
  ['a body of DELETE', post('/v1/sql', row).replace('POST', 'DELETE')],
  ['a body of OPTIONS', post('/v1/sql', row).replace('POST', 'OPTIONS')],
  ['an array', post('/v1/events?name=t', '[]')],
  ['broken JSON', post('/v1/events?name=t', '{')],
  ['a broken line', post('/v1/events?name=t', `${row}\n{"n":1`)],
  ['a value that does not fit', post('/v1/events?name=t', '{"n":"x"}')],
  ['a row that does not fit', post('/v1/events?name=t', '{"n":-1}')],
  ['a row that does not fit, é', post('/v1/events?name=t', '{"n":"\xc3\xa9"}')],
  ['lines left out', post('/v1/events?name=t&on_error=skip', `${row}\n[]\n{"n":"x"}`)],
  ['no name', post('/v1/events', row)],
  ['an empty name', post('/v1/events?name=', row)],
  ['two names', post('/v1/events?name=t&name=t', row)],
  ['an unknown parameter', post('/v1/events?name=t&nam=t', row)],
  ['an unknown value', post('/v1/events?name=t&on_error=stop', row)],
  ['a broken escape in the query', post('/v1/events?name=%zz', row)],
  ['no such table', post('/v1/events?name=nope', row)],
  ['no such database', post('/v1/events?name=t&database=nope', row)],
  ['SQL', post('/v1/sql', 'SELECT 1 AS a')],
  ['SQL of a constant that is not ASCII', post('/v1/sql', "SELECT '\xc3\xa9' AS \xc3\xa4")],
  ['SQL in JSON', post('/v1/sql', '{"sql":"SELECT $1::int AS a","params":[7]}')],
  ['SQL of two statements', post('/v1/sql', 'SELECT 1 AS a; SELECT 2 AS b')],
  ['a large result', post('/v1/sql', "SELECT repeat('x', 300000) AS x FROM generate_series(1, 4)")],
  ['an unknown parameter of SQL', post('/v1/sql?x=1', 'SELECT 1')],
  ['no such database of SQL', post('/v1/sql?database=nope', 'SELECT 1')],
  ['an error of SQL', post('/v1/sql', 'SELECT * FROM nope')],
  ['an error of SQL for a moment', post('/v1/sql', "SELECT pg_catalog.pg_terminate_backend(pg_backend_pid())")],
  ['no SQL', post('/v1/sql', '')],
  ['SQL in broken JSON', post('/v1/sql', '{')],
  ['a zero byte', post('/v1/sql', 'SELECT \0')],
]; // prettier-ignore

const browsers: Cases = [
  ['a page that may', post('/v1/sql', 'SELECT 1 AS a', from(page))],
  ['a page that may, plain events', post('/v1/events?name=t', row, from(page))],
  ['a page that may, refused', post('/v1/events?name=nope', row, from(page))],
  ['a page that may, no path', ask('GET', '/v1/x', from(page))],
  ['a page that may not', post('/v1/sql', 'SELECT 1', from('https://evil.example'))],
  ['a page of nobody', post('/v1/sql', 'SELECT 1', from('null'))],
  ['a page of the gateway', post('/v1/sql', 'SELECT 1 AS a', from('http://h'))],
  ['a page of another site without its name', ask('GET', '/v1/healthz', 'Sec-Fetch-Site: cross-site\r\n')],
  ['a preflight', ask('OPTIONS', '/v1/sql', from(page))],
  ['a preflight of no path', ask('OPTIONS', '/v1/x', from(page))],
  ['a preflight of the gateway', ask('OPTIONS', '/v1/sql', from('http://h'))],
  ['a preflight of another page', ask('OPTIONS', '/v1/sql', from('https://evil.example'))],
  ['another name', ask('GET', '/v1/openapi.json').replace('Host: h', 'Host: evil.example')],
  ['another name, health', ask('GET', '/v1/healthz').replace('Host: h', 'Host: evil.example')],
  ['another name, health, HEAD', ask('HEAD', '/v1/healthz').replace('Host: h', 'Host: evil.example')],
  ['HTTP/1.0', ask('GET', '/v1/healthz').replace('HTTP/1.1', 'HTTP/1.0')],
  ['HTTP/1.0 that stays', ask('GET', '/v1/healthz', 'Connection: keep-alive\r\n').replace('HTTP/1.1', 'HTTP/1.0')],
  ['the last request', ask('GET', '/v1/healthz', 'Connection: close\r\n')],
]; // prettier-ignore

const bearer = 'Authorization: Bearer open\r\n';
const tokens: Cases = [
  ['no token', post('/v1/sql', 'SELECT 1')],
  ['no token, events', post('/v1/events?name=t', row)],
  ['another token', post('/v1/sql', 'SELECT 1', 'Authorization: Bearer shut\r\n')],
  ['no bearer', post('/v1/sql', 'SELECT 1', 'Authorization: Basic open\r\n')],
  ['no token, health', ask('GET', '/v1/healthz')],
  ['no token, health with a query', ask('GET', '/v1/healthz?x')],
  ['no token, HEAD of health', ask('HEAD', '/v1/healthz')],
  ['no token, no path', ask('GET', '/v1/x')],
  ['no token, OpenAPI', ask('GET', '/v1/openapi.json')],
  ['no token, preflight', ask('OPTIONS', '/v1/sql', from(page))],
  ['the token', post('/v1/sql', 'SELECT 1 AS a', bearer)],
  ['the token, metrics', ask('GET', '/v1/metrics', bearer)],
  ['the token, HEAD of metrics', ask('HEAD', '/v1/metrics', bearer)],
  ['the token, OpenAPI', ask('GET', '/v1/openapi.json', bearer)],
];

/** Names of these tables are answered with the refusal of that code. */
const codes = Object.keys(refusals) as RefusalCode[];
const everyRefusal: Cases = [
  ...codes.map((code) => [`refused: ${code}`, post(`/v1/events?name=${code}`, row)] as const),
  ['a bug', post('/v1/events?name=bug', row)],
  ['a bug, in chunks', chunked('/v1/events?name=bug', [row])],
  ['the engine is away', ask('GET', '/v1/healthz')],
];

const limited: Cases = [
  ['in time', ask('GET', '/v1/healthz')],
  ['too often', ask('GET', '/v1/healthz')],
  ['too often, an event', post('/v1/events?name=t', row)],
];

test('every answer of the gateway equals its golden file', async (t) => {
  const database = await testDatabase(t);
  const options = { hosts: ['h'], origins: [page] };
  const metrics = { contentType: 'text/plain; version=0.0.4', text: () => Promise.resolve('up 1\n') };
  const rate = { count: 1, perMs: 3_600_000, burst: 1 };
  const gateways = {
    open: await openTestGateway(t, database, options),
    token: await openTestGateway(t, database, { ...options, token: 'open', metrics }),
    broken: await openTestGateway(t, database, {
      ...options,
      instead: (deps) => ({
        ...deps,
        unavailable: () => 'it is away',
        events: Object.assign(Object.create(deps.events) as EventStores, {
          of: async (name: string) =>
            Object.assign(Object.create(await deps.events.of(name)) as EventStore, {
              find: (_database: string, name: string) => {
                if (name === 'bug') throw new TypeError('a bug with /a/path in it');
                throw new Refused(name as RefusalCode);
              },
            }),
        }),
      }),
    }),
    limited: await openTestGateway(t, database, { ...options, gate: openGate({ addressRate: rate }) }),
  };
  await gateways.open.rows('CREATE TABLE t (n int CHECK (n >= 0))');
  const connections = gatewayConnections
    .filter(([, , answers]) => answers.length === 1)
    .map(([name, bytes]) => [`a connection: ${name}`, bytes] as const);
  const cases = {
    open: [...everyRoute, ['GET /v1/openapi.json', ask('GET', '/v1/openapi.json')], ...paths, ...bodies, ...browsers, ...connections],
    token: tokens,
    broken: everyRefusal,
    limited,
  } as const satisfies Record<string, Cases>; // prettier-ignore
  const answers: Record<string, GoldenAnswer> = {};
  for (const [which, gateway] of Object.entries(gateways)) {
    const { port } = gateway.door.address;
    for (const [name, bytes] of cases[which as keyof typeof cases]) {
      const key = `${which}: ${name}`;
      assert(!(key in answers), `${key} twice`);
      answers[key] = await answerTo(port, bytes);
    }
  }
  compareWithGolden('gateway', answers);
});
