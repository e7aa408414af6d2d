/**
 * Secrets that come in through every door, beside a PostgreSQL that writes down all it is told: none of them is in its
 * log, its statistics, its files, in Headgate's log at its most talkative, in an answer, a metric, a row or a command line.
 */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { request } from '../support/gateway.ts';
import { spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { startServer } from '../support/server.ts';
import { freePort } from '../support/tls-server.ts';
import { within } from '../support/within.ts';

const stem = 'tweet-7391';
/** One for each place that a secret comes from, so that a leak says whose it is. */
const canary = (of: string) => `${stem}-${of}-tweet`;
const forms = [stem, Buffer.from(stem).toString('hex'), encodeURIComponent(stem)];
const shows = (text: string | Buffer) => forms.find((form) => text.includes(form));

/** All that a server can be told to keep of what it is told. */
const talkative = [
  'shared_preload_libraries=pg_stat_statements',
  'pg_stat_statements.track=all',
  'logging_collector=on',
  'log_directory=log',
  'log_statement=all',
  'log_min_duration_statement=0',
  'log_min_error_statement=debug5',
  'log_min_messages=debug1',
  'log_parameter_max_length=-1',
  'log_parameter_max_length_on_error=-1',
  'log_connections=on',
  'log_error_verbosity=verbose',
  'track_activity_query_size=65536',
];

async function openServer(t: Parameters<typeof temporaryFolder>[0]) {
  const port = await freePort();
  const server = await startServer(undefined, ['listen_addresses=127.0.0.1', `port=${port}`, ...talkative]);
  onEnd(t, 'server', () => server.close());
  const client = new Client({ host: server.socketDir, port, user: 'root', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'owner', () => client.end());
  const password = canary('dsn');
  // The owner of the server sets it where nobody writes it down.
  await client.query(
    `SET log_statement = 'none'; SET log_min_duration_statement = -1; SET pg_stat_statements.track = 'none'`,
  );
  await client.query(`SET log_min_error_statement = 'panic'; CREATE EXTENSION pg_stat_statements`);
  await client.query(`ALTER ROLE root PASSWORD '${password}'`);
  const data = join(server.socketDir, 'data');
  await writeFile(
    join(data, 'pg_hba.conf'),
    'local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n',
  );
  await client.query('SELECT pg_reload_conf()');
  const dsn = (secret: string) => `postgresql://root:${secret}@127.0.0.1:${port}/postgres`;
  return { client, data, dsn, password };
}

const check = (of: string) => `secure_compare(headers->>'authorization', 'Bearer ${canary(of)}')`;

/** What a gateway and a SQL door are told, with names of their own; those that fail, too. */
const statements = (door: string): string[] => [
  `CREATE SECRET ${door} WITH (backend = 'meta') AS '${canary(door)}'`,
  `ALTER SECRET ${door} AS '${canary(door)}'`,
  `CREATE SECRET ${door} WITH (backend = 'meta') AS '${canary(door)}'`,
  `CREATE SECRET IF NOT EXISTS ${door} WITH (backend = 'meta') AS '${canary(door)}'`,
  `CREATE SECRET more WITH (backend = 'vault') AS '${canary(door)}'`,
  `CREATE SECRET more WITH (backend = 'meta') AS '${canary(door)}' please`,
  `CREATE SECRET more WITH (backend = 'meta') AS E'${canary(door)}\\n' `,
  `CREATE SECRET nowhere.more WITH (backend = 'meta') AS $x$${canary(door)}$x$`,
  `ALTER SECRET missing AS '${canary(door)}'`,
  `SELECT 1; ALTER SECRET ${door} AS '${canary(door)}'; SELECT 1/0`,
  `SELEC 1; ALTER SECRET ${door} AS '${canary(door)}'`,
  `BEGIN; CREATE SECRET gone_${door} WITH (backend = 'meta') AS '${canary(door)}'; ROLLBACK`,
  `CREATE TABLE raw_${door} (data JSONB) WITH (connector = 'webhook') VALIDATE AS /* ${canary(door)} */ ${check(door)}`,
  `CREATE TABLE bound_${door} (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET ${door} AS secure_compare(headers->>'authorization', 'Bearer ' || ${door})`,
  `CREATE TABLE raw_${door} (data JSONB) WITH (connector = 'webhook') VALIDATE AS ${check(door)}`,
  `CREATE TABLE bad (data JSONB) WITH (connector = 'webhook') VALIDATE AS ${check(door)} AND nonsense(1)`,
  `CREATE TABLE bad (data NOSUCH) WITH (connector = 'webhook') VALIDATE AS ${check(door)}`,
  `CREATE TABLE bad (data JSONB) WITH (connector = 'webhook', nonsense = 1) VALIDATE AS ${check(door)}`,
  `ALTER TABLE raw_${door} VALIDATE AS ${check(door)}`,
  `ALTER TABLE missing VALIDATE AS ${check(door)}`,
  `ALTER TABLE raw_${door} VALIDATE AS ${check(door)} OR true`,
  `SHOW CREATE TABLE raw_${door}`,
  `SHOW CREATE TABLE bound_${door}`,
  'SHOW SECRETS',
];

test('no secret given to any port appears in logs, answers, metrics or the database', async (t) => {
  const { client, data, dsn, password } = await openServer(t);
  const token = canary('token');
  const headgate = await startHeadgate(t, {
    args: ['--log-level=debug'],
    env: { HEADGATE_DATABASE_URL: dsn(password), HEADGATE_GATEWAY_TOKEN: token },
  });
  const seen: string[] = [];
  const url = headgate.gatewayUrl;
  const gateway = async (
    path: string,
    body: string,
    bearer = token,
    headers: Record<string, string> = {},
  ) => {
    const init = { method: 'POST', body, headers: { authorization: `Bearer ${bearer}`, ...headers } };
    const answer = await request(`${url}${path}`, init);
    seen.push(answer.text, JSON.stringify([...answer.headers]));
    return answer;
  };
  const door = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    user: 'root',
    database: 'postgres',
    password,
  });
  door.on('error', () => {});
  await door.connect();
  onEnd(t, 'door', () => door.end());

  const states: (number | string)[] = [];
  for (const sql of statements('http')) states.push((await gateway('/v1/sql', sql)).status);
  for (const sql of statements('http2'))
    await gateway('/v1/sql', JSON.stringify({ sql }), token, { 'content-type': 'application/json' });
  for (const sql of statements('port')) {
    await door.query({ text: sql }).then(
      (answer) => seen.push(JSON.stringify([answer].flat().map(({ rows }) => rows))),
      (error: Error) => seen.push(error.message, JSON.stringify(error)),
    );
    await door.query('ROLLBACK');
  }
  assert.deepEqual(
    [states.filter((it) => it === 200).length, states.filter((it) => it === 400).length],
    [11, 13],
    String(states),
  );
  // As a parameter, which such a statement has no place for.
  const sql = `CREATE SECRET p WITH (backend = 'meta') AS $1`;
  const asParameter = JSON.stringify({ sql, params: [canary('param')] });
  assert.equal(
    (await gateway('/v1/sql', asParameter, token, { 'content-type': 'application/json' })).status,
    400,
  );
  for (const bearer of [canary('wrong'), `${token}x`]) {
    assert.equal((await gateway('/v1/sql', 'SELECT 1', bearer)).status, 401);
    assert.equal((await gateway('/v1/events?name=t', '{}', bearer)).status, 401);
    assert.equal((await gateway('/v1/nothing', '{}', bearer)).status, 401);
  }
  assert.equal((await gateway('/v1/events?name=missing', '{}')).status, 404);
  for (const path of ['/v1/openapi.json', '/v1/healthz'])
    seen.push(await (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } })).text());

  // Requests of senders, right and wrong; the wrong ones are kept for the owner.
  for (const name of ['http', 'port']) {
    for (const table of [`raw_${name}`, `bound_${name}`]) {
      const send = (bearer: string) =>
        headgate.post(`postgres/public/${table}`, '{}', {
          authorization: `Bearer ${bearer}`,
          'x-api-key': canary('header'),
        });
      await within(2_000, async () => assert.equal((await send(canary(name))).status, 200));
      const refused = await send(canary('forged'));
      assert.equal(refused.status, 401);
      seen.push(refused.text);
    }
  }
  await within(5_000, async () => {
    const { rows } = await door.query<{ table_name: string }>('select * from headgate.rejected_requests');
    assert.equal(new Set(rows.map((it) => it.table_name)).size, 4);
    seen.push(JSON.stringify(rows));
  });
  for (const relation of ['secret', 'webhook_table', 'catalog_rows', 'rejected_requests'])
    seen.push(JSON.stringify((await door.query(`select * from headgate.${relation}`)).rows));
  seen.push(JSON.stringify((await client.query('select * from pg_stat_activity')).rows));
  const { rows: kept } = await client.query('select query from pg_stat_statements');
  assert(kept.length > 10);
  seen.push(JSON.stringify(kept));
  seen.push((await asked(`${headgate.adminUrl}/metrics`)).text);
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    // Programs come and go.
    const line = await readFile(join('/proc', pid, 'cmdline'), 'latin1').catch(() => '');
    assert.equal(shows(line), undefined, `the command line of ${pid}`);
  }
  await client.query('CHECKPOINT');
  const names = [data, headgate.dataDir].map(async (folder) =>
    (await readdir(folder, { recursive: true })).map((name) => join(folder, name)),
  );
  const logs: string[] = [];
  for (const name of (await Promise.all(names)).flat()) {
    const bytes = await readFile(name).catch(() => Buffer.alloc(0));
    if (name.startsWith(join(data, 'log'))) logs.push(bytes.toString('latin1'));
    assert.equal(shows(bytes), undefined, name);
  }
  assert.match(logs.join(''), /statement: .*headgate\./, "the server's log is at its most talkative");
  assert.equal((await headgate.signal('SIGTERM')).code, 0);
  for (const text of seen) assert.equal(shows(text), undefined, text.slice(0, 2_000));
  assert.match(headgate.stderr, /gateway\.answered/, "Headgate's log is at its most talkative");
  for (const line of (headgate.stderr + headgate.stdout).split('\n'))
    assert.equal(shows(line), undefined, line);
});

test('failures are reported without the secrets that they were attempted with', async (t) => {
  const { dsn } = await openServer(t);
  const folder = await temporaryFolder(t);
  const alone = await startGatewayProcess(t, {
    EVENTS_API_DEV_DSN: dsn(canary('dsn2')),
    EVENTS_API_TOKEN: canary('token2'),
    HEADGATE_LOG_LEVEL: 'debug',
  });
  const headers = { authorization: `Bearer ${canary('token2')}` };
  const answer = await request(`${alone.url}/v1/sql`, { method: 'POST', body: 'SELECT 1', headers });
  assert.equal(answer.status, 503, answer.text);
  const metrics = await request(`${alone.url}/v1/metrics`, { headers });
  assert.equal(metrics.status, 200);
  assert.equal(await alone.end('SIGTERM'), 0);
  const key = join(folder, 'key.pem');
  await writeFile(key, `-----BEGIN PRIVATE KEY-----\n${canary('key')}\n-----END PRIVATE KEY-----\n`);
  const broken = await spawnHeadgate(t, {
    env: { HEADGATE_GATEWAY_TLS_CERT: key, HEADGATE_GATEWAY_TLS_KEY: key },
  });
  assert.equal((await broken.ended).code, 1);
  const master = await spawnHeadgate(t, { env: { HEADGATE_MASTER_KEY: canary('master') } });
  assert.equal((await master.ended).code, 1);
  for (const text of [alone.stderr(), answer.text, metrics.text, broken.stderr, master.stderr, master.stdout])
    assert.equal(shows(text), undefined, text);
});
