/** Malformed and malicious input to the gateway: status and message of each, and nothing of it stored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Question } from '../../test/support/asked.ts';
import { openGate, openTestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { RawClient } from '../../test/support/raw-http.ts';

const token = 'open-sesame';

const good = '{"id":1,"n":1}';
/** Query, body, status, code, words of the sentence. */
const events: readonly (readonly [string, string, number, string, RegExp])[] = [
  ['', good, 400, 'malformed_query', /parameter name is missing/],
  ['name=', good, 400, 'malformed_query', /name/],
  ['name=t&name=u', good, 400, 'malformed_query', /name/],
  ['name=t&on_error=ignore', good, 400, 'malformed_query', /on_error is one of fail, skip, not "ignore"/],
  ['name=t&onconflict=update', good, 400, 'malformed_query', /unknown parameter "onconflict".*on_conflict/],
  ['name=t&on_conflict=replace', good, 400, 'malformed_query', /on_conflict/],
  ['name=nope', good, 404, 'relation_not_found', /no such table "nope"/],
  ['name=public.nope', good, 404, 'relation_not_found', /no such table/],
  ['name=nope.t', good, 404, 'relation_not_found', /no such table/],
  ['name=other.public.t', good, 404, 'relation_not_found', /no such table/],
  ['name=a.b.c.d', good, 404, 'relation_not_found', /no such table/],
  ['name=T%00', good, 404, 'relation_not_found', /no such table/],
  ['name=%22T%22', good, 404, 'relation_not_found', /no such table/],
  ['name=t%3B%20DROP%20TABLE%20t', good, 404, 'relation_not_found', /no such table/],
  ['name=%22', good, 404, 'relation_not_found', /no such table/],
  ['name=t.', good, 404, 'relation_not_found', /no such table/],
  ['name=%FF', good, 404, 'relation_not_found', /no such table/],
  ['name=1259', good, 404, 'relation_not_found', /no such table/],
  ['name=pg_class', good, 404, 'relation_not_found', /no such table/],
  ['name=pg_catalog.pg_authid', good, 404, 'relation_not_found', /no such table/],
  ['name=t_pkey', good, 400, 'relation_not_writable', /is no table/],
  ['name=grouped', '{"n":1}', 400, 'relation_not_writable', /not updatable/],
  ['name=t&database=nope', good, 404, 'database_unknown', /no such database/],
  ['name=t&database=', good, 404, 'database_unknown', /no such database/],
  ['name=nokey&on_conflict=update', good, 400, 'key_missing', /no primary key/],
  ['name=nokey&on_conflict=ignore', good, 400, 'key_missing', /no primary key/],
  ['name=t', '', 422, 'event_not_object', /holds no event/],
  ['name=t', ' \n\t\r\n ', 422, 'event_not_object', /holds no event/],
  ['name=t', '[]', 422, 'event_not_object', /JSON array/],
  ['name=t', `[${good}]`, 422, 'event_not_object', /JSON array/],
  ['name=t', 'null', 422, 'payload_undecodable', /line 1: it is not a JSON object/],
  ['name=t', '1', 422, 'payload_undecodable', /line 1: it is not a JSON object/],
  ['name=t', '"x"', 422, 'payload_undecodable', /line 1: it is not a JSON object/],
  ['name=t', 'true', 422, 'payload_undecodable', /line 1: it is not a JSON object/],
  ['name=t', 'id=1&n=2', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', 'id,n\n1,2\n', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '<event/>', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '{', 422, 'payload_undecodable', /line 1: it ends in the middle/],
  ['name=t', '{"id":1,}', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', "{'id':1}", 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '{"id":01}', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '{"id":NaN}', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '{"id":1} {"id":2}', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '{"id":1},\n{"id":2}', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', `${good}\n[]`, 422, 'payload_undecodable', /line 2: it is not a JSON object/],
  ['name=t', `${good}\n\n{"id":2`, 422, 'payload_undecodable', /line 3: it ends in the middle/],
  ['name=t', '\ufeff\ufeff{"id":1}', 422, 'payload_undecodable', /line 1: unexpected character/],
  ['name=t', '{"v":"\\u0000"}', 422, 'payload_undecodable', /line 1: \\u0000 cannot be stored/],
  ['name=t', '{"v":"\\ud800"}', 422, 'payload_undecodable', /line 1: surrogate/],
  ['name=t', '{"v":"\u0001"}', 422, 'payload_undecodable', /line 1: control character/],
  ['name=t', '{"v":1e999999}', 422, 'payload_undecodable', /line 1: number out of range/],
  [
    'name=t',
    `{"doc":${'['.repeat(600)}${']'.repeat(600)}}`,
    422,
    'payload_undecodable',
    /line 1: nested too deeply/,
  ],
  [
    'name=t',
    '{"id":"one"}',
    422,
    'payload_undecodable',
    /line 1: column "id": invalid input syntax for type bigint: "one"/,
  ],
  ['name=t', '{"id":1.5}', 422, 'payload_undecodable', /line 1: column "id": invalid input syntax/],
  [
    'name=t',
    '{"id":9223372036854775808}',
    422,
    'payload_undecodable',
    /line 1: column "id": value "9223372036854775808" is out of range/,
  ],
  ['name=t', '{"id":1,"n":{"a":1}}', 422, 'payload_undecodable', /line 1: column "n": invalid input syntax/],
  [
    'name=t',
    '{"id":1,"at":"yesterday-ish"}',
    422,
    'payload_undecodable',
    /line 1: column "at": invalid input syntax/,
  ],
  [
    'name=t',
    '{"id":1,"at":"2026-13-01"}',
    422,
    'payload_undecodable',
    /line 1: column "at": date\/time field value out of range/,
  ],
  [
    'name=t',
    '{"id":1,"small":1234.5}',
    422,
    'payload_undecodable',
    /line 1: column "small": numeric field overflow: A field with precision/,
  ],
  [
    'name=t',
    '{"id":1,"m":"angry"}',
    422,
    'payload_undecodable',
    /line 1: column "m": invalid input value for enum mood/,
  ],
  [
    'name=t',
    '{"id":1,"short":"12345"}',
    422,
    'payload_undecodable',
    /line 1: column "short": value too long/,
  ],
  ['name=t', '{"id":1,"tags":"x"}', 422, 'payload_undecodable', /line 1: column "tags": /],
  ['name=t', '{"n":1}', 422, 'row_refused', /line 1: column "id" must not be null/],
  ['name=t', '{"id":null}', 422, 'row_refused', /line 1: column "id" must not be null/],
  ['name=t', '{"id":1,"n":-1}', 422, 'row_refused', /line 1: the row violates the constraint t_n_check/],
  ['name=t', `${good}\n{"id":1}`, 422, 'row_refused', /line 2: the row violates the constraint t_pkey/],
  ['name=t', '{"id":1,"parent":77}', 422, 'row_refused', /the row violates the constraint t_parent_fkey/],
  ['name=guarded', '{"n":1}', 422, 'row_refused', /line 1: the row does not fit the table/],
  ['name=parted', '{"n":5}', 422, 'row_refused', /line 1: no partition of the table takes the row/],
  [
    'name=t',
    `${good}\n`.repeat(60_000),
    422,
    'row_refused',
    /line 2: the row violates the constraint t_pkey/,
  ],
];

test('each bad event of /v1/events gets its own status and message, and stores nothing', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows(`CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE t (id bigint PRIMARY KEY, n int CHECK (n >= 0), v text, doc jsonb, at timestamptz, small numeric(4, 1), m mood,
      short varchar(4), tags text[], parent bigint REFERENCES t);
    CREATE TABLE nokey (id int); CREATE VIEW grouped AS SELECT count(*) AS n FROM t;
    CREATE TABLE parted (n int) PARTITION BY LIST (n); CREATE TABLE guarded (n int);
    CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'secret of the owner'; END $$;
    CREATE TRIGGER guard BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION guard()`);
  assert.ok(events.length >= 60);
  for (const [query, body, status, code, words] of events) {
    const answer = await gateway.events(query, body);
    const what = `${query} ${body.slice(0, 80)}: ${answer.status} ${answer.text}`;
    assert.deepEqual([answer.status, answer.json.code], [status, code], what);
    assert.match(answer.json.error ?? '', words, what);
    assert.doesNotMatch(answer.text, /secret of the owner|webhook|node:|\/src\//, what);
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8', what);
  }
  const [stored] = await gateway.rows(
    'SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM nokey) + (SELECT count(*) FROM guarded) AS n',
  );
  assert.deepEqual(stored, { n: 0 });
});

test('bad encodings, methods, paths and bodies of /v1/sql are refused', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE t (id int)');
  const gzip = { 'content-encoding': 'gzip' };
  const send = (path: string, init: Question) => gateway.sql('', path, init);
  const zipped = new Uint8Array(gzipSync(good));
  const cases: readonly (readonly [string, Question, number, string])[] = [
    ['/v1/events?name=t', { body: good, headers: gzip }, 400, 'malformed_query'],
    ['/v1/events?name=t', { body: zipped.slice(0, -6), headers: gzip }, 400, 'malformed_query'],
    ['/v1/events?name=t', { body: good, headers: { 'content-encoding': 'br' } }, 415, 'encoding_unsupported'],
    [
      '/v1/events?name=t',
      { body: zipped, headers: { 'content-encoding': 'gzip, gzip' } },
      415,
      'encoding_unsupported',
    ],
    [
      '/v1/events?name=t',
      { body: new Uint8Array(gzipSync(Buffer.alloc(120 * 2 ** 20))), headers: gzip },
      413,
      'body_too_large',
    ],
    ['/v1/events?name=t', { method: 'PUT', body: good }, 405, 'method_not_allowed'],
    ['/v1/events?name=t', { method: 'DELETE' }, 405, 'method_not_allowed'],
    ['/v1/events?name=t', { method: 'OPTIONS' }, 405, 'method_not_allowed'],
    ['/v1/sql', { method: 'PATCH', body: 'SELECT 1' }, 405, 'method_not_allowed'],
    ['/v1/event?name=t', { body: good }, 404, 'route_unknown'],
    ['/v2/events?name=t', { body: good }, 404, 'route_unknown'],
    ['/v1/events/t', { body: good }, 404, 'route_unknown'],
    ['/', { body: good }, 404, 'route_unknown'],
    ['/v1/sql?database=x', { body: 'SELECT 1' }, 404, 'database_unknown'],
    ['/v1/sql', { body: '' }, 400, 'malformed_query'],
    ['/v1/sql', { body: '{"sql":1}' }, 400, 'malformed_query'],
    ['/v1/sql', { body: `SELECT '${'x'.repeat(17 * 2 ** 20)}'` }, 413, 'body_too_large'],
    ['/v1/sql', { body: 'SELECT\u00001' }, 400, 'malformed_query'],
    ['/v1/sql', { body: new Uint8Array([0x53, 0xff, 0xfe]) }, 400, 'malformed_query'],
  ];
  for (const [path, init, status, code] of cases) {
    const answer = await send(path, { ...(init.method === undefined ? {} : { body: null }), ...init });
    assert.deepEqual(
      [answer.status, answer.json.code],
      [status, code],
      `${init.method ?? 'POST'} ${path}: ${answer.text.slice(0, 200)}`,
    );
  }
  assert.deepEqual(await gateway.rows('SELECT count(*) AS n FROM t'), [{ n: 0 }]);
});

test('the gateway answers input that is not HTTP and serves the next connection', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const port = Number(new URL(gateway.url).port);
  const cases: readonly (readonly [string, number])[] = [
    ['nonsense\r\n\r\n', 400],
    ['POST /v1/sql HTTP/1.1\r\n\r\n', 400],
    [`POST /v1/sql HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Length: -1\r\n\r\n`, 400],
    [
      `POST /v1/sql HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
      400,
    ],
    [`POST /v1/sql HTTP/1.1\r\nHost: localhost:${port}\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    [`POST /v1/sql HTTP/1.1\r\nHost: localhost:${port}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
    [`GET /%zz HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\n\r\n`, 400],
  ];
  for (const [bytes, status] of cases) {
    const client = await RawClient.connect(port);
    client.send(bytes);
    const answer = await client.answer();
    assert.equal(answer?.status, status, `${bytes.slice(0, 60)}: ${answer?.body}`);
    client.socket.destroy();
  }
  assert.deepEqual(await gateway.rows('SELECT 1 AS n'), [{ n: 1 }]);
});

test('the gateway serves no request without the token, from a foreign origin or for a foreign host', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database, { token, origins: ['https://app.example'] });
  const client = await database.connect();
  await client.query('CREATE TABLE t (id int)');
  const authorized = { authorization: `Bearer ${token}` };
  const cases: readonly (readonly [Record<string, string>, number, string])[] = [
    [{}, 401, 'token_required'],
    [{ authorization: 'Bearer wrong' }, 401, 'token_required'],
    [{ authorization: `Basic ${token}` }, 401, 'token_required'],
    [{ ...authorized, origin: 'https://evil.example', 'content-type': 'text/plain' }, 403, 'page_refused'],
    [{ ...authorized, origin: 'null', 'content-type': 'text/plain' }, 403, 'page_refused'],
    [{ ...authorized, 'sec-fetch-site': 'cross-site' }, 403, 'page_refused'],
    [{ ...authorized, 'sec-fetch-site': 'same-site' }, 403, 'page_refused'],
  ];
  for (const [headers, status, code] of cases) {
    for (const path of ['/v1/sql', '/v1/events?name=t']) {
      const answer = await gateway.sql('INSERT INTO t VALUES (1)', path, { headers });
      assert.deepEqual([answer.status, answer.json.code], [status, code], JSON.stringify(headers));
      if (status === 401) assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer/);
      assert.equal(answer.headers.get('access-control-allow-origin'), null);
    }
  }
  const port = Number(new URL(gateway.url).port);
  for (const host of [`evil.example:${port}`, 'evil.example', `127.0.0.1:${port + 1}`]) {
    const raw = await RawClient.connect(port);
    raw.send(
      `POST /v1/sql HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\nContent-Length: 24\r\n\r\nINSERT INTO t VALUES (1)`,
    );
    assert.equal((await raw.answer())?.status, 403, host);
    raw.socket.destroy();
  }
  assert.equal((await client.query('SELECT FROM t')).rowCount, 0);
  const page = { ...authorized, origin: 'https://app.example' };
  const allowed = await gateway.sql('INSERT INTO t VALUES (1)', '/v1/sql', { headers: page });
  assert.deepEqual(
    [allowed.status, allowed.headers.get('access-control-allow-origin')],
    [200, 'https://app.example'],
  );
  const preflight = await gateway.sql('', '/v1/sql', {
    method: 'OPTIONS',
    body: null,
    headers: { origin: 'https://app.example' },
  });
  assert.deepEqual(
    [preflight.status, preflight.headers.get('access-control-allow-methods')],
    [204, 'GET, POST'],
  );
  const health = await fetch(`${gateway.url}/v1/healthz`);
  assert.equal(health.status, 200);
});

test('the gateway limits the request rate of each address', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), {
    gate: openGate({ addressRate: { count: 3, perMs: 1_000, burst: 3 } }),
  });
  const answers = await Promise.all(Array.from({ length: 8 }, () => gateway.sql('SELECT 1')));
  const refused = answers.filter(({ status }) => status === 429);
  assert.ok(refused.length >= 4, String(answers.map(({ status }) => status)));
  assert.equal(refused[0]?.json.code, 'rate_limited');
  assert.notEqual(refused[0]?.headers.get('retry-after'), null);
});

test('any number of blanks before the events of a body is skipped, and blanks alone store no event', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE blanks (id int)');
  const event = '{"id":1}\n{"id":2}\n';
  for (const [length, blank] of [
    [2 ** 20, ' '],
    [2 ** 20 + 1, '\n'],
    [3 * 2 ** 20, '\r\n'],
    [17 * 2 ** 20, '\n'],
  ] as const) {
    const blanks = blank.repeat(length / blank.length);
    const { status, text } = await gateway.events('name=blanks', blanks + event);
    assert.equal(status, 200, `${length}: ${text}`);
    // Above a body that is taken in parts the way is the same, and takes seconds.
    if (length > 4 * 2 ** 20) continue;
    const none = await gateway.events('name=blanks', blanks);
    assert.deepEqual([none.status, none.json.code], [422, 'event_not_object'], `${length}: ${none.text}`);
    const array = await gateway.events('name=blanks', `${blanks}[{"id":1}]`);
    assert.equal(array.status, 422, array.text);
  }
  assert.deepEqual(await gateway.rows('SELECT id, count(*) AS n FROM blanks GROUP BY id ORDER BY id'), [
    { id: 1, n: 4 },
    { id: 2, n: 4 },
  ]);
});
