/** What a session of the console loses with its role's rights. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { post } from '../support/console.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';

const password = 'root password';

async function rootOf(t: TestContext, { ports }: Headgate): Promise<Client> {
  const { port } = ports.sql;
  const root = new Client({ host: '127.0.0.1', port, user: 'root', password, database: 'dev' });
  root.on('error', () => {});
  await root.connect();
  onEnd(t, 'client', () => root.end());
  return root;
}

async function tokenOf({ ports }: Headgate, user: string): Promise<string> {
  const { text } = await post(ports.admin.port, 'login', { user, password: `${user} password` });
  return (JSON.parse(text) as { token: string }).token;
}

const shared = sharedHeadgate({ env: { HEADGATE_SQL_PASSWORD: password } });

test('a console session ends when its role may no longer log in, and signs no replay', async (t) => {
  const headgate = await shared();
  const { port } = headgate.ports.admin;
  const root = await rootOf(t, headgate);
  await root.query(`CREATE SECRET key WITH (backend = 'meta') AS 'a key of sixteen bytes';
    CREATE TABLE pushes (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET key USING github`);
  const replay = {
    schema: 'public',
    table: 'pushes',
    method: 'POST',
    query: '',
    headers: [],
    body: Buffer.from('{"n":1}').toString('base64'),
    sign: true,
    checked: true,
  };
  const revocations = [
    'ALTER ROLE alice NOLOGIN',
    `ALTER ROLE alice PASSWORD 'another password'`,
    `REASSIGN OWNED BY alice TO root; DROP OWNED BY alice; DROP ROLE alice; CREATE ROLE alice;
     ALTER TABLE pushes OWNER TO alice`,
  ];
  for (const revoke of revocations) {
    await root.query(`DROP ROLE IF EXISTS alice; CREATE ROLE alice LOGIN PASSWORD 'alice password'; GRANT root TO alice;
      ALTER TABLE pushes OWNER TO alice`);
    const token = await tokenOf(headgate, 'alice');
    const sent = await post(port, 'replay', replay, token);
    assert.deepEqual([sent.status, JSON.parse(sent.text)], [200, { status: 200, text: '' }]);
    await root.query(revoke);
    // Until then the session's connection lasts, as one of psql does.
    await root.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate console'`,
    );
    await until(async () => {
      const { status } = await post(port, 'replay', replay, token);
      // Headgate may learn of the lost connection later.
      assert(status === 401 || status === 503, `${revoke}: ${status}`);
      return status === 401;
    });
    // It is over, also if the role gets back what it has lost.
    await root.query(`ALTER ROLE alice LOGIN PASSWORD 'alice password'`);
    assert.equal((await post(port, 'sql', { sql: 'SELECT 1', write: false }, token)).status, 401, revoke);
    await root.query('ALTER TABLE pushes OWNER TO root');
  }
  assert.equal((await root.query('SELECT FROM pushes')).rowCount, revocations.length);
});

test("the console's tail shows the owner of a new table no requests of an earlier table of that name", async (t) => {
  const headgate = await shared();
  const root = await rootOf(t, headgate);
  const makeFor = (role: string) =>
    root.query(
      `CREATE TABLE same (data JSONB) WITH (connector = 'webhook'); ALTER TABLE same OWNER TO ${role}`,
    );
  await root.query(
    `CREATE ROLE carol LOGIN PASSWORD 'carol password'; CREATE ROLE bob LOGIN PASSWORD 'bob password'`,
  );
  await makeFor('carol');
  assert.equal((await headgate.post('dev/public/same', '{"of":"carol"}')).status, 200);
  await root.query('DROP TABLE same');
  await makeFor('bob');
  await until(async () => (await headgate.post('dev/public/same', '{"of":"the longer bob"}')).status === 200);
  const leaving = new AbortController();
  const token = await tokenOf(headgate, 'bob');
  const { body } = await fetch(`${headgate.adminUrl}/console/api/tail`, {
    headers: { authorization: `Bearer ${token}` },
    signal: leaving.signal,
  });
  assert(body !== null);
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of body as AsyncIterable<Uint8Array>) {
    text += decoder.decode(piece, { stream: true });
    if (/^data: \{"lines":\[\{.*\n\n/m.test(text)) break;
  }
  leaving.abort();
  const { lines } = JSON.parse(/^data: (\{"lines":\[\{.*)$/m.exec(text)?.[1] ?? '{}') as {
    lines: { bytes: number; code: string }[];
  };
  assert.deepEqual(
    lines.filter(({ code }) => code === 'committed').map(({ bytes }) => bytes),
    [23],
  );
});
