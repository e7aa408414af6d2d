/** The catalog of commit 1a358ccb, made by its own functions, under a Headgate of today: nothing is lost, nothing is opened up. */
import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client } from 'pg';
import { sealCheck } from '../../src/catalog/seals.ts';
import { createSealing } from '../../src/secrets/sealing.ts';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { makeOldCatalog } from '../support/old-catalog.ts';
import { testDatabase } from '../support/postgres.ts';
import { within } from '../support/within.ts';

const key = Buffer.alloc(32, 9);
const sealing = createSealing(key);

/** As the SQL port of that time sent it. */
const validation = (expression: string, shown: string, secrets: readonly string[]) => {
  const sealId = randomUUID();
  return JSON.stringify({
    payload: null,
    expression: shown,
    sealed: sealCheck({ expression, shown, payload: null, secrets }, sealId, sealing),
    sealId,
    secrets: secrets.map((name) => ({ schema: null, name })),
    warnings: [],
  });
};

test('an upgrade of an old catalog keeps tables, secrets, refused requests and their owners', async (t) => {
  const database = await testDatabase(t);
  const root = await database.connect();
  const role = `keeper_${database.name}`;
  await root.query(`CREATE ROLE ${role}`);
  onEnd(t, 'role', async () => void (await root.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`)));
  await makeOldCatalog(root, 27);
  await root.query(`GRANT CREATE ON SCHEMA public TO ${role}; SET ROLE ${role}`);
  for (const name of ['s', 'gone'])
    await root.query('CALL headgate.create_secret(NULL, $1, false, $2, $3, $4, ARRAY[$5::name])', [
      name,
      'meta',
      ...sealedSecret(name),
      'public',
    ]);
  const create = (table: string, check: string | null) =>
    root.query(
      `CALL headgate.create_webhook_table('CREATE TABLE public.${table} (data jsonb)', 'public', '${table}', false,
        '{"connector": "webhook"}', '[]', NULL, $1, 'public', ARRAY['public'::name])`,
      [check],
    );
  const hmac = `secure_compare(headers->>'x-sig', encode(hmac(s, data, 'sha256'), 'hex'))`;
  await create('signed', validation(hmac, hmac, ['s']).replace('"payload":null', '"payload":"data"'));
  const literal = `secure_compare(headers->>'x-key', 'top')`;
  await create('literal', validation(literal, literal.replace("'top'", "'********'"), []));
  await create('plain', null);
  await root.query(`RESET ROLE; INSERT INTO headgate.rejected_requests (received_at, relation, schema_name, table_name, door,
      status, code, reason, authenticated, remote_address, method, target, headers, headers_left_out, body, body_bytes)
    VALUES (now(), 'public.plain', 'public', 'plain', 'http', 422, 'row_refused', 'x', true, '127.0.0.1', 'POST', '/', '{}', '{}',
      '{"n":1}', 7)`);

  const headgate = await startHeadgate(t, {
    env: { HEADGATE_DATABASE_URL: database.connectionString, HEADGATE_MASTER_KEY: key.toString('base64') },
  });
  const post = async (table: string, headers: Record<string, string>) =>
    (await headgate.post(`${database.name}/public/${table}`, '{}', headers)).status;
  const signature = createHmac('sha256', 'value of s').update('{}').digest('hex');
  assert.equal(await post('signed', { 'x-sig': signature }), 200);
  assert.equal(await post('signed', { 'x-sig': 'x' }), 401);
  assert.equal(await post('literal', { 'x-key': 'top' }), 200);
  assert.equal(await post('literal', { 'x-key': '********' }), 401);
  assert.equal(await post('plain', {}), 200);
  const owners = await root.query(
    `SELECT name, owner::text, owner_oid = $1::regrole AS same FROM headgate.secret ORDER BY 1`,
    [role],
  );
  assert.deepEqual(owners.rows, [
    { name: 'gone', owner: role, same: true },
    { name: 's', owner: role, same: true },
  ]);
  const { user = '', password } = database.clientConfig;
  const door = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    database: database.name,
    user,
    ...(password === undefined ? {} : { password }),
  });
  door.on('error', () => {});
  await door.connect();
  onEnd(t, 'door', () => door.end());
  const shown = await door.query<{ 'Create Sql': string }>('SHOW CREATE TABLE literal');
  assert.match(shown.rows[0]?.['Create Sql'] ?? '', /'\*{8}'/);
  await door.query(`SET ROLE ${role}; ALTER SECRET s AS 'next'; DROP SECRET gone`);
  const next = createHmac('sha256', 'next').update('{}').digest('hex');
  await within(2_000, async () => assert.equal(await post('signed', { 'x-sig': next }), 200));
  assert.equal(await post('signed', { 'x-sig': signature }), 401);
  await door.query('SELECT headgate.retry_rejected(id) FROM headgate.rejected_requests');
  await within(10_000, async () => {
    const outcome = await door.query(
      `SELECT retry_outcome FROM headgate.rejected_requests WHERE code = 'row_refused'`,
    );
    assert.deepEqual(outcome.rows, [{ retry_outcome: 'committed' }]);
  });
});

function sealedSecret(name: string): readonly [string, string] {
  const sealId = randomUUID();
  return [sealId, sealing.seal(`value of ${name}`, `secret:${name}:${sealId}`)];
}
