import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { request } from '../support/gateway.ts';
import { startGatewayProcess, strangersServer } from '../support/gateway-process.ts';
import { sharedHeadgate, startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

const sql = (url: string, text: string, query = '') =>
  request(`${url}/v1/sql${query}`, { method: 'POST', body: text });
const events = (url: string, query: string, body: string) =>
  request(`${url}/v1/events?${query}`, { method: 'POST', body });

/** As the documentation shows it, with nothing but curl. */
async function quickStart(url: string): Promise<void> {
  const curl = async (...args: string[]) => {
    const { code, stdout, stderr } = await run('curl', ['-sS', '--fail-with-body', ...args]);
    assert.equal(code, 0, `${args.join(' ')}: ${stdout} ${stderr}`);
    return JSON.parse(stdout) as { rows: unknown };
  };
  await curl(
    `${url}/v1/sql`,
    '-d',
    'CREATE TABLE IF NOT EXISTS clickstream (user_id STRING, session_id STRING, url STRING, event_ts TIMESTAMPTZ)',
  );
  const one = await curl(
    '-X',
    'POST',
    `${url}/v1/events?name=clickstream`,
    '-H',
    'Content-Type: application/json',
    '-d',
    '{"user_id": "u1", "session_id": "s1", "url": "/home", "event_ts": "2026-01-01T00:00:00Z"}',
  );
  assert.deepEqual(one, { rows: 1 });
  const three = await curl(
    '-X',
    'POST',
    `${url}/v1/events?name=clickstream`,
    '-H',
    'Content-Type: application/x-ndjson',
    '--data-binary',
    '{"user_id": "u2", "session_id": "s2", "url": "/a", "event_ts": "2026-01-01T00:00:01Z"}\n' +
      '{"user_id": "u3", "session_id": "s3", "url": "/b", "event_ts": "2026-01-01T00:00:02Z"}\n' +
      '{"user_id": "u4", "session_id": "s4", "url": "/c", "event_ts": "2026-01-01T00:00:03Z"}\n',
  );
  assert.deepEqual(three, { rows: 3 });
  const { rows } = await curl(
    `${url}/v1/sql`,
    '-d',
    'SELECT user_id, url FROM clickstream ORDER BY event_ts DESC LIMIT 10',
  );
  assert.deepEqual(rows, [
    { user_id: 'u4', url: '/c' },
    { user_id: 'u3', url: '/b' },
    { user_id: 'u2', url: '/a' },
    { user_id: 'u1', url: '/home' },
  ]);
}

const shared = sharedHeadgate();

suite('the events gateway stores events and runs SQL', () => {
  test("the gateway's quick start works inside headgate start", async (t) => {
    if (!requireTool(t, 'curl')) return;
    const headgate = await shared();
    await quickStart(headgate.gatewayUrl);
    assert.match(headgate.stdout, new RegExp(`events +${headgate.gatewayUrl}/v1/events`));
    const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
    assert.match(metrics, /headgate_gateway_requests_total\{route="events",status="200",code="ok"\} 2/);
  });

  test("the gateway's quick start works in front of a PostgreSQL without schema headgate", async (t) => {
    if (!requireTool(t, 'curl')) return;
    const { server, dsn } = await strangersServer(t);
    const gateway = await startGatewayProcess(t, { EVENTS_API_RISINGWAVE_DSN: dsn });
    await quickStart(gateway.url);
    const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
    onEnd(t, 'client', () => client.end());
    const { rows } = await client.query(
      `select (select count(*)::int from clickstream) as events, to_regnamespace('headgate') as headgate`,
    );
    assert.deepEqual(rows, [{ events: 4, headgate: null }]);
    const metrics = (await asked(`${gateway.url}/v1/metrics`)).text;
    assert.match(metrics, /headgate_gateway_rows_total\{route="events"\} 4/);
    assert.equal(await gateway.end('SIGTERM'), 0);
  });

  test("RisingWave's type STRING works through psql", async (t) => {
    if (!requireTool(t, 'psql')) return;
    const headgate = await shared();
    const psql = [
      '-X',
      '-h',
      '127.0.0.1',
      '-p',
      String(headgate.ports.sql.port),
      '-d',
      'dev',
      '-U',
      'root',
      '-At',
    ];
    const created = await run('psql', [
      ...psql,
      '-c',
      'CREATE TABLE strings (user_id STRING, "string" string)',
      '-c',
      `SELECT data_type FROM information_schema.columns WHERE table_name = 'strings'`,
    ]);
    assert.deepEqual([created.code, created.stdout], [0, 'CREATE TABLE\ntext\ntext\n'], created.stderr);
  });

  test("/v1/sql runs Headgate's own statements, serves other databases and drops one", async (t) => {
    const headgate = await startHeadgate(t, { args: ['--events-role=root'] });
    const url = headgate.gatewayUrl;
    const made = await sql(
      url,
      `CREATE SECRET key WITH (backend = 'meta') AS 'shared';
       CREATE TABLE hooks (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET key AS secure_compare(headers->>'x-key', key)`,
    );
    assert.equal(made.status, 200, made.text);
    assert.deepEqual(
      (made.json['results'] as { command: string }[]).map(({ command }) => command),
      ['CREATE SECRET', 'CREATE TABLE'],
    );
    assert.equal((await headgate.post('dev/public/hooks', '{"a":1}', { 'x-key': 'shared' })).status, 200);
    assert.equal((await headgate.post('dev/public/hooks', '{"a":1}', { 'x-key': 'other' })).status, 401);
    assert.deepEqual((await sql(url, 'SELECT data FROM hooks')).json.rows, [{ data: { a: 1 } }]);
    const wrong = await sql(
      url,
      "CREATE TABLE é (data JSONB) WITH (connector = 'webhook') VALIDATE AS nope(headers)",
    );
    assert.deepEqual([wrong.status, wrong.json.code, wrong.json['position']], [400, '42883', 70], wrong.text);
    assert.equal((await sql(url, 'CREATE DATABASE other')).status, 200);
    assert.equal((await sql(url, 'CREATE TABLE t (a int)', '?database=other')).status, 200);
    assert.equal((await events(url, 'name=t&database=other', '{"a":1}')).status, 200);
    assert.equal((await events(url, 'name=t', '{"a":1}')).status, 404);
    const own = await sql(url, 'DROP DATABASE other', '?database=other');
    assert.deepEqual([own.status, own.json.code], [400, '55006'], own.text);
    const dropped = await sql(url, 'DROP DATABASE other');
    assert.equal(dropped.status, 200, dropped.text);
    assert.equal((await sql(url, 'SELECT 1', '?database=other')).json.code, 'database_unknown');
    assert.equal((await events(url, 'name=t&database=other', '{"a":1}')).json.code, 'database_unknown');
  });
});
