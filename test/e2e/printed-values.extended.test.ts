/**
 * Databases and roles whose settings change how values are written and read as text (DateStyle, TimeZone, bytea_output, extra_float_digits and
 * others), on two versions of PostgreSQL: defaults that Headgate reads from PostgreSQL and gives back to it, rows by /v1/events, parameters of
 * /v1/sql, and statements that a client is shown. What is right is said by a session that has PostgreSQL's own settings.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { isLong, sampleOf } from '../support/sample.ts';
import { debianBin, embeddedBin, startServer } from '../support/server.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

/** Of the database, and then of the role, which take precedence. */
const settings = [
  {},
  {
    DateStyle: 'SQL, DMY',
    TimeZone: 'Asia/Kolkata',
    IntervalStyle: 'sql_standard',
    bytea_output: 'escape',
    extra_float_digits: '-15',
    array_nulls: 'off',
    xmloption: 'document',
    transform_null_equals: 'on',
    default_transaction_isolation: 'serializable',
    standard_conforming_strings: 'off',
    quote_all_identifiers: 'on',
    search_path: 'evil, "$user", public, pg_catalog',
  },
  { DateStyle: 'German', TimeZone: 'Asia/Shanghai', IntervalStyle: 'iso_8601' },
  { DateStyle: 'Postgres, DMY', TimeZone: '<+1230>-12:30' },
];

/** Whatever finds these first gets them. */
const evil = `CREATE SCHEMA evil;
  CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '1999-01-01' $$;
  CREATE FUNCTION evil.format(text, name, name) RETURNS text LANGUAGE sql AS $$ SELECT 'pg_class' $$;
  CREATE FUNCTION evil.encode(bytea, text) RETURNS text LANGUAGE sql AS $$ SELECT 'evil' $$;
  CREATE FUNCTION evil.never(timestamptz, interval) RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz 'infinity' $$;
  CREATE OPERATOR evil.- (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = evil.never)`;

const table = `CREATE SCHEMA shop; CREATE TABLE shop.vals (id int PRIMARY KEY, at timestamptz, f float8, n numeric, b bytea, tags text[],
  moments timestamptz[], span interval, since timestamptz DEFAULT '2026-01-01 00:00:00+00'::timestamptz, ratio float8 DEFAULT 2.9979245799999998::float8,
  every interval DEFAULT '-1 days 02:03:04'::interval, raw bytea DEFAULT '\\x00ff5c'::bytea, note text DEFAULT 'a\\b') INCLUDE TIMESTAMP AS received_at
  WITH (connector = 'webhook', dedupe = 'header:x-id', keep = '12 hours');
  CREATE TABLE shop.plain (id int, at timestamptz, tags text[], since timestamptz DEFAULT '2026-01-01 00:00:00+00'::timestamptz)
    WITH (connector = 'webhook')`;
const row = String.raw`{"id":1,"at":"2026-03-04T05:06:07.123456Z","f":0.1,"n":12345678901234567890.10,"b":"\\x00ff5c",
  "tags":["a",null,"NULL","x\\y"],"moments":["2026-03-04T05:06:07Z",null],"span":"1 day 02:03:04"}`;

/** What PostgreSQL itself says of the stored row, in a session with its defaults. */
const right = String.raw`SELECT at = timestamptz '2026-03-04 05:06:07.123456+00' AND f = 0.1::float8 AND n::text = '12345678901234567890.10'
  AND b = '\x00ff5c'::bytea AND tags IS NOT DISTINCT FROM ARRAY['a', NULL, 'NULL', 'x\y'] AND moments IS NOT DISTINCT FROM
  ARRAY[timestamptz '2026-03-04 05:06:07+00', NULL] AND span = interval '1 day 02:03:04' AND since = timestamptz '2026-01-01 00:00:00+00'
  AND ratio = 2.9979245799999998::float8 AND every::text = '-1 days +02:03:04' AND raw = '\x00ff5c'::bytea AND note = 'a\b'
  AND received_at BETWEEN now() - interval '1 minute' AND now() AS yes FROM shop.vals WHERE id = 1`;

/** Each value as /v1/sql and a stream write it, but for the zone and the style of intervals, which are the database's. */
const written = {
  id: 1,
  f: 0.1,
  b: String.raw`\x00ff5c`,
  tags: ['a', null, 'NULL', String.raw`x\y`],
  ratio: 2.9979245799999998,
  raw: String.raw`\x00ff5c`,
  note: String.raw`a\b`,
};
const iso = /^2026-03-0[34] \d\d:\d\d:07\.123456[+-]\d\d(:\d\d)?$/;

/** PostgreSQL's defaults for everything above. */
const defaults =
  `-c DateStyle=ISO,MDY -c TimeZone=UTC -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1 -c array_nulls=on
  -c standard_conforming_strings=on -c quote_all_identifiers=off -c search_path=public -c default_transaction_isolation=read\\ committed`.replaceAll(
    /\s+-c/g,
    ' -c',
  );

async function stage(
  t: TestContext,
  bin: string,
  given: Readonly<Record<string, string>>,
  of: 'database' | 'role',
) {
  const server = await startServer(bin);
  onEnd(t, 'server', () => server.close());
  const client = new Client({
    host: server.socketDir,
    user: 'root',
    database: 'postgres',
    options: defaults,
  });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  await client.query(evil);
  for (const [name, value] of Object.entries(given))
    await client.query(
      `ALTER ${of === 'role' ? 'ROLE root' : 'DATABASE postgres'} SET ${name} = ${name === 'search_path' ? value : `'${value}'`}`,
    );
  const url = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
  const headgate = await startHeadgate(t, {
    env: { HEADGATE_DATABASE_URL: url, HEADGATE_MASTER_KEY: randomBytes(32).toString('base64') },
  });
  const door = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    user: 'root',
    database: 'postgres',
    options: defaults,
  });
  door.on('error', () => {});
  await door.connect();
  onEnd(t, 'door', () => door.end());
  await door.query(table);
  return { client, door, headgate, url };
}

/** The first row of a stream as a line. */
async function streamed(t: TestContext, gateway: string): Promise<Record<string, unknown>> {
  const ending = new AbortController();
  onEnd(t, 'stream', () => ending.abort());
  const answer = await fetch(`${gateway}/v1/events?name=shop.vals&after=0`, {
    headers: { accept: 'application/x-ndjson' },
    signal: ending.signal,
  });
  assert.equal(answer.status, 200);
  let text = '';
  assert(answer.body !== null);
  for await (const piece of answer.body) {
    text += Buffer.from(piece as Uint8Array).toString();
    const line = text.split('\n').find((it) => it.includes('"row"'));
    if (line !== undefined && text.includes(`${line}\n`))
      return (JSON.parse(line) as { row: Record<string, unknown> }).row;
  }
  throw new Error(`the stream ended: ${text}`);
}

const versions = { 15: debianBin, 18: embeddedBin };
/** On one version: PostgreSQL's defaults, with which the others are compared, and the worst ones or others. */
const [tried] = sampleOf(Object.keys(versions), 1);
const [others] = sampleOf([1, 1, 2, 3], 1);
const isTried = (version: string, index: number): boolean =>
  isLong || (version === tried && [0, others].includes(index));
suite('rows do not depend on settings of a database or role that change texts', { timeout: 300_000 }, () => {
  /** What was exported and shown with PostgreSQL's defaults, by version. */
  const first = new Map<string, unknown>();
  for (const [version, bin] of Object.entries(versions))
    for (const [index, given] of settings.entries()) {
      if (!isTried(version, index)) continue;
      test(`rows are stored and exported alike on PostgreSQL ${version} with ${JSON.stringify(given).slice(0, 60)}`, async (t) => {
        const { client, door, headgate, url } = await stage(t, bin, given, index === 2 ? 'role' : 'database');
        const path = 'postgres/shop/vals';
        assert.equal((await headgate.post(path, row, { 'x-id': '1' })).status, 200);
        assert.equal((await headgate.post(path, row, { 'x-id': '1' })).status, 200, 'once');
        assert.deepEqual((await client.query(right)).rows, [{ yes: true }]);
        assert.equal(
          (
            await headgate.post(
              'postgres/shop/plain',
              row.replace(/"f":.*?"tags"/s, '"tags"').replace(/,"moments".*/s, '}'),
            )
          ).status,
          200,
        );
        const plain =
          await client.query(String.raw`SELECT tags IS NOT DISTINCT FROM ARRAY['a', NULL, 'NULL', 'x\y']
          AND since = timestamptz '2026-01-01 00:00+00' AND at = timestamptz '2026-03-04 05:06:07.123456+00' AS yes FROM shop.plain`);
        assert.deepEqual(plain.rows, [{ yes: true }]);

        // The gateway: events in, rows out, and a statement's own SET.
        const event = row.replace('"id":1', '"id":2');
        const events = await asked(`${headgate.gatewayUrl}/v1/events?name=shop.vals`, {
          method: 'POST',
          body: event,
        });
        assert.equal(events.status, 200, events.text);
        assert.deepEqual(
          (
            await client.query(
              right.replace('id = 1', 'id = 2').replace(/AND received_at.*AS yes/s, 'AS yes'),
            )
          ).rows,
          [{ yes: true }],
        );
        const sql = async (body: string) => asked(`${headgate.gatewayUrl}/v1/sql`, { method: 'POST', body });
        const told = JSON.parse((await sql('SELECT * FROM shop.vals WHERE id = 1')).text) as {
          rows: Record<string, unknown>[];
        };
        for (const it of [told.rows[0] ?? {}, await streamed(t, headgate.gatewayUrl)]) {
          const { at, moments } = it;
          assert.deepEqual(Object.fromEntries(Object.keys(written).map((key) => [key, it[key]])), written);
          assert.match(String(at), iso);
          const same = await client.query(
            'SELECT $1::timestamptz = at AND $2::timestamptz[] IS NOT DISTINCT FROM moments AS yes FROM shop.vals WHERE id = 1',
            [at, moments],
          );
          assert.deepEqual(same.rows, [{ yes: true }]);
        }
        const own = await sql(
          `SET TimeZone = 'UTC'; SET DateStyle = 'German'; SET bytea_output = 'escape'; SELECT at, b FROM shop.vals WHERE id = 1`,
        );
        assert.match(own.text, /\{"at":"04\.03\.2026 05:06:07\.123456 UTC","b":"\\\\000\\\\377\\\\\\\\"\}/);
        const params = await sql(
          JSON.stringify({ sql: 'SELECT $1::text[] AS a, $2::float8 AS f', params: [['x', null], 0.1] }),
        );
        assert.match(params.text, /"rows":\[\{"a":\["x",null\],"f":0\.1\}\]/);

        // A refused request, and its retry.
        assert.equal(
          (
            await headgate.post(path, row.replace('"id":1', '"id":3').replace('1 day', 'one day'), {
              'x-id': '3',
            })
          ).status,
          422,
        );
        await within(10_000, async () => {
          const { rows } =
            await client.query(`SELECT received_at BETWEEN now() - interval '1 minute' AND now() AS recent, convert_from(body, 'UTF8') LIKE '%one day%' AS whole,
            retry_outcome, headers_left_out::text AS left_out, query IS NULL AS null_stays FROM (SELECT r.*, r.retry_reason AS query FROM headgate.rejected_requests r) r`);
          assert.deepEqual(rows, [
            { recent: true, whole: true, retry_outcome: null, left_out: '{}', null_stays: true },
          ]);
        });
        await client.query(`ALTER TABLE shop.vals ALTER span TYPE text USING span::text`);
        await within(10_000, async () => {
          await door.query(
            `SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests WHERE retry_outcome IS DISTINCT FROM 'committed' AND retry_outcome IS DISTINCT FROM 'running'`,
          );
          assert.deepEqual(
            (await client.query('SELECT retry_outcome FROM headgate.rejected_requests')).rows,
            [{ retry_outcome: 'committed' }],
          );
        });
        assert.deepEqual(
          (
            await client.query(
              `SELECT span, received_at BETWEEN now() - interval '1 minute' AND now() AS yes FROM shop.vals WHERE id = 3`,
            )
          ).rows,
          [{ span: 'one day 02:03:04', yes: true }],
        );

        // Commands write the same bytes as with the defaults, and so does SHOW CREATE TABLE to a session that has them.
        await client.query(`UPDATE shop.vals SET received_at = timestamptz '2026-05-06 07:08:09.5+00'`);
        const outputs: string[] = [];
        for (const format of ['ndjson', 'csv']) {
          const { code, stdout, stderr } = await run(process.execPath, [
            cli,
            'export',
            'shop.vals',
            '--dsn',
            url,
            '--format',
            format,
          ]);
          assert.equal(code, 0, stderr);
          outputs.push(stdout);
        }
        const bare = new Client({
          host: '127.0.0.1',
          port: headgate.ports.sql.port,
          user: 'root',
          database: 'postgres',
        });
        await bare.connect();
        onEnd(t, 'bare', () => bare.end());
        const [shown] = (await bare.query<{ 'Create Sql': string }>('SHOW CREATE TABLE shop.plain')).rows;
        // The literal is a moment whose zone a reader knows, and the column a name that is quoted or not.
        const [since] = /'2026-01-01 [^']*'/.exec(shown?.['Create Sql'] ?? '') ?? [];
        const same = await client.query(
          `SELECT ${since}::timestamptz = timestamptz '2026-01-01 00:00+00' AS yes`,
        );
        assert.deepEqual(same.rows, [{ yes: true }], shown?.['Create Sql']);
        // How rows that may meet others go to a table that Citus distributes: as values in the text of a statement.
        await bare.query('SELECT headgate.store_values($1, $2, $3, $4, $5)', [
          'insert into shop.vals (id, at, f, b, tags, moments)',
          `select pg_catalog.string_agg(pg_catalog.format('(%L, %L, %L, %L, %L, %L)', id, at, f, b, tags, moments), ', ')
            from pg_catalog.json_to_recordset($1) as r (id int, at timestamptz, f float8, b bytea, tags text[], moments timestamptz[]) where $2 is not null`,
          '',
          `[${row.replace('"id":1', '"id":4')}]`,
          'public',
        ]);
        const values = await client.query(
          `SELECT count(*)::int AS n FROM (SELECT at, f, b, tags, moments FROM shop.vals WHERE id IN (1, 4) GROUP BY 1, 2, 3, 4, 5) v`,
        );
        assert.deepEqual(values.rows, [{ n: 1 }]);
        if (index === 0) first.set(version, outputs);
        assert.deepEqual(outputs, first.get(version));
        assert.equal(
          /catalog.unreadable|rejected.unwritable|keep.failed|internal/.exec(headgate.stderr),
          null,
          headgate.stderr,
        );
      });
    }
});
