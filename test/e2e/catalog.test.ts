import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Client } from 'pg';
import { sharedHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';

const shared = sharedHeadgate();

suite('the catalog follows SQL', () => {
  test('a webhook table is served from the moment its CREATE TABLE has committed, and not before', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    for (let i = 0; i < 30; i++) {
      await client.query(`CREATE TABLE now_${i} (data JSONB) WITH (connector = 'webhook')`);
      assert.equal((await headgate.post(`dev/public/now_${i}`, '{}')).status, 200);
    }
    await client.query('BEGIN');
    await client.query(`CREATE TABLE later (data JSONB) WITH (connector = 'webhook')`);
    assert.equal((await headgate.post('dev/public/later', '{}')).status, 404);
    await client.query('ROLLBACK');
    assert.equal((await headgate.post('dev/public/later', '{}')).status, 404);
  });

  test('an endpoint follows RENAME, SET SCHEMA, DROP and CREATE of its table', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    const post = async (path: string) => (await headgate.post(path, '{"n":1}')).status;
    await client.query(`CREATE TABLE a (data JSONB) WITH (connector = 'webhook')`);
    assert.equal(await post('dev/public/a'), 200);
    await client.query('ALTER TABLE a RENAME TO "B ö"');
    assert.equal(await post(`dev/public/${encodeURIComponent('B ö')}`), 200);
    assert.equal(await post('dev/public/a'), 404);
    await client.query('CREATE SCHEMA inbox; ALTER TABLE "B ö" SET SCHEMA inbox');
    assert.equal(await post(`dev/inbox/${encodeURIComponent('B ö')}`), 200);
    await client.query('ALTER TABLE inbox."B ö" RENAME COLUMN data TO doc');
    assert.equal(await post(`dev/inbox/${encodeURIComponent('B ö')}`), 200);
    await client.query('ALTER SCHEMA inbox RENAME TO post');
    assert.equal(await post(`dev/post/${encodeURIComponent('B ö')}`), 200);
    const { rows } = await client.query<{ n: number }>('select count(*)::int as n from post."B ö"');
    assert.equal(rows[0]?.n, 5);
    await client.query('DROP SCHEMA post CASCADE');
    assert.equal(await post(`dev/post/${encodeURIComponent('B ö')}`), 404);
    await client.query(`CREATE TABLE a (data JSONB) WITH (connector = 'webhook')`);
    assert.equal(await post('dev/public/a'), 200);
    await client.query('DROP TABLE a; CREATE TABLE a (data jsonb)');
    assert.equal(await post('dev/public/a'), 404);
    assert.equal((await client.query('select 1 from a')).rowCount, 0);
  });

  test('ALTER SECRET and ALTER TABLE … VALIDATE take effect within a second', async (t) => {
    const headgate = await shared();
    const client = await headgate.client(t);
    const post = async (token: string) =>
      (await headgate.post('dev/public/rotating', '{}', { authorization: token })).status;
    await client.query(`
      CREATE SECRET token WITH (backend = 'meta') AS 'one';
      CREATE TABLE rotating (data JSONB) WITH (connector = 'webhook')
        VALIDATE SECRET token AS secure_compare(headers->>'authorization', token)`);
    assert.deepEqual([await post('one'), await post('two')], [200, 401]);
    await client.query(`ALTER SECRET token AS 'two'`);
    await within(1_000, async () => assert.equal(await post('two'), 200));
    assert.equal(await post('one'), 401);
    await assert.rejects(client.query('DROP SECRET token'), { code: '2BP01' });
    await client.query(`ALTER TABLE rotating VALIDATE AS secure_compare(headers->>'authorization', 'three')`);
    await within(1_000, async () => assert.equal(await post('three'), 200));
    assert.equal(await post('two'), 401);
    await client.query('DROP SECRET token');
    await client.query('ALTER TABLE rotating DROP VALIDATE');
    await within(1_000, async () => assert.equal(await post('anything'), 200));
  });

  test('a refused DROP, ALTER or copy of a database does not interrupt its webhooks', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(`CREATE TABLE kept (data JSONB) WITH (connector = 'webhook'); CREATE ROLE nobody LOGIN; CREATE ROLE keeper LOGIN CREATEDB;
      CREATE ROLE deputy LOGIN NOINHERIT; GRANT keeper TO deputy`);
    const nobody = await headgate.clientAs(t, 'nobody');
    for (const statement of [
      'DROP DATABASE dev',
      'DROP DATABASE IF EXISTS dev WITH (FORCE)',
      'ALTER DATABASE dev RENAME TO dev2',
      'ALTER DATABASE dev SET TABLESPACE pg_default',
      'CREATE DATABASE copied TEMPLATE dev',
    ])
      for (let i = 0; i < 5; i++) {
        await assert.rejects(nobody.query(statement), { code: '42501' }, statement);
        assert.equal((await headgate.post('dev/public/kept', '{}')).status, 200, statement);
      }
    // Its owner may, and a role that can become the owner.
    for (const [owner, become] of [
      ['keeper', ''],
      ['deputy', 'SET ROLE keeper'],
    ] as const) {
      const client = await headgate.clientAs(t, owner);
      await client.query(become);
      await client.query('CREATE DATABASE hers');
      const hers = await headgate.client(t, 'hers');
      await hers.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
      assert.equal((await headgate.post('hers/public/t', '{}')).status, 200);
      await hers.end();
      await client.query('DROP DATABASE hers');
    }
  });

  test('a copy of a database delays its webhooks, and one that sessions prevent does not interrupt them', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(`CREATE TABLE copied (data JSONB) WITH (connector = 'webhook')`);
    const post = async () => (await headgate.post('dev/public/copied', '{}')).status;
    /** What senders get while the statement runs and in the second after it, and at the end of that. */
    const during = async (client: Client, statement: string) => {
      const statuses: number[] = [];
      let over = Infinity;
      const ended = client.query(statement).then(
        () => 'done',
        (error: unknown) => (error as { code: string }).code,
      );
      void ended.then(() => (over = performance.now() + 1_000));
      while (performance.now() < over) statuses.push(await post());
      return { all: [...new Set(statuses)], last: statuses.at(-1), ended: await ended };
    };
    // The client's own session may be there.
    const { last, ended } = await during(root, 'CREATE DATABASE copy TEMPLATE dev');
    assert.deepEqual({ last, ended }, { last: 200, ended: 'done' });
    await root.query('DROP DATABASE copy');
    const refused = { all: [200], last: 200, ended: '55006' };
    const other = await headgate.client(t);
    assert.deepEqual(await during(root, 'CREATE DATABASE copy TEMPLATE dev'), refused);
    await root.end();
    const elsewhere = await headgate.client(t, 'postgres');
    assert.deepEqual(await during(elsewhere, 'ALTER DATABASE dev RENAME TO dev2'), refused);
    assert.deepEqual(await during(elsewhere, 'DROP DATABASE dev'), refused);
    await other.end();
  });

  test('a second database serves its own tables and can be dropped', async (t) => {
    const headgate = await shared();
    const dev = await headgate.client(t);
    await dev.query('CREATE DATABASE other');
    assert.equal((await headgate.post('other/public/t', '{}')).status, 404);
    const other = await headgate.client(t, 'other');
    await other.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    assert.equal((await headgate.post('other/public/t', '{"x":1}')).status, 200);
    assert.equal((await headgate.post('dev/public/t', '{}')).status, 404);
    assert.equal((await headgate.post('nowhere/public/t', '{}')).status, 404);
    assert.equal((await headgate.post('template1/public/t', '{}')).status, 404);
    assert.equal((await other.query('select * from t')).rowCount, 1);
    await other.end();
    await dev.query('DROP DATABASE other');
    const gone = await headgate.post('other/public/t', '{}');
    assert([404, 503].includes(gone.status), String(gone.status));
  });
});
