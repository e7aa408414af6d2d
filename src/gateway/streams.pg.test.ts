/** GET /v1/events on a real PostgreSQL: no row is left out, wherever it lies and whenever its transaction ends. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { numbers, StreamReader as Reader } from '../../test/support/stream-reader.ts';
import { openTestGateway, request } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { times } from '../../test/support/sample.ts';
import { requireTool } from '../../test/support/tools.ts';
import { within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test('a stream sends committed rows with all their digits to each of its readers', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t));
  await gateway.rows(`CREATE TABLE "a t" (n int, doc jsonb, raw json, big numeric, b bytea, d date[]);
    INSERT INTO "a t" VALUES (0)`);
  const readers = await Promise.all([1, 2, 3].map(() => Reader.open(t, gateway, 'name="a%20t"')));
  assert.equal(readers[0]?.response.headers.get('content-type'), 'text/event-stream');
  await gateway.rows(
    `INSERT INTO "a t" VALUES (1, '{"x": 12345678901234567890.10}', E'{"a":\\n 1}', 1.50, '\\x00', '{2026-01-02}')`,
  );
  for (const reader of readers)
    assert.equal(
      (await reader.next())?.data,
      '{"n":1,"doc":{"x": 12345678901234567890.10},"raw":{"a":  1},"big":1.50,"b":"\\\\x00","d":["2026-01-02"]}',
    );
  await gateway.rows('INSERT INTO "a t" (n) VALUES (2), (3); UPDATE "a t" SET n = 4 WHERE n = 0');
  for (const reader of readers) assert.deepEqual(numbers(await reader.rows(3)), [2, 3, 4]);
  // From the beginning; and from where the first one was.
  const all = await Reader.open(t, gateway, 'name=public."a%20t"&after=0');
  assert.deepEqual(numbers(await all.rows(4)), [1, 2, 3, 4]);
  assert.equal(gateway.door.load.requests, 4);
});

test('streams include rows that commit late and rows in reused space', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows(`CREATE TABLE t (n int, filler text) WITH (autovacuum_enabled = off);
    INSERT INTO t SELECT -i, repeat('x', 500) FROM generate_series(1, 30000) i;
    DELETE FROM t WHERE n BETWEEN -20000 AND -1`);
  const client = await database.connect();
  await client.query('VACUUM (TRUNCATE off) t');
  const reader = await Reader.open(t, gateway, 'name=t');
  const late = await database.connect();
  await late.query("BEGIN; INSERT INTO t VALUES (1, 'late')");
  await client.query("INSERT INTO t SELECT i, repeat('y', 500) FROM generate_series(2, 4000) i");
  await late.query('COMMIT');
  assert.deepEqual(numbers(await reader.rows(4000)), range(1, 4000));
  // Rewritten, rows have other places: what came since is told, and nothing that came before.
  await client.query('VACUUM FULL t');
  await client.query('INSERT INTO t VALUES (4001)');
  const again = await reader.upTo(4001);
  assert.ok(again.every((n) => n > 0));
  await client.query('TRUNCATE t; INSERT INTO t VALUES (4002)');
  await reader.upTo(4002);
});

test('a row locked in psql delays no stream, and is sent once it is changed', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE t (n int); CREATE TABLE other (n int); INSERT INTO t VALUES (0), (0)');
  const psql = spawn('psql', ['-XAtqd', database.connectionString], { stdio: ['pipe', 'pipe', 'inherit'] });
  onEnd(t, 'psql', () => void psql.kill());
  psql.stdin.write('BEGIN; SELECT n FROM t LIMIT 1 FOR UPDATE;\n');
  assert.equal(String((await once(psql.stdout, 'data'))[0]), '0\n');
  const readers = await Promise.all([
    Reader.open(t, gateway, 'name=t'),
    Reader.open(t, gateway, 'name=other'),
  ]);
  await gateway.rows('INSERT INTO t VALUES (1); INSERT INTO other VALUES (1)');
  for (const reader of readers) assert.deepEqual(numbers(await reader.rows(1)), [1]);
  const place = readers[0]?.place ?? '';
  readers[0]?.leave();
  // It has written nothing yet: what it writes has a number that the reader has passed.
  psql.stdin.end('UPDATE t SET n = 2 WHERE ctid = (SELECT min(ctid) FROM t); COMMIT;\n');
  await once(psql, 'exit');
  const again = await Reader.open(t, gateway, `name=t&after=${place}`);
  assert.deepEqual(numbers(await again.rows(1)), [2]);
});

test('a stream reader resumes at its position, however often', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  const client = await database.connect();
  await client.query('CREATE TABLE t (n int, filler text)');
  const insert = (from: number, to: number) =>
    client.query(`INSERT INTO t SELECT i, repeat('z', 900) FROM generate_series(${from}, ${to}) i`);
  const seen = new Set<number>();
  let twice = 0;
  let reader = await Reader.open(t, gateway, 'name=t');
  for (let round = 0; round < 5; round++) {
    const writing = insert(round * 2_000 + 1, round * 2_000 + 2_000);
    for (let i = 0; i < 700 + round * 200; i++) {
      const [row] = await reader.rows(1);
      if (seen.has(Number(row?.['n']))) twice += 1;
      seen.add(Number(row?.['n']));
    }
    reader.leave();
    await writing;
    reader =
      round % 2 === 0
        ? await Reader.open(t, gateway, 'name=t', { 'last-event-id': reader.place })
        : await Reader.open(t, gateway, `name=t&after=${reader.place}`);
  }
  while (seen.size < 10_000) {
    const [row] = await reader.rows(1);
    if (seen.has(Number(row?.['n']))) twice += 1;
    seen.add(Number(row?.['n']));
  }
  assert.deepEqual(
    [...seen].toSorted((a, b) => a - b),
    range(1, 10_000),
  );
  // A batch of 256 KiB at most is told again.
  assert.ok(twice <= 5 * 300, String(twice));
});

test('a slow stream reader delays nobody, holds no transaction, and gets every row in the end', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  const client = await database.connect();
  await client.query('CREATE TABLE t (n int, filler text)');
  const fast = await Reader.open(t, gateway, 'name=t');
  const slow = await Reader.open(t, gateway, 'name=t');
  const rows = 16_000;
  // 30 MB: more than is held, and than sockets take.
  const writing = client.query(
    `INSERT INTO t SELECT i, repeat('s', 1900) FROM generate_series(1, ${rows}) i`,
  );
  assert.deepEqual(numbers(await fast.rows(rows)), range(1, rows));
  await writing;
  const { rows: open } = await client.query<{ n: string }>(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'",
  );
  assert.equal(open[0]?.n, '0');
  const seen = new Set<number>();
  while (seen.size < rows) seen.add(numbers(await slow.rows(1))[0] ?? 0);
  assert.deepEqual(
    [...seen].toSorted((a, b) => a - b),
    range(1, rows),
  );
});

test('a stream sends small and very large rows of one table, and ends at a row that is too large', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  const client = await database.connect();
  await client.query(`CREATE TABLE t (n int, filler text); ALTER TABLE t ALTER filler SET STORAGE EXTERNAL`);
  const reader = await Reader.open(t, gateway, 'name=t');
  await client.query(`INSERT INTO t SELECT i, repeat('l', CASE WHEN i % ${times(150, 50)} = 0 THEN 8000000 ELSE 10 END)
    FROM generate_series(1, 300) i`);
  const seen = new Set<number>();
  while (seen.size < 300) seen.add(numbers(await reader.rows(1))[0] ?? 0);
  assert.deepEqual(
    [...seen].toSorted((a, b) => a - b),
    range(1, 300),
  );
  await client.query("INSERT INTO t VALUES (301, repeat('m', 30000000))");
  const end = await reader.next();
  assert.deepEqual([end?.event, JSON.parse(end?.data ?? '{}').code], ['refused', 'result_too_large']);
});

test('a stream of a table that is renamed or rewritten sends all its rows and no rows of another table', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  const client = await database.connect();
  await client.query('CREATE TABLE t (n int, filler text)');
  const reader = await Reader.open(t, gateway, 'name=t');
  const late = await Reader.open(t, gateway, 'name=t&after=0');
  const seen = new Set<number>();
  const reading = (async () => {
    while (!seen.has(9_999)) seen.add(numbers(await reader.rows(1))[0] ?? 0);
  })();
  for (let round = 0; round < 20; round++) {
    await client.query(`INSERT INTO t SELECT i, repeat('r', 700)
      FROM generate_series(${round * 100 + 1}, ${round * 100 + 100}) i`);
    if (round % 5 === 1) await client.query('VACUUM FULL t');
    if (round % 5 !== 3) continue;
    await client.query('ALTER TABLE t RENAME TO t_before; CREATE TABLE t (n int); INSERT INTO t VALUES (-1)');
    await client.query('DROP TABLE t; ALTER TABLE t_before RENAME TO t');
  }
  await client.query('INSERT INTO t VALUES (9999)');
  await reading;
  // A straggler of a rewrite may be told behind the last one.
  while (seen.size < 2_001) seen.add(numbers(await reader.rows(1))[0] ?? 0);
  assert.deepEqual(
    [...seen].toSorted((a, b) => a - b),
    [...range(1, 2_000), 9_999],
  );
  const other = new Set<number>();
  while (other.size < 2_001) other.add(numbers(await late.rows(1))[0] ?? 0);
  assert.ok(!other.has(-1));
});

test("a relation that cannot be streamed is refused, and the reason for a stream's end is sent in it", async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows(`CREATE TABLE t (n int); CREATE VIEW v AS SELECT * FROM t; CREATE TABLE gone (n int);
    CREATE TABLE parts (n int) PARTITION BY RANGE (n); CREATE TABLE other (n int)`);
  const get = (query: string, headers: Record<string, string> = {}) =>
    request(`${gateway.url}/v1/events?${query}`, { headers });
  const reader = await Reader.open(t, gateway, 'name=gone');
  const other = await Reader.open(t, gateway, 'name=other');
  const [first = '', xid = '0'] = other.place.split('-');
  for (const [query, status, code] of [
    ['', 400, 'malformed_query'],
    ['name=', 400, 'malformed_query'],
    ['name=t&name=t', 400, 'malformed_query'],
    ['name=t&on_error=skip', 400, 'malformed_query'],
    ['name=t&after=x', 400, 'malformed_query'],
    [`name=t&after=1.2-3${'-1.2'.repeat(100)}`, 400, 'malformed_query'],
    [`name=t&after=${'9'.repeat(5_000)}`, 400, 'malformed_query'],
    ['name=nothing', 404, 'relation_not_found'],
    ["name='; DROP TABLE t; --", 404, 'relation_not_found'],
    ['name=v', 400, 'relation_not_streamed'],
    ['name=parts', 400, 'relation_not_streamed'],
    [`name=t&after=${other.place}`, 410, 'position_lost'],
    [`name=other&after=${first}-${BigInt(xid) + 1_000_000n}`, 410, 'position_lost'],
    [`name=other&after=${first}-${xid}-65536.9999999999`, 410, 'position_lost'],
    ['name=t&database=another', 404, 'database_unknown'],
  ] as const) {
    const { json, status: got, text } = await get(query);
    assert.deepEqual([got, json.code], [status, code], `${query}: ${text}`);
  }
  assert.equal((await request(`${gateway.url}/v1/events?name=t`, { method: 'HEAD' })).status, 405);
  await gateway.rows('DROP TABLE gone');
  assert.deepEqual(await reader.next(), {
    id: null,
    event: 'refused',
    data: '{"error":"no such table","code":"relation_not_found"}',
  });
  assert.equal(await reader.next(), null);
  // What is open when the gateway stops is told to come again, and is not waited for.
  const drained = gateway.door.drain();
  assert.equal(await other.next(), null);
  assert.equal(other.broken, false, 'the end was told');
  assert.equal(await within(5_000, drained, 'late'), undefined);
});

test('a stream ends when its role loses the right to read', async (t) => {
  const database = await testDatabase(t);
  const role = `reader_${database.name}`;
  const client = await database.connect();
  await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p'; CREATE TABLE t (n int, mine bool);
    ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON t TO ${role} USING (mine); CREATE TABLE secret (n int)`);
  onEnd(t, 'role', async () => void (await client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)));
  const gateway = await openTestGateway(t, database, {
    instead: (deps) => ({
      ...deps,
      sql: {
        ...deps.sql,
        clientConfig: (name) => ({ ...deps.sql.clientConfig(name), user: role, password: 'p' }),
      },
    }),
  });
  await client.query(`GRANT SELECT ON t TO ${role}`);
  const reader = await Reader.open(t, gateway, 'name=t');
  await client.query('INSERT INTO t VALUES (1, false), (2, true)');
  assert.equal((await reader.next())?.data, '{"n":2,"mine":true}');
  const hidden = await request(`${gateway.url}/v1/events?name=secret&after=0`, {});
  assert.equal(hidden.status, 400);
  assert.deepEqual(hidden.json, { error: 'permission denied for table "public"."secret"', code: '42501' });
  await client.query(`REVOKE SELECT ON t FROM ${role}; INSERT INTO t VALUES (3, true)`);
  assert.match((await reader.next())?.data ?? '', /permission denied for table/);
});

test('a stream reader that reads nothing is cut off, and an ended stream releases its table', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database, { limits: { ...limits, gatewayReadPauseMs: 300 } });
  const client = await database.connect();
  await client.query('CREATE TABLE t (n int, filler text)');
  const cutOff = gateway.spy.next('gateway.answered');
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(
    'GET /v1/events?name=t&after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.replace(
      '127.0.0.1',
      new URL(gateway.url).host,
    ),
  );
  await once(socket, 'readable');
  socket.pause();
  await client.query("INSERT INTO t SELECT i, repeat('s', 1000) FROM generate_series(1, 40000) i");
  const answered = await cutOff;
  assert.equal(answered.route, 'stream');
  assert.ok(answered.rows > 0 && answered.rows < 40_000);
  socket.destroy();
});
