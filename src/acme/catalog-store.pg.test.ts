/** What Headgates share in the catalog of a real database. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { identities } from '../catalog/seals.ts';
import { fixedKeys } from '../secrets/key-ring.ts';
import { createSealing } from '../secrets/sealing.ts';
import { resealDatabase } from '../secrets/rotation.ts';
import { newKey } from './certificates.ts';
import { storeInCatalog } from './catalog-store.ts';
import { nothing } from './certificate-state.ts';

async function catalogOf(t: TestContext): Promise<Client> {
  const client = await (await testDatabase(t, { catalog: true })).connect();
  await migrate(client, readMigrations());
  return client;
}

function storeOn(client: Client, key: Buffer) {
  const sealing = createSealing(fixedKeys(key));
  const of = 'https://authority.test a.example.com';
  return storeInCatalog(of, sealing, async (sql, values) => (await client.query(sql, [...values])).rows);
}

suite('several Headgates share one ACME certificate in the catalog', () => {
  test('one Headgate at a time requests the shared certificate, and the others read what it stored', async (t) => {
    const client = await catalogOf(t);
    const key = randomBytes(32);
    const [one, other] = [storeOn(client, key), storeOn(client, key)];
    assert.deepEqual(await one.read(), nothing);
    assert.deepEqual(await one.begin(), nothing);
    assert.equal(await other.begin(), null);
    assert.equal(await other.keep(nothing, true), false);
    const state = { ...nothing, account: newKey() };
    assert.equal(await one.keep(state, false), true);
    assert.deepEqual(await other.read(), state);
    assert.equal(await other.begin(), null);
    assert.equal(await one.keep(state, true), true);
    assert.equal(await one.keep(nothing, true), false, 'who has ended asks anew');
    assert.deepEqual(await other.begin(), state);

    // Whoever is gone in the middle holds the others up for so long and no longer; coming back, it writes nothing.
    await client.query(`update headgate.acme set asking_until = now() - interval '1 second'`);
    assert.deepEqual(await one.begin(), state);
    assert.equal(await other.keep(nothing, true), false);
    const { rows } = await client.query<{ sealed: string }>('select sealed from headgate.acme');
    assert(!Buffer.from(rows[0]?.sealed ?? '', 'base64').includes('KEY'));
  });

  test('certificate state under an unknown master key is not overwritten, and a new key in front of the old one reseals it', async (t) => {
    const client = await catalogOf(t);
    const [key, next] = [randomBytes(32), randomBytes(32)];
    const one = storeOn(client, key);
    const state = { ...nothing, account: newKey() };
    await one.begin();
    await one.keep(state, true);
    await assert.rejects(storeOn(client, next).read(), /does not open/);
    await client.query('insert into headgate.key_check (seal_id, sealed) values (gen_random_uuid(), $1)', [
      'x',
    ]);
    const done = await resealDatabase(client, createSealing(fixedKeys(next, key)), identities);
    assert.equal(done?.resealed, 1);
    assert.deepEqual(await storeOn(client, next).read(), state);
  });

  test('no other role reads, writes or claims the certificate state in the catalog', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const client = await database.connect();
    await migrate(client, readMigrations());
    const role = `other_${database.name}`;
    await client.query(`create role ${role}`);
    onEnd(
      t,
      'role',
      async () => void (await client.query(`reset role; drop owned by ${role}; drop role ${role}`)),
    );
    await client.query(`set role ${role}`);
    for (const sql of [
      'select name from headgate.acme',
      'delete from headgate.acme',
      'begin; lock table headgate.acme in access share mode',
      `select headgate.begin_acme('x', gen_random_uuid(), 1)`,
      `select headgate.keep_acme('x', gen_random_uuid(), gen_random_uuid(), '', true)`,
    ]) {
      await assert.rejects(client.query(sql), { code: '42501' }, sql);
      await client.query('rollback');
    }
  });
});
