/** The rights that docs/operating/engines.md gives Headgate's role on somebody else's PostgreSQL: enough, and none of them too many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { migrate, readMigrations } from '../../src/catalog/migrate.ts';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { within } from '../support/within.ts';

const statementsOf = async (block: string) =>
  (await commandsOf('docs/operating/engines.md', block))
    .split(';\n')
    .map((sql) => sql.trim())
    .filter((sql) => sql !== '');

test('the documented grants suffice for tables of other roles, and a missing one is named in one sentence', async (t) => {
  const server = await startTcpServer();
  onEnd(t, 'server', () => server.close());
  const as = async (user: string, database = 'app') => {
    const client = new Client({ host: server.socketDir, port: server.port, user, database });
    client.on('error', () => {});
    await client.connect();
    onEnd(t, 'client', () => client.end());
    return client;
  };
  const root = await as('root', 'postgres');
  const fresh = async (statements: readonly string[]): Promise<Client> => {
    await root.query('DROP DATABASE IF EXISTS app (FORCE)');
    await root.query('DROP ROLE IF EXISTS headgate');
    await root.query('CREATE DATABASE app');
    await root.query('REVOKE ALL ON DATABASE app FROM PUBLIC');
    const admin = await as('root');
    await admin.query('REVOKE ALL ON SCHEMA public FROM PUBLIC');
    for (const sql of statements) await admin.query(sql);
    return admin;
  };

  const refusals: readonly [block: string, without: RegExp, says: RegExp][] = [
    ['rights', /CONNECT, CREATE/, /permission denied for database "app"/],
    [
      'rights-made',
      /^CREATE SCHEMA/,
      /may not make the schema headgate in database "app": let the owner of the database run GRANT CREATE ON DATABASE "app" TO "headgate"/,
    ],
    ['rights-made', /CONNECT/, /permission denied for database "app"/],
  ];
  for (const [block, without, says] of refusals) {
    const all = await statementsOf(block);
    assert(
      all.some((sql) => without.test(sql)),
      `${block} has ${without.source}`,
    );
    await fresh(all.filter((sql) => !without.test(sql)));
    await assert.rejects(async () => migrate(await as('headgate'), readMigrations()), says);
  }
  await fresh((await statementsOf('rights')).map((sql) => sql.replace('CONNECT, CREATE', 'CONNECT')));
  await assert.rejects(
    async () => migrate(await as('headgate'), readMigrations()),
    /may not make the schema/,
  );
  await fresh(await statementsOf('rights'));
  await migrate(await as('headgate'), readMigrations());

  const admin = await fresh(await statementsOf('rights-made'));
  await admin.query(
    `CREATE ROLE alice LOGIN; GRANT CONNECT ON DATABASE app TO alice; CREATE SCHEMA hooks AUTHORIZATION alice`,
  );
  await useTable(t, server, admin);
});

async function useTable(t: TestContext, server: TcpServer, admin: Client): Promise<void> {
  const url = `postgresql://headgate@127.0.0.1:${server.port}/app?sslmode=disable`;
  const headgate = await startHeadgate(t, { env: { HEADGATE_DATABASE_URL: url } });
  const alice = await headgate.clientAs(t, 'alice', 'app');
  await alice.query(`CREATE SECRET hooks.s WITH (backend = 'meta') AS 'key'`);
  await alice.query(`CREATE TABLE hooks.t (data JSONB) WITH (connector = 'webhook')
    VALIDATE SECRET hooks.s AS secure_compare(headers->>'x', s)`);
  await alice.query(
    `CREATE TABLE hooks.k (id INT PRIMARY KEY, n INT DEFAULT 1) WITH (connector = 'webhook', dedupe = '$.id')`,
  );
  const post = async (table: string, body: string, x = 'key') =>
    (await headgate.post(`app/hooks/${table}`, body, { x })).status;
  assert.deepEqual(
    [
      await post('t', '{}'),
      await post('t', '{}', 'other'),
      await post('k', '{"id":1}'),
      await post('k', '{"id":1}'),
    ],
    [200, 401, 200, 200],
  );
  await within(5_000, async () =>
    assert.equal((await alice.query('SELECT FROM headgate.rejected_requests')).rowCount, 1),
  );
  await missingRights(alice, headgate, (table, id) => post(table, `{"id":${id}}`));
  // Code of the owner's takes what the page says, and the log which statement that is.
  await alice.query(`CREATE FUNCTION hooks.one() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION hooks.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER f BEFORE INSERT ON hooks.t FOR EACH ROW EXECUTE FUNCTION hooks.f()`);
  await within(5_000, async () => assert.equal(await post('t', '{}'), 503));
  const told: string[] = [];
  alice.on('notice', ({ message = '', hint = '' }) => told.push(`${message} ${hint}`));
  await alice.query(`CREATE TABLE hooks.coded (id INT DEFAULT hooks.one()) WITH (connector = 'webhook')`);
  assert.match(
    told.join(),
    /for whom Headgate cannot log in.*CREATE ROLE headgate_as_\d+ LOGIN; GRANT alice TO headgate_as_\d+; ALTER ROLE/,
  );
  const [, statements = ''] =
    /let a superuser run (CREATE ROLE headgate_as_\d+ LOGIN; GRANT .*? TO headgate_as_\d+; ALTER ROLE headgate_as_\d+ PASSWORD 'SCRAM[^']+')/.exec(
      headgate.stderr,
    ) ?? [];
  await admin.query(statements.replaceAll('\\"', '"'));
  await within(5_000, async () => assert.equal(await post('t', '{}'), 200));
  await missing(alice, headgate, () => post('t', '{}'), 'USAGE ON SCHEMA hooks', 'alice');
  // A login that is not as it should be: senders read neither names of roles nor what the server stores of a password.
  const login = /headgate_as_\d+/.exec(statements)?.[0] ?? '';
  await admin.query(
    `ALTER ROLE ${login} CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${login}'`,
  );
  await within(5_000, async () =>
    assert.deepEqual(JSON.parse((await headgate.post('app/hooks/t', '{}', { x: 'key' })).text), {
      error: 'this table cannot accept requests at the moment',
      code: 'table_unusable',
    }),
  );
  await within(2_000, async () => assert.match(headgate.stderr, /DROP OWNED BY headgate_as_/));
  await admin.query(`ALTER ROLE ${login} CONNECTION LIMIT -1`);
  await within(5_000, async () => assert.equal(await post('t', '{}'), 200));
  // One with another password, as after a rotation of the master key.
  await server.admit('host all +alice 127.0.0.1/32 scram-sha-256', 'host all all 127.0.0.1/32 trust');
  await admin.query(
    `ALTER ROLE ${login} PASSWORD 'other'; SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${login}'`,
  );
  const mending = /may not set it .*: let a superuser run (ALTER ROLE headgate_as_\d+ PASSWORD 'SCRAM[^']+')/;
  await within(5_000, async () => {
    assert.equal(await post('t', '{}'), 503);
    assert.match(headgate.stderr, mending);
  });
  await admin.query(mending.exec(headgate.stderr)?.[1] ?? '');
  await within(5_000, async () => assert.equal(await post('t', '{}'), 200));
  await admin.query('DROP TABLE hooks.k, hooks.coded');
  await within(2_000, async () =>
    assert.equal((await admin.query('SELECT FROM headgate.webhook_table')).rowCount, 1),
  );
}

type Posts = (table: string, id: number) => Promise<number>;

/** Each right that is taken away is named by the log as the statement that brings it back; and none is asked for that storing rows does not take. */
async function missingRights(alice: Client, headgate: Headgate, post: Posts): Promise<void> {
  const cases = [
    ['t', 'INSERT ON TABLE hooks.t'],
    ['t', 'USAGE ON SCHEMA hooks'],
    ['k', 'INSERT ON TABLE hooks.k'],
    ['k', 'UPDATE ON TABLE hooks.k'],
    ['k', 'SELECT ON TABLE hooks.k'],
  ] as const;
  for (const [i, [table, right]] of cases.entries())
    await missing(alice, headgate, () => post(table, 10 + i), right, 'headgate');
  await alice.query(
    'REVOKE SELECT, UPDATE, DELETE ON hooks.t FROM headgate; REVOKE DELETE ON hooks.k FROM headgate',
  );
  await within(5_000, async () => assert.deepEqual([await post('t', 20), await post('k', 20)], [200, 200]));
  // No row is at fault if a DEFAULT may not count.
  await alice.query(`CREATE TABLE hooks.n (n BIGSERIAL, id INT) WITH (connector = 'webhook')`);
  assert.equal(await post('n', 1), 200);
  await alice.query('REVOKE USAGE ON SEQUENCE hooks.n_n_seq FROM headgate');
  assert.equal(await post('n', 2), 503);
  await within(2_000, async () =>
    assert.match(headgate.stderr, /GRANT USAGE ON SEQUENCE hooks\.n_n_seq TO \\?"headgate/),
  );
  await alice.query('DROP TABLE hooks.n');
}

async function missing(
  owner: Client,
  headgate: Headgate,
  post: () => Promise<number>,
  right: string,
  role: string,
): Promise<void> {
  const before = headgate.stderr.length;
  await owner.query(`REVOKE ${right} FROM ${role}`);
  await within(5_000, async () => assert.equal(await post(), 503, right));
  await within(2_000, async () => {
    const log = headgate.stderr.slice(before).replaceAll('\\"', '"');
    assert(log.includes(`GRANT ${right} TO "${role}"`), `${right}: ${log}`);
  });
  await owner.query(`GRANT ${right} TO ${role}`);
  await within(5_000, async () => assert.equal(await post(), 200, right));
}
