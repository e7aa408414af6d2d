/** `headgate doctor` and `headgate endpoints`: every database that Headgate serves, what a sender needs of the settings, and a catalog that somebody has dropped. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { embeddedBin } from '../support/server.ts';
import { onEnd } from '../support/cleanup.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const hook = "(data JSONB) WITH (connector = 'webhook')";

interface Finding {
  readonly check: string;
  readonly verdict: string;
  readonly says: string;
  readonly database?: string;
}

const linesOf = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test('headgate doctor and headgate endpoints look at every database that Headgate serves', async (t) => {
  const home = await temporaryFolder(t);
  const headgate = await startHeadgate(t, { env: { HOME: home } });
  const at = ['--data-dir', headgate.dataDir];
  const runs = (...args: string[]) =>
    run(process.execPath, [cli, ...args], { cwd: home, env: { HOME: home, PATH: process.env['PATH'] } });
  const findings = async (...args: string[]) =>
    linesOf((await runs('doctor', '--json', ...at, ...args)).stdout) as unknown as Finding[];
  const dev = await headgate.client(t);
  await dev.query('CREATE DATABASE shop');
  await dev.query('CREATE DATABASE unused');
  await dev.query(`CREATE SECRET twilio_secret WITH (backend = 'meta') AS 'k'; CREATE TABLE calls (data JSONB)
    WITH (connector = 'webhook', format = 'form') VALIDATE SECRET twilio_secret USING twilio_form`);
  const shop = await headgate.client(t, 'shop');
  await shop.query(`CREATE TABLE burst ${hook}`);

  await t.test(
    'headgate doctor names the database of a finding, and the tables that need HEADGATE_PUBLIC_URL',
    async () => {
      const told = (await findings()).filter(({ check }) => check === 'tables');
      assert.deepEqual(
        told.map(({ database, verdict }) => [database, verdict]),
        [
          ['dev', 'wrong'],
          ['shop', 'look'],
        ],
      );
      assert.match(
        told[0]?.says ?? '',
        /^public\.calls refuses everything: Twilio.* signs the URL that it calls/,
      );
      assert.match(told[1]?.says ?? '', /^public\.burst has no VALIDATE/);
      const [only, ...more] = (await findings('--database', 'shop')).filter(
        ({ check }) => check === 'tables',
      );
      assert.deepEqual([only?.database, only?.says, more], [undefined, told[1]?.says, []]);
      const known = await findings('--public-url', 'http://127.0.0.1:1');
      assert.equal(
        known.find(({ database, check }) => database === 'dev' && check === 'tables')?.verdict,
        'ok',
      );
    },
  );

  await t.test('SHOW ENDPOINTS says that HEADGATE_PUBLIC_URL is not set', async () => {
    const { rows } = await dev.query<{ Check: string }>('SHOW ENDPOINTS');
    assert.deepEqual(
      rows.map(({ Check }) => Check),
      ['signature of the URL: HEADGATE_PUBLIC_URL is not set'],
    );
  });

  await t.test('headgate endpoints lists the tables of all databases, or of one', async () => {
    const tables = async (...args: string[]) =>
      linesOf((await runs('endpoints', '--json', ...at, ...args)).stdout).map((it) =>
        [it['database'], it['table']].join('.'),
      );
    assert.deepEqual(await tables(), ['dev.calls', 'shop.burst']);
    assert.deepEqual(await tables('--database', 'shop'), ['shop.burst']);
    assert.match((await runs('endpoints', ...at)).stdout, /database +schema[^]*shop +public +burst/);
    const { code, stderr } = await runs('endpoints', ...at, '--database', 'nowhere');
    assert.deepEqual([code, /database "nowhere" does not exist/.test(stderr)], [1, true], stderr);
  });

  await t.test('a password of the SQL port that the gateway does not ask for is a finding', async () => {
    const asks = async (env: Record<string, string>) => {
      const { stdout } = await run(
        process.execPath,
        [cli, 'doctor', '--json', '--data-dir', `${home}/none`],
        {
          cwd: home,
          env: { HOME: home, PATH: process.env['PATH'], HEADGATE_SQL_PASSWORD: 'x', ...env },
        },
      );
      return (linesOf(stdout) as unknown as Finding[]).filter(({ check }) => check === 'gateway');
    };
    assert.match((await asks({}))[0]?.says ?? '', /without a credential.*EVENTS_API_TOKEN for the gateway$/);
    assert.deepEqual(await asks({ EVENTS_API_TOKEN: 'a-long-token-of-the-gateway' }), []);
  });

  await t.test('a catalog that was dropped is an error in the log and of headgate doctor', async () => {
    await shop.query('DROP SCHEMA headgate CASCADE');
    await within(60_000, async () => {
      const lost = linesOf(headgate.stderr).find((it) => it['kind'] === 'catalog.lost');
      assert.deepEqual([lost?.['level'], lost?.['database'], lost?.['tables']], ['error', 'shop', 1]);
    });
    const catalog = async () =>
      (await findings('--database', 'shop'))
        .filter(({ check }) => check === 'catalog')
        .map(({ says }) => says);
    assert.match(
      (await catalog()).join(),
      /^the schema headgate was made anew, and empty.* 1 webhook table of/,
    );
    await shop.query('COMMENT ON SCHEMA headgate IS NULL');
    assert.deepEqual(await catalog(), []);
    // What is left of a table in a database that was restored without the schema, or whose schema was dropped while no Headgate ran.
    const restored = await headgate.client(t, 'unused');
    await restored.query('CREATE TABLE old (data JSONB); GRANT INSERT, SELECT ON old TO headgate_commit');
    await restored.query(`CREATE TABLE fresh ${hook}`);
    const lost = linesOf(headgate.stderr).filter((it) => it['kind'] === 'catalog.lost');
    assert.deepEqual(
      lost.map((it) => [it['database'], it['tables']]),
      [
        ['shop', 1],
        ['unused', 1],
      ],
    );
  });
});

test('a password of the SQL port is no password of the gateway, and the banner says so', async (t) => {
  const env = { HEADGATE_SQL_PASSWORD: 'x' };
  const open = await startHeadgate(t, { env });
  assert.match(open.stdout, /events .*\/v1\/sql {2}\(asks for no credential: EVENTS_API_TOKEN\)$/m);
});

test('headgate doctor in the folder of a Headgate with a PostgreSQL of its own finds out whose it is', async (t) => {
  const server = await startTcpServer(embeddedBin);
  onEnd(t, 'server', () => server.close());
  await server.run(`CREATE ROLE headgate LOGIN CREATEROLE`);
  await server.run('CREATE DATABASE app OWNER headgate');
  const url = `postgresql://headgate@127.0.0.1:${server.port}/app`;
  await server.admit('host all all 127.0.0.1/32 trust');
  const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url } });
  const { stdout } = await run(process.execPath, [cli, 'doctor', '--json', '--data-dir', headgate.dataDir], {
    cwd: headgate.dataDir,
    env: { PATH: process.env['PATH'] },
  });
  const settings = (linesOf(stdout) as unknown as Finding[]).filter(({ check }) => check === 'settings');
  assert.deepEqual(
    settings.map(({ verdict, says }) => [verdict, /server of a HEADGATE_DATABASE_URL/.test(says)]),
    [['look', true]],
    stdout,
  );
});
