import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { request } from '../support/gateway.ts';
import { Path, startGatewayProcess } from '../support/gateway-process.ts';
import { sharedHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { debianBin, embeddedBin, startServer } from '../support/server.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const cli = new URL('../../src/app/cli.js', import.meta.url).pathname;

/** A PostgreSQL that has never seen Headgate, and how to reach it. */
async function strangersServer(t: TestContext) {
  const server = await startServer(existsSync(debianBin) ? debianBin : embeddedBin);
  onEnd(t, 'server', () => server.close());
  return { server, dsn: `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}` };
}

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

suite('the events gateway', () => {
  test("the gateway's quick start works inside headgate start", async (t) => {
    if (!requireTool(t, 'curl')) return;
    const headgate = await shared();
    await quickStart(headgate.gatewayUrl);
    assert.match(headgate.stdout, new RegExp(`events +${headgate.gatewayUrl}/v1/events`));
    const metrics = (await asked(`${headgate.adminUrl}/metrics`)).text;
    assert.match(metrics, /headgate_gateway_requests_total\{route="events",status="200",code="ok"\} 2/);
  });

  test('the quick start, in front of a PostgreSQL that has never seen Headgate', async (t) => {
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

  test('Headgate’s own statements, other databases, and letting go of one', async (t) => {
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

  test('a database that is away is answered 503, and served as soon as it is back', async (t) => {
    const { server } = await strangersServer(t);
    const path = new Path(server.socket);
    await path.open();
    onEnd(t, 'path', () => path.close());
    await path.close();
    const dsn = `postgresql://root:pass-word@127.0.0.1:${path.port}/postgres`;
    const gateway = await startGatewayProcess(t, { EVENTS_API_DEV_DSN: dsn });
    const away = async () => {
      for (const answer of [
        await sql(gateway.url, 'SELECT 1'),
        await events(gateway.url, 'name=t', '{"a":1}'),
      ]) {
        assert.deepEqual([answer.status, answer.json.code], [503, 'engine_unavailable'], answer.text);
        assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      }
      assert.equal((await request(`${gateway.url}/v1/healthz`, {})).status, 503);
    };
    await away();
    await path.open();
    await within(15_000, async () => {
      assert.equal((await sql(gateway.url, 'CREATE TABLE IF NOT EXISTS t (a int)')).status, 200);
      assert.equal((await events(gateway.url, 'name=t', '{"a":1}')).status, 200);
      assert.equal((await request(`${gateway.url}/v1/healthz`, {})).status, 200);
    });
    await path.close();
    await within(5_000, away);
    await path.open();
    await within(15_000, async () =>
      assert.equal((await events(gateway.url, 'name=t', '{"a":2}')).status, 200),
    );
    assert.doesNotMatch(gateway.stderr(), /pass-word/);
  });

  test('the gateway serves several databases by parameter, the first by name by default', async (t) => {
    const { server, dsn } = await strangersServer(t);
    const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
    await client.query('CREATE DATABASE second');
    await client.end();
    const other = dsn.replace('/postgres?', '/second?');
    const gateway = await startGatewayProcess(t, {
      EVENTS_API_ZOO_DSN: dsn,
      EVENTS_API_APP_DSN: other,
      EVENTS_API_EMPTY_DSN: '',
    });
    const current = async (query: string) => {
      const { rows } = (await sql(gateway.url, 'SELECT current_database() AS name', query)).json;
      return (rows as { name: string }[] | undefined)?.[0]?.name;
    };
    assert.deepEqual(
      [await current(''), await current('?database=app'), await current('?database=zoo')],
      ['second', 'second', 'postgres'],
    );
    assert.equal((await sql(gateway.url, 'SELECT 1', '?database=second')).json.code, 'database_unknown');
    await sql(gateway.url, 'CREATE TABLE t (a int)', '?database=zoo');
    assert.equal((await events(gateway.url, 'name=t&database=zoo', '{"a":1}')).status, 200);
    assert.equal((await events(gateway.url, 'name=t', '{"a":1}')).status, 404);
  });

  test('a gateway that cannot start says why in one line, without the password', async () => {
    const gateway = async (env: Record<string, string>, command = 'gateway', ...args: string[]) =>
      run(process.execPath, [cli, command, '--gateway-port=0', ...args], {
        env: { PATH: process.env['PATH'], ...env },
      });
    const cases: readonly (readonly [Record<string, string>, RegExp])[] = [
      [{}, /no database: set EVENTS_API_<DB>_DSN/],
      [
        { EVENTS_API_DEV_DSN: 'mysql://u:pass-word@h/d' },
        /EVENTS_API_DEV_DSN: the database URL cannot be used: it must begin with postgresql/,
      ],
      [{ EVENTS_API_DEV_DSN: 'pass-word' }, /EVENTS_API_DEV_DSN: the database URL cannot be used/],
      [
        { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h:99999/d' },
        /EVENTS_API_DEV_DSN: the database URL cannot be used/,
      ],
      [{ EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d?sslmode=maybe' }, /sslmode must be one of/],
      [
        { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d?sslrootcert=/no/such/file&sslmode=verify-full' },
        /\/no\/such\/file cannot be read/,
      ],
      [
        { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d', EVENTS_API_HOST: '0.0.0.0' },
        /EVENTS_API_HOST=0.0.0.0 would let in anybody/,
      ],
      [
        { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d', EVENTS_API_PORT: 'x' },
        /EVENTS_API_PORT must be a whole number/,
      ],
      [
        { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d', EVENTS_API_ALLOWED_ORIGINS: '*' },
        /would let every web page run SQL/,
      ],
      [
        { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d', EVENTS_API_ALLOWED_ORIGINS: 'evil' },
        /must contain origins such as/,
      ],
    ];
    // All of them: check-settings.test.ts.
    for (const [env, words] of [...cases.slice(0, 1), ...sampleOf(cases.slice(1), 1)]) {
      const { EVENTS_API_PORT } = env;
      const args = EVENTS_API_PORT === undefined ? ['--gateway-port=0'] : [];
      const { code, stdout, stderr } = await run(process.execPath, [cli, 'gateway', ...args], {
        env: { PATH: process.env['PATH'], ...env },
      });
      assert.equal(code, 1, stderr);
      const lines = stderr.split('\n').filter((line) => !line.startsWith('{') && line !== '');
      assert.equal(lines.length, 1, stderr);
      assert.match(lines[0] ?? '', words);
      assert.doesNotMatch(stdout + stderr, /pass-word/);
    }
    const shown = await gateway(
      { EVENTS_API_DEV_DSN: 'postgresql://u:pass-word@h/d', EVENTS_API_TOKEN: 'to-ken' },
      'config',
    );
    assert.match(shown.stdout, /EVENTS_API_DEV_DSN +\*\*\*/);
    assert.match(shown.stdout, /HEADGATE_GATEWAY_TOKEN +\*\*\* +EVENTS_API_TOKEN/);
    assert.doesNotMatch(shown.stdout, /pass-word|to-ken/);
  });

  test('on SIGTERM the gateway answers running requests and exits with 0', async (t) => {
    const { server, dsn } = await strangersServer(t);
    const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
    onEnd(t, 'client', () => client.end());
    const folder = await temporaryFolder(t);
    const headgate = await startHeadgate(t, { dataDir: folder, env: { EVENTS_API_DEV_DSN: dsn } });
    const alone = await startGatewayProcess(t, { EVENTS_API_DEV_DSN: dsn });
    for (const { url, end } of [
      { url: headgate.gatewayUrl, end: async () => (await headgate.signal('SIGTERM')).code },
      { url: alone.url, end: () => alone.end('SIGTERM') },
    ]) {
      const running = sql(url, `SELECT pg_sleep(1.5), 'done' AS it`);
      await within(10_000, async () => {
        const { rowCount } = await client.query(
          `select from pg_stat_activity where state = 'active' and query like '%''done''%' and pid <> pg_backend_pid()`,
        );
        assert.equal(rowCount, 1);
      });
      const ended = end();
      assert.deepEqual((await running).json.rows, [{ pg_sleep: '', it: 'done' }]);
      assert.equal(await ended, 0);
    }
  });
});
