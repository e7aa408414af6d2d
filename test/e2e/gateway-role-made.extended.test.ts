/** The role of the events gateway, if somebody else has created it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { request } from '../support/gateway.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';

test('the creator of an earlier role headgate_gateway can neither become it, log in as it nor use its rights', async (t) => {
  const dataDir = await temporaryFolder(t);
  const start = (args: readonly string[]) =>
    startHeadgate(t, { dataDir, args, env: { HEADGATE_SQL_PASSWORD: 'of-root' } });
  const connect = async ({ ports: { sql: at } }: Headgate, user: string, password: string) => {
    const client = new Client({ host: at.host, port: at.port, user, password, database: 'dev' });
    client.on('error', () => {});
    onEnd(t, 'client', () => client.end());
    await client.connect();
    return client;
  };
  const make = (maker: string) => `create role ${maker} createrole createdb; set role ${maker};
    create role headgate_gateway login createdb password 'known'; reset role`;

  const before = await start(['--events-role=root']);
  const first = await connect(before, 'root', 'of-root');
  await first.query(`${make('maker')}; set role maker; create role friend;
    grant headgate_gateway to maker, friend; reset role;
    create table owned (); create schema "left"; grant all on schema "left" to headgate_gateway; set role headgate_gateway;
    create function "left".me() returns text language sql security definer as 'select current_user::text'; reset role`);
  await before.signal('SIGTERM');
  const found = await start([]);
  const root = await connect(found, 'root', 'of-root');
  const standing = `select rolcreatedb as more,
      pg_has_role('maker', oid, 'MEMBER') or pg_has_role('friend', oid, 'MEMBER') as lent
    from pg_roles where rolname = 'headgate_gateway'`;
  assert.deepEqual((await root.query(standing)).rows, [{ more: false, lent: false }]);
  const asked = { method: 'POST', body: 'select current_user::text as me' };
  const answer = await request(`${found.gatewayUrl}/v1/sql`, asked);
  assert.deepEqual(answer.json.rows, [{ me: 'headgate_gateway' }]);
  await assert.rejects(connect(found, 'headgate_gateway', 'known'), { code: '28P01' });
  const { rows: left } = await root.query(
    `select "left".me() as me, has_table_privilege("left".me(), 'owned', 'SELECT') as reads`,
  );
  assert.match(left[0]?.me, /^headgate_gateway_[0-9a-f]{32}$/);
  assert.equal(left[0]?.reads, false);

  // What the owner has granted stays.
  await root.query('create role helper; grant headgate_gateway to helper with admin option');
  await found.signal('SIGTERM');
  const again = await start([]);
  const later = await connect(again, 'root', 'of-root');
  const roles = `select rolname as name, pg_has_role('helper', oid, 'MEMBER') as helps from pg_roles
    where starts_with(rolname, 'headgate_gateway') order by 1`;
  const known = [
    { name: 'headgate_gateway', helps: true },
    { name: left[0]?.me, helps: false },
  ];
  assert.deepEqual((await later.query(roles)).rows, known);

  // Also if nobody is left who has made it.
  await later.query(`alter role headgate_gateway rename to earlier; ${make('another')}; grant all on schema "left" to headgate_gateway;
    set role another; grant headgate_gateway to another; set role headgate_gateway;
    create function "left".more() returns text language sql security definer as 'select current_user::text'; reset role; drop role another`);
  await again.signal('SIGTERM');
  const anew = await start([]);
  await assert.rejects(connect(anew, 'headgate_gateway', 'known'), { code: '28P01' });
  const last = await connect(anew, 'root', 'of-root');
  const { rows: more } = await last.query('select "left".more() as me');
  assert.match(more[0]?.me, /^headgate_gateway_[0-9a-f]{32}$/);
  assert.notEqual(more[0]?.me, left[0]?.me);
  const renewed = await request(`${anew.gatewayUrl}/v1/sql`, asked);
  assert.deepEqual(renewed.json.rows, [{ me: 'headgate_gateway' }]);
});

test('an upgrade keeps the roles headgate_gateway and headgate_commit with their grants', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await startHeadgate(t, { dataDir });
  const root = await first.client(t);
  assert.equal(
    (await request(`${first.gatewayUrl}/v1/sql`, { method: 'POST', body: 'select 1' })).status,
    200,
  );
  // As it was before version 166, which did not make these grants.
  await root.query(`CREATE ROLE friend; CREATE TABLE given (); GRANT SELECT ON given TO headgate_gateway;
    CREATE TABLE plain (data JSONB) WITH (connector = 'webhook'); GRANT headgate_gateway TO friend;
    REVOKE headgate_commit, headgate_gateway FROM root; DELETE FROM headgate.migration WHERE version > 161`);
  const roles = `SELECT oid, rolname FROM pg_roles WHERE rolname ~ '^headgate_(commit|gateway)' ORDER BY 1`;
  const before = await root.query(roles);
  await first.signal('SIGTERM');
  const second = await startHeadgate(t, { dataDir });
  assert.equal((await second.post('dev/public/plain', '{}')).status, 200);
  const asked = await request(`${second.gatewayUrl}/v1/sql`, { method: 'POST', body: 'select from given' });
  assert.equal(asked.status, 200);
  assert.equal(before.rowCount, 2);
  assert.deepEqual((await (await second.client(t)).query(roles)).rows, before.rows);
});
