/** A session of the console is the role's as long as the role may log in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { post } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { until } from '../support/until.ts';

const password = 'root password';

test('a role that may no longer log in has no session, and signs nothing', async (t) => {
  const headgate = await startHeadgate(t, { env: { HEADGATE_SQL_PASSWORD: password } });
  const { port } = headgate.ports.admin;
  const root = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    user: 'root',
    password,
    database: 'dev',
  });
  root.on('error', () => {});
  await root.connect();
  onEnd(t, 'client', () => root.end());
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
    const login = await post(port, 'login', { user: 'alice', password: 'alice password' });
    const { token } = JSON.parse(login.text) as { token: string };
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
