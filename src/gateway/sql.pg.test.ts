/** POST /v1/sql on a real PostgreSQL. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { Question } from '../../test/support/asked.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway, request } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { sampleOf } from '../../test/support/sample.ts';
import { within } from '../../test/support/within.ts';

test('SQL over HTTP returns values of every type unchanged', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const { status, text } = await gateway.sql(`SELECT
    9223372036854775807 AS big, 12345678901234567890.10::numeric AS num, 1e400::numeric AS huge, 'NaN'::numeric AS nan,
    0.1::float8 + 0.2::float8 AS dbl, 1e300::float8 AS exp, '-Infinity'::float4 AS inf, 1::smallint AS small,
    true AS yes, NULL::text AS nothing, 'a"b\\é😀' AS words, '{"a": 1.10, "b": [1, 2]}'::json AS doc, '\\x00ff'::bytea AS raw,
    '{1,NULL,12345678901234567890}'::numeric[] AS nums, ARRAY['a,b','NULL',NULL] AS texts, ARRAY[[true],[false]] AS bools,
    ARRAY['{"x": 1.0}'::jsonb, NULL] AS docs, '[0:1]={1,2}'::int[] AS based, '{}'::int[] AS none,
    '2026-01-02 03:04:05.678901+00'::timestamptz AT TIME ZONE 'UTC' AS ts, '1 day 02:00'::interval AS span,
    (1, 'x') AS pair, int4range(1, 5) AS range, 'f0e1d2c3-0000-4000-8000-000000000001'::uuid AS id, '1.2.3.4'::inet AS ip`);
  assert.equal(status, 200, text);
  const [, row] = /"rows":\[(.*)\],"rowsAffected":1/.exec(text) ?? [];
  assert.equal(
    row,
    `{"big":9223372036854775807,"num":12345678901234567890.10,"huge":1${'0'.repeat(400)},"nan":"NaN",` +
      `"dbl":0.30000000000000004,"exp":1e+300,"inf":"-Infinity","small":1,"yes":true,"nothing":null,` +
      `"words":"a\\"b\\\\é😀","doc":{"a": 1.10, "b": [1, 2]},"raw":"\\\\x00ff",` +
      `"nums":[1,null,12345678901234567890],"texts":["a,b","NULL",null],"bools":[[true],[false]],` +
      `"docs":[{"x": 1.0},null],"based":[1,2],"none":[],"ts":"2026-01-02 03:04:05.678901","span":"1 day 02:00:00",` +
      `"pair":"(1,x)","range":"[1,5)","id":"f0e1d2c3-0000-4000-8000-000000000001","ip":"1.2.3.4"}`,
  );
});

test('SQL result columns name their types, user-defined ones too', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows(`CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN positive AS numeric CHECK (VALUE > 0);
    CREATE SCHEMA app; CREATE TYPE app.pair AS (a int, b text)`);
  for (let round = 1; round <= 2; round++) {
    const { json, text } =
      await gateway.sql(`SELECT 'ok'::mood AS m, ARRAY['sad','ok']::mood[] AS ms, 1.50::positive AS p,
      ARRAY[1.50]::positive[] AS ps, ROW(1,'x')::app.pair AS pair, ARRAY[ROW(1,'x')::app.pair] AS pairs, 1::oid AS o`);
    assert.deepEqual(
      (json['columns'] as { type: string }[]).map(({ type }) => type),
      ['mood', 'mood[]', 'numeric', 'positive[]', 'app.pair', 'app.pair[]', 'oid'],
    );
    assert.match(
      text,
      /\{"m":"ok","ms":\["sad","ok"\],"p":1.50,"ps":\[1.50\],"pair":"\(1,x\)","pairs":\["\(1,x\)"\],"o":1\}/,
    );
  }
});

test('SQL over HTTP returns several statements, command tags, notices and duplicate column names', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const { json } =
    await gateway.sql(`CREATE TABLE t (a STRING, n int); INSERT INTO t VALUES ('x', 1), ('y', 2);
    DROP TABLE IF EXISTS nothing; UPDATE t SET n = 3; SELECT n AS a, a, 1 AS a, 2 AS a_2 FROM t WHERE false`);
  assert.deepEqual(
    (json['results'] as { command: string; rowsAffected: number }[]).map((it) => [
      it.command,
      it.rowsAffected,
    ]),
    [
      ['CREATE TABLE', 0],
      ['INSERT', 2],
      ['DROP TABLE', 0],
      ['UPDATE', 2],
      ['SELECT', 0],
    ],
  );
  assert.deepEqual(
    (json['columns'] as { name: string }[]).map(({ name }) => name),
    ['a', 'a_3', 'a_4', 'a_2'],
  );
  assert.deepEqual(json['notices'], [
    { severity: 'NOTICE', message: 'table "nothing" does not exist, skipping' },
  ]);
  const raised = await gateway.sql(
    "DO $$ BEGIN RAISE WARNING 'w' USING DETAIL = 'the detail', HINT = 'the hint'; END $$",
  );
  assert.equal(
    raised.text.slice(raised.text.indexOf('"notices"')),
    '"notices":[{"severity":"WARNING","message":"w","detail":"the detail","hint":"the hint"}]}',
  );
  assert.deepEqual((await gateway.sql('-- a comment')).json.rows, []);
});

test('SQL parameters keep every digit and take the type of their position', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const answer = await gateway.sql(
    '{"sql":"SELECT $1::int8 - 1 AS a, $2::numeric AS b, $3::text[] AS c, $4::jsonb AS d, $5 || $6 AS e, $7::bool AS f, 3 = ANY($8::int[]) AS g",' +
      '"params":[9223372036854775807,12345678901234567890.10,["x","y\\"",null],[1,{"k":2}],"é","😀",true,[1,2,3]]}',
    '/v1/sql',
    { headers: { 'content-type': 'application/json' } },
  );
  assert.match(
    answer.text,
    /"rows":\[\{"a":9223372036854775806,"b":12345678901234567890.10,"c":\["x","y\\"",null\],"d":\[1, \{"k": 2\}\],"e":"é😀","f":true,"g":true\}\]/,
  );
  assert.equal((await gateway.sql('{"sql":"SELECT $1; SELECT 2","params":[1]}')).json.code, '42601');
  assert.equal((await gateway.sql('{"sql":"SELECT $1::int","params":["x"]}')).json.code, '22P02');
  assert.equal((await gateway.sql('{"sql":"SELECT nope($1)","params":[[1]]}')).status, 400);
  assert.deepEqual(await gateway.rows('{"sql":"SELECT 1 AS a; SELECT 2 AS b"}'), [{ b: 2 }]);
});

test('SQL over HTTP executes a statement with each set of parameters in one transaction', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE t (id INT PRIMARY KEY, tags TEXT[], tx BIGINT DEFAULT txid_current())');
  const each = (sql: string, sets: readonly unknown[]) => gateway.sql(JSON.stringify({ sql, each: sets }));
  const insert = 'INSERT INTO t (id, tags) VALUES ($1, $2) RETURNING id, tags';
  const { status, json } = await each(insert, [
    [1, ['a', 'b']],
    [2, null],
    [3, []],
  ]);
  assert.equal(status, 200);
  const results = json['results'] as { rows: object[]; rowsAffected: number; command: string }[];
  assert.deepEqual(
    results.map(({ rows, rowsAffected, command }) => [rows, rowsAffected, command]),
    [
      [[{ id: 1, tags: ['a', 'b'] }], 1, 'INSERT'],
      [[{ id: 2, tags: null }], 1, 'INSERT'],
      [[{ id: 3, tags: [] }], 1, 'INSERT'],
    ],
  );
  assert.deepEqual(json.rows, [{ id: 3, tags: [] }]);
  assert.deepEqual(await gateway.rows('SELECT count(DISTINCT tx)::int AS n FROM t'), [{ n: 1 }]);
  // Each sees what those before it have done, and nothing stays of those before one that fails.
  const next = 'INSERT INTO t (id) SELECT max(id) + 1 FROM t';
  assert.equal((await each(next, [[], [], []])).status, 200);
  const failed = await each(insert, [
    [7, null],
    [1, null],
    [8, null],
  ]);
  assert.deepEqual([failed.status, failed.json.code], [400, '23505']);
  assert.deepEqual(
    await gateway.rows('SELECT id FROM t ORDER BY id'),
    [1, 2, 3, 4, 5, 6].map((id) => ({ id })),
  );
  assert.equal((await each('SELECT $1; SELECT 2', [[1]])).json.code, '42601');
  const one = await each('SELECT $1::int AS a', [[7]]);
  assert.deepEqual([one.json.rows, one.json['results']], [[{ a: 7 }], undefined]);
});

test('SQL errors over HTTP have their SQLSTATE and a position in the text as sent', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const failing: readonly (readonly [string, number, string, number | undefined])[] = [
    ['SELECT nope', 400, '42703', 8],
    ["SELECT 'é😀', nope", 400, '42703', 14],
    ['SELEC 1', 400, '42601', 1],
    ['SELECT 1/0', 400, '22012', undefined],
    ['CREATE TABLE é (a STRING, b STRING, c NOPE)', 400, '42704', 39],
    ["DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'AB123'; END $$", 400, 'AB123', undefined],
    ["DO $$ BEGIN RAISE EXCEPTION 'later' USING ERRCODE = '40001'; END $$", 503, '40001', undefined],
    ['COPY pg_class TO STDOUT', 400, '0A000', 1],
    ['SELECT 1; COPY pg_class FROM STDIN', 400, '0A000', 11],
    ['BEGIN; SELECT 1', 400, '25000', undefined],
    ['ROLLBACK; BEGIN', 400, '25000', undefined],
    ['SELECT pg_terminate_backend(pg_backend_pid())', 503, 'commit_unknown', undefined],
  ];
  for (const [sql, status, code, position] of failing) {
    const { status: seen, json, headers, text } = await gateway.sql(sql);
    assert.deepEqual([seen, json.code, json['position']], [status, code, position], `${sql}: ${text}`);
    assert.equal(typeof json.error, 'string');
    assert.equal(headers.get('retry-after') !== null, status === 503, sql);
    assert.deepEqual(await gateway.rows('SELECT 1 AS n'), [{ n: 1 }], `after ${sql}`);
  }
});

test('SQL over HTTP leaves nothing of one request in the session of the next', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE kept (n int); CREATE SEQUENCE seq');
  const dirty = [
    'CREATE TEMP TABLE leftover (a int); INSERT INTO leftover VALUES (1)',
    "SET search_path = pg_catalog; SET statement_timeout = 0; SET my.setting = 'x'; SET TIME ZONE 'Asia/Tokyo'",
    'SELECT pg_advisory_lock(42), pg_advisory_lock_shared(43)',
    'LISTEN something',
    'PREPARE p AS SELECT 1; DECLARE c CURSOR WITH HOLD FOR SELECT 1',
    'BEGIN; INSERT INTO kept VALUES (1); LOCK TABLE kept',
    'BEGIN; INSERT INTO kept VALUES (1); SELECT 1/0',
    "SELECT nextval('seq'); SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    'SET standard_conforming_strings = off; SET client_encoding = LATIN1',
    'SET ROLE pg_read_all_data',
  ];
  for (const sql of dirty) await gateway.sql(sql);
  const [state] = await gateway.rows(`SELECT
    to_regclass('pg_temp.leftover') AS leftover, current_setting('search_path') AS path, current_setting('TimeZone') AS zone,
    current_setting('statement_timeout') AS timeout, current_setting('transaction_read_only') AS readonly,
    (SELECT count(*) FROM pg_locks WHERE locktype IN ('advisory') AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS locks,
    (SELECT count(*) FROM pg_listening_channels()) AS channels, (SELECT count(*) FROM pg_prepared_statements) AS prepared,
    (SELECT count(*) FROM pg_cursors WHERE name = 'c') AS cursors, (SELECT count(*) FROM kept) AS kept,
    current_user = session_user AS self, current_setting('client_encoding') AS encoding,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%') AS open`);
  const [fresh] = (await (await database.connect()).query('SHOW TimeZone')).rows as { TimeZone: string }[];
  assert.deepEqual(state, {
    leftover: null,
    path: '"$user", public',
    zone: fresh?.TimeZone,
    timeout: '30s',
    readonly: 'off',
    locks: 0,
    channels: 0,
    prepared: 0,
    cursors: 0,
    kept: 0,
    self: true,
    encoding: 'UTF8',
    open: 0,
  });
  assert.equal((await gateway.sql("SELECT currval('seq')")).json.code, '55000');
  // Every session of the pool was made new, not only the one that was asked.
  const many = await Promise.all(
    Array.from({ length: 16 }, () =>
      gateway.rows("SELECT pg_try_advisory_lock(42) AS got, to_regclass('leftover') AS it, pg_sleep(0.01)"),
    ),
  );
  assert.ok(many.every(([row]) => row?.['it'] === null));
});

test('SQL over HTTP refuses a result beyond the bound, in rows, in one value or in results, and serves the next request', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const beyond = [
    "SELECT n, repeat('x', 1000) FROM generate_series(1, 70000) AS n",
    "SELECT repeat('x', 70000000)",
    "SELECT repeat('x', 35000000); SELECT repeat('y', 35000000)",
    'SELECT;'.repeat(250_000),
  ];
  for (const sql of sampleOf(beyond, 2)) {
    const { status, json } = await gateway.sql(sql);
    assert.deepEqual([status, json.code], [400, 'result_too_large'], sql.slice(0, 60));
  }
  const large = await gateway.sql("SELECT repeat('x', 30000000) AS x");
  assert.equal(large.status, 200);
  assert.equal((large.json.rows as { x: string }[])[0]?.x.length, 30_000_000);
  assert.deepEqual(await gateway.rows('SELECT 1 AS n'), [{ n: 1 }]);
});

test('SQL over HTTP reads large results one at a time, skips clients that left, and answers small ones meanwhile', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const leaving = new AbortController();
  const ask = (i: number, init: Question = {}) =>
    gateway.sql(`SELECT ${i} AS n, repeat('x', 8000000) AS x FROM generate_series(1, 2)`, '/v1/sql', init);
  const left = [ask(0, { signal: leaving.signal }), ask(1, { signal: leaving.signal })];
  const large = [2, 3, 4, 5].map((i) => ask(i));
  assert.deepEqual(await gateway.rows('SELECT 1 AS n'), [{ n: 1 }]);
  leaving.abort();
  await Promise.allSettled(left);
  for (const [i, answer] of (await Promise.all(large)).entries()) {
    assert.equal(answer.status, 200);
    const rows = answer.json.rows as { n: number; x: string }[];
    assert.deepEqual(
      rows.map(({ n, x }) => [n, x.length]),
      [
        [i + 2, 8_000_000],
        [i + 2, 8_000_000],
      ],
    );
  }
});

test('the SQL statement of a client that disconnected is cancelled', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  const client = await database.connect();
  const running = async () => {
    const { rows } = await client.query<{ pid: number }>(
      `select pid from pg_stat_activity where datname = current_database() and query = 'SELECT pg_sleep(20)' and state = 'active'`,
    );
    return rows.map(({ pid }) => pid);
  };
  const leaving = new AbortController();
  const left = gateway.sql('SELECT pg_sleep(20)', '/v1/sql', { signal: leaving.signal });
  left.catch(() => {});
  await within(5_000, async () => assert.equal((await running()).length, 1));
  const [pid] = await running();
  leaving.abort();
  await assert.rejects(left);
  await within(5_000, async () => assert.deepEqual(await running(), []));
  // In another session: the cancel request, if it is late, must not meet the next statement.
  assert.deepEqual(await gateway.rows(`SELECT pg_backend_pid() = ${pid} AS same`), [{ same: false }]);
});

test('SQL requests beyond the number of connections wait for their turn', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => gateway.rows(`SELECT ${n} AS n, pg_sleep(0.005)`)),
  );
  assert.deepEqual(
    answers.map(([row]) => row?.['n']),
    Array.from({ length: 60 }, (_, n) => n),
  );
});

test('the gateway returns request ids and serves health, metrics and the OpenAPI document', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), {
    metrics: { contentType: 'text/plain', text: () => Promise.resolve('metrics') },
  });
  const given = await gateway.sql('SELECT 1', '/v1/sql', { headers: { 'x-request-id': 'abc-1.2/3' } });
  assert.equal(given.headers.get('x-request-id'), 'abc-1.2/3');
  for (const id of ['a b', 'x'.repeat(129), 'a"b']) {
    const { headers } = await gateway.sql('SELECT 1', '/v1/sql', { headers: { 'x-request-id': id } });
    assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/, id);
  }
  assert.deepEqual((await request(`${gateway.url}/v1/healthz`, {})).json, { status: 'ok' });
  assert.equal((await request(`${gateway.url}/v1/metrics`, {})).text, 'metrics');
  const { json } = await request(`${gateway.url}/v1/openapi.json`, {});
  assert.deepEqual(Object.keys(json['paths'] as object).toSorted(), ['/v1/events', '/v1/healthz', '/v1/sql']);
  const seen = gateway.spy.seen.find((it) => it.kind === 'gateway.answered' && it.requestId === 'abc-1.2/3');
  assert(seen?.kind === 'gateway.answered');
  assert.deepEqual([seen.route, seen.status, seen.code, seen.rows], ['sql', 200, 'ok', 1]);
});

test('a result whose reader resets the connection in the middle is reported as answer_aborted', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const told = gateway.spy.next('gateway.answered');
  const sql = "SELECT repeat('x', 1000) FROM generate_series(1, 20000)";
  const { host, hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  onEnd(t, 'socket', () => void socket.destroy());
  socket.write(`POST /v1/sql HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${sql.length}\r\n\r\n${sql}`);
  await once(socket, 'readable');
  socket.resetAndDestroy();
  const { status, code } = await told;
  assert.deepEqual([status, code], [200, 'answer_aborted']);
});

test("a failed SQL statement over HTTP gets 400 with PostgreSQL's message, whatever SQLSTATE its code raises", async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  const [before] = await gateway.rows('SELECT pg_backend_pid() AS pid');
  for (const state of '08000 08001 08006 08P01 53100 53300 57014 57P01 57P02 57P03 57P05 58030 XX000 XX001'.split(
    ' ',
  )) {
    const raise = `DO $$BEGIN RAISE 'it is full' USING ERRCODE = '${state}'; END$$`;
    for (const sql of [raise, `BEGIN; ${raise}`]) {
      const { status, json } = await gateway.sql(sql);
      assert.deepEqual([status, json.code, json.error], [400, state, 'it is full'], sql);
    }
    const view = `CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE 'it is full' USING ERRCODE = '${state}'; END$$`;
    await gateway.rows(view);
    const read = await gateway.sql(JSON.stringify({ sql: 'SELECT f() + $1::int', params: [1] }), '/v1/sql', {
      headers: { 'content-type': 'application/json' },
    });
    assert.deepEqual([read.status, read.json.code, read.json.error], [400, state, 'it is full'], read.text);
  }
  for (const params of [
    [1, 2],
    [[1], { a: 1 }, 3],
  ]) {
    const many = await gateway.sql(JSON.stringify({ sql: 'SELECT $1::text', params }), '/v1/sql', {
      headers: { 'content-type': 'application/json' },
    });
    assert.deepEqual([many.status, many.json.code], [400, '08P01'], many.text);
    assert.match(
      `${many.json.error}`,
      /^bind message supplies \d parameters, but prepared statement "" requires 1$/,
    );
  }
  // The session went on: only a lost one is another.
  assert.deepEqual(await gateway.rows('SELECT pg_backend_pid() AS pid'), [before]);
  const gone = await gateway.sql('SELECT pg_terminate_backend(pg_backend_pid())');
  assert.deepEqual([gone.status, gone.json.code], [503, 'commit_unknown'], gone.text);
});
