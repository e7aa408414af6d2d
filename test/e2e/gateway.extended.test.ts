import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { request } from '../support/gateway.ts';
import { Path, startGatewayProcess, strangersServer } from '../support/gateway-process.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { within } from '../support/within.ts';

const cli = new URL('../../src/app/cli.js', import.meta.url).pathname;

const sql = (url: string, text: string, query = '') =>
  request(`${url}/v1/sql${query}`, { method: 'POST', body: text });
const events = (url: string, query: string, body: string) =>
  request(`${url}/v1/events?${query}`, { method: 'POST', body });

suite('headgate gateway serves databases', () => {
  test('the gateway answers 503 while its database is away, and serves as soon as it is back', async (t) => {
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

  test('headgate gateway reports in one line why it cannot start, without the password', async () => {
    const gateway = async (env: Record<string, string>, command = 'gateway', ...args: string[]) =>
      run(process.execPath, [cli, command, '--gateway-port=0', ...args], {
        env: { PATH: process.env['PATH'], ...env },
      });
    const unusable = { EVENTS_API_DEV_DSN: 'mysql://u:pass-word@h/d' };
    // check-settings.test.ts has all others.
    for (const [env, words] of [
      [{}, /no database: set EVENTS_API_<DB>_DSN/],
      [unusable, /EVENTS_API_DEV_DSN: the database URL cannot be used: it must begin with postgresql/],
    ] as const) {
      const { code, stdout, stderr } = await gateway(env);
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
