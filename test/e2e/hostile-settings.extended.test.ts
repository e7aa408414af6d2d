/**
 * Two databases of one server, through the whole program: one with PostgreSQL's settings, one whose settings write and read every value in another
 * form. What Headgate stores, keeps, streams and exports is the same, byte for byte. The right value is the one of the session that has PostgreSQL's
 * own settings, and the stored value itself, compared by PostgreSQL.
 */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { abortAfter } from '../../src/kit/abort-signal.ts';
import { onEnd } from '../support/cleanup.ts';
import { asked } from '../support/asked.ts';
import { startHeadgate } from '../support/headgate.ts';
import { hostileSettings, makeHostile } from '../support/hostile-settings.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { debianBin, embeddedBin, startServer } from '../support/server.ts';
import type { TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

const table = `CREATE TABLE public.typed (id BIGINT PRIMARY KEY, at TIMESTAMPTZ, day DATE, span INTERVAL, ratio DOUBLE PRECISION, few REAL, amount NUMERIC,
  raw BYTEA, words TEXT[], numbers INT[], doc JSONB, mark TEXT DEFAULT 'a\`b', born TIMESTAMPTZ DEFAULT '2026-07-01 12:00:00.123456+00', half FLOAT DEFAULT 0.1234567890123,
  pause INTERVAL DEFAULT '-1 day -02:03:04', bytes BYTEA DEFAULT decode('00ff5c', 'hex'), gaps TEXT[] DEFAULT ARRAY['a', NULL, 'NULL'])
  WITH (connector = 'webhook', dedupe = 'header:x-id')
  VALIDATE AS secure_compare(headers->>'x-signature', encode(hmac('the key', payload, 'sha256'), 'hex'))`;

const documents = [
  {
    id: 1,
    at: '2026-01-31T10:34:56.123456Z',
    day: '2026-01-31',
    ratio: 0.1234567890123,
    few: 5.12345,
    amount: '12345678901234567890.10',
  },
  {
    id: 2,
    at: '2026-07-01T23:59:59.999999+05:30',
    day: '2026-07-01',
    raw: '\\x00ff5c27',
    words: ['a', null, 'NULL', 'b\\c'],
    numbers: [1, null],
    doc: { a: '\\' },
  },
  { id: 3, at: '1900-01-01T00:00:00Z', ratio: 1e300, doc: null },
];

/** Of the session with PostgreSQL's settings. */
const stored = `SELECT t::text FROM public.typed t ORDER BY id`;

async function plain(server: TestServer, database: string): Promise<Client> {
  const client = new Client({ host: server.socketDir, user: 'root', database });
  client.on('error', () => {});
  await client.connect();
  await client.query('SET SESSION AUTHORIZATION DEFAULT');
  for (const [name, value] of Object.entries(defaults)) await client.query(`SET ${name} = '${value}'`);
  await client.query(`SET search_path = public`);
  return client;
}

const defaults = {
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  array_nulls: 'on',
  standard_conforming_strings: 'on',
  quote_all_identifiers: 'off',
};

/** Everything that leaves Headgate, without what differs between two runs. */
async function everything(
  t: TestContext,
  server: TestServer,
  database: string,
): Promise<Record<string, unknown>> {
  const url = `postgresql://root@/${database}?host=${server.socketDir}`;
  const env = { HEADGATE_DATABASE_URL: url, HEADGATE_MASTER_KEY: randomBytes(32).toString('base64') };
  const headgate = await startHeadgate(t, { env });
  const client = await plain(server, database);
  const sql = new Client({ host: '127.0.0.1', port: headgate.ports.sql.port, user: 'root', database });
  await sql.connect();
  await sql.query(table);
  await sql.end();
  const post = async (body: string, headers: Record<string, string>) =>
    (await headgate.post(`${database}/public/typed`, body, headers)).status;
  const signed = (body: string, id: string) =>
    post(body, {
      'content-type': 'application/json',
      'x-id': id,
      'x-signature': createHmac('sha256', 'the key').update(body).digest('hex'),
    });
  const statuses = [];
  for (const [i, document] of documents.entries())
    statuses.push(await signed(JSON.stringify(document), `id ${i}`));
  statuses.push(await signed(JSON.stringify(documents[0]), 'id 0'));
  // Refused: a forged one, and one whose time of arrival and NULLs are kept.
  statuses.push(await post('{"id": 8}', { 'x-id': 'forged', 'x-signature': 'none', 'x-text': 'a\\b' }));
  statuses.push(await signed('{"id": "nine\\\\"}', 'id 9'));
  await until(async () => (await client.query('SELECT FROM headgate.rejected_requests')).rowCount === 2);
  const { rows: rejected } = await client.query(
    `SELECT status, code, reason, authenticated, method, target, headers - 'host' AS headers, headers_left_out, headers_masked, encode(body, 'hex') AS body, body_bytes,
       retry_outcome, now() - received_at BETWEEN '0 s' AND '5 min' AS arrived FROM headgate.rejected_requests ORDER BY id`,
  );
  // The table learns to take it: the request is stored again as it arrived.
  await client.query(`SELECT headgate.retry_rejected(id, force => true) FROM headgate.rejected_requests`);
  await until(
    async () =>
      (
        await client.query(
          `SELECT FROM headgate.rejected_requests WHERE retry_outcome IN ('waiting', 'running')`,
        )
      ).rowCount === 0,
  );
  const { rows: retried } = await client.query(
    `SELECT retry_outcome, retry_reason FROM headgate.rejected_requests ORDER BY id`,
  );
  const traffic = async () =>
    (
      await client.query<Record<string, unknown>>(
        `SELECT sum(stored) AS stored, sum(unauthorized) AS unauthorized, sum(refused) AS refused,
          bool_and(now() - minute BETWEEN '-1 min' AND '5 min') AS recent FROM headgate.traffic`,
      )
    ).rows[0];
  await until(async () => Number((await traffic())?.['refused'] ?? 0) > 0);
  const gateway = `${headgate.gatewayUrl}/v1`;
  const lines = async (after: string) => {
    const ending = new AbortController();
    const late = abortAfter(15_000, ending.signal);
    const answer = await fetch(`${gateway}/events?name=public.typed&after=${after}&database=${database}`, {
      signal: late,
    });
    assert.equal(answer.status, 200, await (answer.status === 200 ? '' : answer.text()));
    let text = '';
    const decoder = new TextDecoder();
    try {
      for await (const piece of answer.body ?? []) {
        text += decoder.decode(piece as Uint8Array, { stream: true });
        if ((text.match(/^data:/gm) ?? []).length >= 4) break;
      }
    } finally {
      ending.abort();
    }
    return text.match(/^data:.*$/gm);
  };
  const query = async (body: string) =>
    (await asked(`${gateway}/sql?database=${database}`, { method: 'POST', body })).text;
  const said = {
    statuses,
    rejected,
    retried,
    traffic: await traffic(),
    rows: (await client.query({ text: stored, rowMode: 'array' })).rows,
    stream: await lines('0'),
    results: await query(
      `SELECT at = '2026-01-31T10:34:56.123456Z' AS same, ratio, few, raw, words, numbers, day FROM public.typed ORDER BY id`,
    ),
    own: await query(
      `SET DateStyle = 'German'; SET bytea_output = 'escape'; SELECT DATE '2026-01-31' AS day, decode('00', 'hex') AS raw`,
    ),
    exports: {} as Record<string, unknown>,
  };
  for (const format of ['ndjson', 'csv']) {
    const { code, stdout, stderr } = await run(process.execPath, [
      cli,
      'export',
      'public.typed',
      `--format=${format}`,
      '--dsn',
      url,
    ]);
    said.exports[format] = [code, stdout, code === 0 ? '' : stderr];
  }
  await client.end();
  await headgate.signal('SIGTERM');
  return said;
}

const versions = [
  ['18', embeddedBin],
  ['15', debianBin],
] as const;
for (const [version, bin] of existsSync(debianBin) ? sampleOf(versions, 1) : versions) {
  const names = sampleOf(version === '18' ? ['kolkata'] : Object.keys(hostileSettings), 1);
  test(
    `a database with hostile settings stores and returns the same bytes as one without, on PostgreSQL ${version}`,
    { skip: !existsSync(bin), timeout: 240_000 },
    async (t) => {
      const server = await startServer(bin, ['timezone=UTC']);
      onEnd(t, 'server', () => server.close());
      const root = await plain(server, 'postgres');
      onEnd(t, 'root', () => root.end());
      await root.query('CREATE DATABASE ours');
      const right = await everything(t, server, 'ours');
      const rows = JSON.stringify(right['rows']);
      assert.match(rows, /2026-01-31 10:34:56.123456\+00/);
      assert.match(rows, /2026-07-01 12:00:00.123456\+00/);
      for (const name of names) {
        // Of the same name: it is part of what is compared.
        await root.query(`ALTER DATABASE ours RENAME TO before_${name}`);
        await root.query('CREATE DATABASE ours');
        const there = await plain(server, 'ours');
        await makeHostile(there, 'ours', hostileSettings[name] ?? {}, 'root');
        await there.end();
        assert.deepEqual(await everything(t, server, 'ours'), right, name);
      }
    },
  );
}
