/** POST /v1/events on a real PostgreSQL. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { openTestGateway } from '../../test/support/gateway.ts';
import type { TestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { within } from '../../test/support/within.ts';

const count = async (gateway: TestGateway, table: string): Promise<unknown> =>
  (await gateway.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.['n'];

test('the gateway distinguishes one JSON object from several lines', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE t (id bigint, name text, doc jsonb)');
  const bodies: readonly (readonly [string, number])[] = [
    ['{"id":1}', 1],
    ['{"id":1}\n', 1],
    ['{"id":1}\r\n{"id":2}\r\n', 2],
    ['\n\n {"id":1}\n\n\t{"id":2} \n \n', 2],
    ['{\n  "id": 1,\n  "doc": {\n    "a": [1,\n 2]}\n}\n', 1],
    ['{}', 1],
    ['{"name":null,"unknown":1}\n{"id":2,"unknown":{"x":1}}', 2],
    ['{"id":12345678901,"name":"é😀\\u0041","doc":12345678901234567890.10}', 1],
  ];
  for (const [body, rows] of bodies) {
    for (const type of [
      'application/json',
      'application/x-ndjson',
      'application/x-www-form-urlencoded',
      '',
    ]) {
      const { status, json, text } = await gateway.events('name=t', body, { 'content-type': type });
      assert.deepEqual([status, json.rows], [200, rows], `${type} ${body}: ${text}`);
    }
  }
  assert.equal(await count(gateway, 't'), bodies.reduce((sum, [, rows]) => sum + rows, 0) * 4);
  const { text } = await gateway.sql('SELECT name, doc FROM t WHERE id = 12345678901 LIMIT 1');
  assert.match(text, /\{"name":"é😀A","doc":12345678901234567890.10\}/);
});

test('/v1/events stores rows in tables with defaults, generated and identity columns, views and partitions', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows(`CREATE SCHEMA app; CREATE SCHEMA "Od.d";
    CREATE TABLE app.full_table (id bigint GENERATED ALWAYS AS IDENTITY, n int DEFAULT 7, twice int GENERATED ALWAYS AS (n * 2) STORED,
      at timestamptz DEFAULT now(), tags text[], serial_no serial, said text NOT NULL DEFAULT 'x');
    CREATE TABLE "Od.d"."My ""Table" ("A b" int, "é" text);
    CREATE VIEW app.seen AS SELECT n, said FROM app.full_table;
    CREATE TABLE app.parted (n int, v text) PARTITION BY LIST (n); CREATE TABLE app.parted_1 PARTITION OF app.parted FOR VALUES IN (1)`);
  const good: readonly (readonly [string, string])[] = [
    ['app.full_table', '{"tags":["a","b"]}\n{"n":null,"id":99,"twice":5}\n{"n":3}'],
    ['"app"."full_table"', '{}'],
    ['"Od.d"."My ""Table"', '{"A b":1,"é":"x"}'],
    ['app.seen', '{"n":9,"said":"x"}'],
    ['app.parted', '{"n":1,"v":"x"}'],
  ];
  for (const [name, body] of good) {
    const { status, text } = await gateway.events(`name=${encodeURIComponent(name)}`, body);
    assert.equal(status, 200, `${name}: ${text}`);
  }
  const rows = await gateway.rows(
    'SELECT id, n, twice, tags, serial_no, said FROM app.full_table ORDER BY id',
  );
  assert.deepEqual(rows, [
    { id: 1, n: 7, twice: 14, tags: ['a', 'b'], serial_no: 1, said: 'x' },
    { id: 2, n: null, twice: null, tags: null, serial_no: 2, said: 'x' },
    { id: 3, n: 3, twice: 6, tags: null, serial_no: 3, said: 'x' },
    { id: 4, n: 7, twice: 14, tags: null, serial_no: 4, said: 'x' },
    { id: 5, n: 9, twice: 18, tags: null, serial_no: 5, said: 'x' },
  ]);
});

test('/v1/events follows a table that was just created, altered, dropped or recreated', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  assert.equal((await gateway.events('name=t', '{"a":1}')).json.code, 'relation_not_found');
  await gateway.rows('CREATE TABLE t (a int)');
  assert.equal((await gateway.events('name=t', '{"a":1,"b":2}')).status, 200);
  await gateway.rows('ALTER TABLE t ADD COLUMN b int');
  assert.equal((await gateway.events('name=t', '{"a":1,"b":2}')).status, 200);
  assert.deepEqual(await gateway.rows('SELECT b FROM t ORDER BY b'), [{ b: 2 }, { b: null }]);
  await gateway.rows('DROP TABLE t; CREATE TABLE t (b text)');
  assert.equal((await gateway.events('name=t', '{"b":"x"}')).status, 200);
  await gateway.rows('ALTER TABLE t RENAME TO u');
  assert.equal((await gateway.events('name=t', '{"b":"x"}')).status, 404);
  assert.equal(await count(gateway, 'u'), 1);
});

test('on_conflict of /v1/events replaces, ignores or refuses rows whose key exists', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows(
    "CREATE TABLE t (id int PRIMARY KEY, v text, w text DEFAULT 'w'); INSERT INTO t VALUES (1, 'old')",
  );
  const refused = await gateway.events('name=t', '{"id":2}\n{"id":1,"v":"x"}\n{"id":3}');
  assert.deepEqual(
    [refused.status, refused.json.error, refused.json['line']],
    [422, 'line 2: the row violates the constraint t_pkey', 2],
  );
  assert.equal(
    (await gateway.events('name=t&on_conflict=ignore', '{"id":1,"v":"y"}\n{"id":2,"v":"y"}')).status,
    200,
  );
  assert.equal(
    (
      await gateway.events(
        'name=t&on_conflict=update',
        '{"id":2,"v":"a"}\n{"id":3,"v":"b"}\n{"id":2,"v":"c"}',
      )
    ).status,
    200,
  );
  assert.deepEqual(await gateway.rows('SELECT id, v FROM t ORDER BY id'), [
    { id: 1, v: 'old' },
    { id: 2, v: 'c' },
    { id: 3, v: 'b' },
  ]);
});

test('on_error=skip of /v1/events stores the good lines and lists the others, in small and large bodies', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n < 10), v text)');
  const body =
    '{"id":1}\n[]\n{"id":2,"n":"x"}\n\n{"id":3,"n":99}\n{"id":1}\n{"id":4,"v":"\\u0000"}\n{"id":5}\n{"v":"no id"}\n{';
  const small = await gateway.events('name=t&on_error=skip', body);
  assert.equal(small.status, 200, small.text);
  assert.equal(small.json.rows, 2);
  assert.deepEqual(small.json['skipped'], [
    { line: 2, error: 'it is not a JSON object' },
    { line: 3, error: 'column "n": invalid input syntax for type integer: "x"' },
    { line: 5, error: 'the row violates the constraint t_n_check' },
    { line: 6, error: 'the row violates the constraint t_pkey' },
    { line: 7, error: '\\u0000 cannot be stored at byte 13' },
    { line: 9, error: 'column "id" must not be null' },
    { line: 10, error: 'it ends in the middle at byte 1' },
  ]);
  assert.deepEqual(await gateway.rows('SELECT id FROM t ORDER BY id'), [{ id: 1 }, { id: 5 }]);
  const none = await gateway.events('name=t&on_error=skip', 'x\n{"id":1}');
  assert.deepEqual([none.status, none.json.rows, none.json['skippedTotal']], [200, 0, 2]);
  // Large: its first line is no JSON, and every hundredth is bad in another way.
  const lines = Array.from({ length: 6_000 }, (_, n) =>
    n === 0 ? 'nonsense' : n % 100 === 0 ? '{"id":"x"}' : `{"id":${n + 10},"v":"${'v'.repeat(380)}"}`,
  );
  const large = await gateway.events('name=t&on_error=skip', lines.join('\n'));
  assert.equal(large.status, 200, large.text);
  assert.deepEqual([large.json.rows, large.json['skippedTotal']], [5_940, 60]);
  assert.deepEqual(
    (large.json['skipped'] as { line: number }[]).map(({ line }) => line),
    [1, ...Array.from({ length: 59 }, (_, n) => (n + 1) * 100 + 1)],
  );
  assert.equal(await count(gateway, 't'), 5_942);
});

test('a large event body is stored as a whole or not at all', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows(
    'CREATE TABLE t (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, v text); CREATE TABLE u (id int PRIMARY KEY, n int, v text)',
  );
  const line = (n: number) => `{"id":${n},"n":${n},"v":"${'v'.repeat(740)}"}`;
  const many = Array.from({ length: 3_000 }, (_, n) => line(n));
  const body = many.join('\n');
  assert.equal((await gateway.events('name=t', body)).json.rows, 3_000);
  assert.equal(await count(gateway, 't'), 3_000);
  assert.equal(
    (await gateway.events('name=u', gzipSync(body), { 'content-encoding': 'gzip' })).json.rows,
    3_000,
  );
  await gateway.rows('TRUNCATE t, u');
  const bad: readonly (readonly [string[], RegExp])[] = [
    [many.with(2_500, '{"id":1,"n":"x"}'), /^line 2501: column "n": invalid input syntax/],
    [many.with(2_500, '{"id":'), /^line 2501: it ends in the middle/],
    [many.with(2_999, line(5)), /^line 3000: the row violates the constraint u_pkey/],
    [many.with(0, '['), /array/],
    [many.with(1_500, '[]'), /^line 1501: it is not a JSON object/],
    [
      many.with(1_500, `{"v":"${'v'.repeat(17 * 2 ** 20)}"}`),
      /^line 1501: a line has at most 16777216 bytes/,
    ],
  ];
  for (const [lines, error] of bad) {
    const { json, status, headers } = await gateway.events('name=u', lines.join('\n'));
    assert.match(json.error ?? '', error);
    // The rest of a body is read away at once, and does not cost its connection.
    if (status === 422) assert.notEqual(headers.get('connection'), 'close', json.error);
    assert.ok(status === 422 || status === 413, String(status));
    assert.equal(await count(gateway, 'u'), 0);
  }
  // The engine says it at COMMIT, and not which line it was.
  const deferred = await gateway.events('name=t', many.with(2_999, line(5)).join('\n'));
  assert.deepEqual(
    [deferred.status, deferred.json.error, await count(gateway, 't')],
    [422, 'the row violates the constraint t_id_key', 0],
  );
  const upserted = await gateway.events('name=u&on_conflict=update', [...many, ...many].join('\n'));
  assert.equal(upserted.json.rows, 6_000);
  assert.equal(await count(gateway, 'u'), 3_000);
});

test('the gateway stores one large object over many lines as one row', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows('CREATE TABLE t (doc jsonb)');
  const doc = JSON.stringify(
    { doc: Array.from({ length: 100_000 }, (_, n) => ({ n, s: 'x'.repeat(10) })) },
    null,
    2,
  );
  assert.ok(doc.length > 2 * 2 ** 20);
  assert.equal((await gateway.events('name=t', doc)).json.rows, 1);
  assert.deepEqual(await gateway.rows('SELECT jsonb_array_length(doc) AS n FROM t'), [{ n: 100_000 }]);
  const broken = await gateway.events('name=t', `${doc.slice(0, -2)},`);
  assert.deepEqual([broken.status, await count(gateway, 't')], [422, 1]);
});

test('a sender that disconnects within a large event body stores nothing', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE t (v text)');
  const client = await database.connect();
  const open = async () =>
    (
      await client.query(
        // It has stored rows, and has gone on to other statements.
        'select from pg_stat_activity where datname = current_database() and backend_xid is not null',
      )
    ).rowCount;
  const sending = httpRequest(`${gateway.url}/v1/events?name=t`, { method: 'POST' });
  sending.on('error', () => {});
  sending.write(`{"v":"${'x'.repeat(100)}"}\n`.repeat(60_000));
  await within(10_000, async () => assert.equal(await open(), 1));
  sending.destroy();
  await within(10_000, async () => assert.equal(await open(), 0));
  assert.equal(await count(gateway, 't'), 0);
});

test('a short idle_in_transaction_session_timeout does not end the transaction of a slow event body', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  const short = ['idle_in_transaction_session_timeout', 'transaction_timeout'];
  const { rows } = await client.query<{ name: string }>('select name from pg_settings where name = any($1)', [
    short,
  ]);
  for (const { name } of rows) await client.query(`alter database ${database.name} set ${name} = '600ms'`);
  const gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE t (v text)');
  const sending = httpRequest(`${gateway.url}/v1/events?name=t`, { method: 'POST' });
  const answered = once(sending, 'response') as Promise<[{ statusCode: number; resume(): void }]>;
  const line = `{"v":"${'x'.repeat(100)}"}\n`;
  sending.write(line.repeat(20_000));
  const idle = `select from pg_stat_activity where datname = current_database() and state = 'idle in transaction'
    and state_change < clock_timestamp() - interval '800 ms'`;
  await within(10_000, async () => assert.equal((await client.query(idle)).rowCount, 1));
  sending.end(line);
  const [response] = await answered;
  response.resume();
  assert.deepEqual([response.statusCode, await count(gateway, 't')], [200, 20_001]);
});

test('a fifth large event body at one time gets 503, and is stored later', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE t (v text)');
  const body = `{"v":"${'x'.repeat(100)}"}\n`.repeat(20_000);
  const open = Array.from({ length: 4 }, () => {
    const sending = httpRequest(`${gateway.url}/v1/events?name=t`, { method: 'POST' });
    sending.write(body);
    return sending;
  });
  const client = await database.connect();
  const streams = `select from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`;
  await within(10_000, async () => assert.equal((await client.query(streams)).rowCount, 4));
  const late = async () => (await gateway.events('name=t', body)).status;
  assert.equal(await late(), 503);
  for (const sending of open) {
    sending.end();
    const [response] = (await once(sending, 'response')) as [{ statusCode: number; resume(): void }];
    response.resume();
    assert.equal(response.statusCode, 200);
  }
  assert.equal(await late(), 200);
});
