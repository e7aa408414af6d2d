/** A PostgreSQL of one's own, from the block of the documentation to the first row, and what is said where that fails. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { openTerminal } from '../support/pty.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { debianBin, embeddedBin } from '../support/server.ts';
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const page = 'docs/operating/engines.md';
const password = 'a long random password';

/** A server that asks for passwords, with a database whose owner may create roles and no more. */
async function server(t: TestContext, bin = embeddedBin): Promise<TcpServer> {
  const it = await startTcpServer(bin);
  onEnd(t, 'server', () => it.close());
  await it.run(`CREATE ROLE boss LOGIN CREATEROLE PASSWORD 'boss'`);
  await it.run('CREATE DATABASE app OWNER boss');
  await it.admit('host all all 127.0.0.1/32 scram-sha-256');
  return it;
}

async function asBoss({ port }: TcpServer, sql: string): Promise<void> {
  const client = new Client({ host: '127.0.0.1', port, user: 'boss', password: 'boss', database: 'app' });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

const urlOf = ({ port }: TcpServer, secret = password) =>
  `postgresql://headgate:${encodeURIComponent(secret)}@127.0.0.1:${port}/app`;

const start = (t: TestContext, url: string): Promise<Headgate> =>
  startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url, HEADGATE_INSECURE: 'false' } });

/** The steps of the banner, as a person pastes them. */
function stepsOf({ stdout }: Headgate): string[] {
  const steps = stdout.split(/^Try it: .*$|^a request .*$|^and its row\.$|^Without psql/m).slice(1, 4);
  return steps.map((step) => step.replaceAll(/^ {2}/gm, '').trim());
}

const others = (process.env['HEADGATE_TEST_BINS'] ?? '').split(':').filter((bin) => bin !== '');
const bins = [embeddedBin, ...(existsSync(debianBin) ? [debianBin] : []), ...others];

suite('the documented setup of an external PostgreSQL works', () => {
  for (const bin of sampleOf(bins, 1))
    test(
      `the documented setup of an external PostgreSQL leads to a first row (${bin})`,
      { timeout: 120_000 },
      async (t) => {
        if (['psql', 'curl', 'openssl', 'sh'].some((tool) => requireTool(t, tool) === null)) return;
        const it = await server(t, bin);
        await asBoss(it, await commandsOf(page, 'first-steps'));
        const headgate = await start(t, urlOf(it));
        assert.match(headgate.stdout, /Headgate is ready[^]*psql -h \S+ -p \d+ -d app -U headgate\n/);
        assert.doesNotMatch(headgate.stdout, /not ready|Before the first table/);
        // Whoever has an account on this machine is not the owner of that server.
        assert.match(headgate.stdout, /\/v1\/sql {2}\(closed until EVENTS_API_TOKEN is set\)/);
        const statement = { method: 'POST', body: 'DROP TABLE IF EXISTS github_events' };
        for (const path of ['sql', 'events?name=github_events']) {
          const { status, text } = await asked(`${headgate.gatewayUrl}/v1/${path}`, statement);
          assert.deepEqual([status, /EVENTS_API_TOKEN is set/.test(text)], [401, true]);
        }
        const env = { PATH: process.env['PATH'], PGPASSWORD: password };
        for (const step of stepsOf(headgate)) {
          const ran = await run('sh', ['-ec', step], { env });
          assert.equal(ran.code, 0, `${step}\n${ran.stdout}${ran.stderr}`);
          if (step.includes('GROUP BY')) assert.match(ran.stdout, /issues \| +1/);
        }
      },
    );
});

test(
  'CREATE SECRET right after a start waits until the catalog has been read',
  { timeout: 120_000 },
  async (t) => {
    const it = await server(t);
    await asBoss(it, await commandsOf(page, 'first-steps'));
    // While it is open, nobody else can make this schema.
    const other = new Client({
      host: '127.0.0.1',
      port: it.port,
      user: 'boss',
      password: 'boss',
      database: 'app',
    });
    await other.connect();
    onEnd(t, 'other session', () => other.end());
    await other.query('BEGIN; CREATE SCHEMA headgate');
    const headgate = await start(t, urlOf(it));
    const client = new Client({
      host: '127.0.0.1',
      port: headgate.ports.sql.port,
      user: 'headgate',
      password,
      database: 'app',
    });
    await client.connect();
    onEnd(t, 'client', () => client.end());
    const made = client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'a long random key'`);
    await other.query('ROLLBACK');
    await made;
    const { rows } = await client.query('SHOW SECRETS');
    assert.deepEqual(
      rows.map((row: { Name: string }) => row.Name),
      ['s'],
    );
  },
);

test(
  'commands with --data-dir connect as the role of HEADGATE_DATABASE_URL',
  { timeout: 120_000 },
  async (t) => {
    const it = await server(t);
    await asBoss(it, await commandsOf(page, 'first-steps'));
    const headgate = await start(t, urlOf(it));
    const home = headgate.dataDir;
    const command = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
      run(process.execPath, [cli, ...args, `--data-dir=${headgate.dataDir}`], {
        env: { PATH: process.env['PATH'], HOME: home, ...env },
      });
    const who = ['sql', '-c', 'SELECT current_user AS u, current_database() AS d', '--json'];

    await t.test("the documented setup by the database's owner works with PGPASSWORD", async () => {
      const shells = [{ PGPASSWORD: password }, { HEADGATE_DATABASE_URL: urlOf(it) }];
      for (const env of shells) {
        const { code, stdout, stderr } = await command(who, env);
        assert.deepEqual([code, stdout, stderr], [0, '{"u":"headgate","d":"app"}\n', ''], stderr);
      }
      const made = await command(['init', 'github', '--json'], { PGPASSWORD: password });
      assert.equal(made.code, 0, made.stderr);
      const listed = await command(['endpoints', '--json'], { PGPASSWORD: password });
      assert.match(listed.stdout, /"table":"github_events"/);
    });

    await t.test('the documented setup reports a missing password and a wrong one', async () => {
      const none = await command(who);
      assert.equal(none.code, 1);
      assert.match(none.stderr, /asks for the password of "headgate"[^]*set PGPASSWORD/);
      assert.doesNotMatch(none.stderr, /SASL/);
      const wrong = await command(who, { PGPASSWORD: 'canary' });
      assert.match(wrong.stderr, /password authentication failed for user "headgate"/);
      assert.doesNotMatch(wrong.stderr, /canary/);
    });

    await t.test('the documented setup reads the password on a terminal without echo', async (step) => {
      const terminal = openTerminal(
        step,
        `${process.execPath} ${cli} ${who.map((word) => `'${word}'`).join(' ')} --data-dir=${headgate.dataDir}`,
        { cwd: home, env: { HOME: home } },
      );
      if (terminal === null) return;
      await terminal.shows(/Password of role headgate: /);
      terminal.type('canary\r');
      await terminal.shows(/Password of role headgate: [^]*Password of role headgate: /);
      terminal.type(`${password}\r`);
      await terminal.shows(/\{"u":"headgate","d":"app"\}/);
      assert.equal(await terminal.ended, 0);
      assert.doesNotMatch(terminal.screen, /canary|a long random/);
    });
  },
);

test('an unusable database is reported as not ready with the reason, and used as soon as that is gone', async (t) => {
  const it = await server(t);
  await it.run(`CREATE ROLE headgate LOGIN PASSWORD '${password}'`);
  const headgate = await start(t, urlOf(it, 'canary'));
  const { stdout } = headgate;
  assert.match(stdout, /^Headgate is not ready yet[^]*password authentication failed for user "headgate"/m);
  assert.doesNotMatch(stdout, /is ready|Try it|canary/);
  const ready = await asked(`${headgate.adminUrl}/readyz`);
  assert.equal(ready.status, 503);
  assert.match(ready.text, /password authentication failed/);
  await it.run(`ALTER ROLE headgate PASSWORD 'canary'`);
  // A right is missing now, then another one, and each time the statement that gives it is shown.
  const said = async (line: RegExp) => within(20_000, async () => assert.match(headgate.stderr, line));
  await said(/GRANT CREATE ON DATABASE \\"app\\" TO \\"headgate\\"/);
  await asBoss(it, 'GRANT CREATE ON DATABASE app TO headgate');
  await within(20_000, async () => assert.match(headgate.stdout, /^Headgate is ready[^]*Without psql/m));
  assert.match(headgate.stdout, /Before the first table: .*ALTER ROLE "headgate" SET search_path = public/);
  assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 200);
  await it.run('ALTER ROLE headgate SET search_path = public');
  await headgate.signal('SIGTERM');
  const again = await startHeadgate(t, {
    dataDir: headgate.dataDir,
    env: { HEADGATE_DATABASE_URL: urlOf(it, 'canary') },
  });
  assert.match(
    again.stdout,
    /Before the first table: .*GRANT USAGE, CREATE ON SCHEMA "public" TO "headgate"/,
  );
  assert.doesNotMatch(headgate.stderr + again.stderr, /canary/);
});

test('headgate gateway names the setting of an unusable database, and is ready once that can be used', async (t) => {
  const it = await server(t);
  const gateway = await startGatewayProcess(t, { EVENTS_API_DEV_DSN: urlOf(it) });
  assert.match(
    gateway.stdout(),
    /^The events gateway is not ready yet[^]*EVENTS_API_DEV_DSN: password authentication failed/m,
  );
  assert.doesNotMatch(gateway.stdout(), /is ready|Try it/);
  assert.match(gateway.stderr(), /EVENTS_API_DEV_DSN[^\n]*password authentication failed[^\n]*unreachable/);
  assert.equal((await asked(`${gateway.url}/v1/healthz`)).status, 503);
  await asBoss(it, `CREATE ROLE headgate LOGIN PASSWORD '${password}'`);
  await within(20_000, async () => assert.match(gateway.stdout(), /^The events gateway is ready/m));
  assert.equal((await asked(`${gateway.url}/v1/healthz`)).status, 200);
});
