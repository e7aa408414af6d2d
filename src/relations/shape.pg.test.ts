import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { openCatalog } from '../../test/support/catalog.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { summary } from '../../test/support/webhook-targets.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { relationsSql } from './relations-sql.ts';
import type { RelationRow } from './relations-sql.ts';

/** A catalog that watches, and a client that changes tables under it. */
async function room(t: TestContext, ...ours: readonly string[]) {
  const database = await testDatabase(t, { catalog: true });
  const client = await database.connect();
  for (const sql of ours) await runOurs(client, sql);
  const { catalog, find, spy } = await openCatalog(t, database);
  await catalog.opened();
  /** Runs `sql` and waits until the catalog has seen it. */
  const change = async (sql: string): Promise<void> => {
    const loaded = spy.next('catalog.loaded');
    await client.query(sql);
    await loaded;
  };
  return { client, catalog, database, find, change, spy };
}

const hook = "WITH (connector = 'webhook')";

suite('the shape of a table follows its changes', () => {
  test('every column change of a typed table gives its shape a new version and the present columns', async (t) => {
    const { find, change } = await room(t, `CREATE TABLE orders (id INT, data JSONB) ${hook}`);
    const versions = new Set([(await find('orders')).shape.version]);
    const steps: readonly (readonly [string, string])[] = [
      [
        'ADD seen timestamptz DEFAULT now()',
        'insert (id integer, data jsonb, seen timestamp with time zone = now())',
      ],
      ['ALTER id TYPE bigint', 'insert (id bigint, data jsonb, seen timestamp with time zone = now())'],
      ['RENAME seen TO "At"', 'insert (id bigint, data jsonb, At timestamp with time zone = now())'],
      ['ALTER "At" DROP DEFAULT', 'insert (id bigint, data jsonb, At timestamp with time zone)'],
      ['DROP data', 'insert (id bigint, At timestamp with time zone)'],
      ['ADD g int GENERATED ALWAYS AS (1) STORED', 'insert (id bigint, At timestamp with time zone)'],
      ['ADD PRIMARY KEY (id)', 'upsert (id bigint, At timestamp with time zone) key (id)'],
      ['DROP id, DROP "At", ADD data jsonb', 'insert (data jsonb)'],
    ];
    for (const [step, expected] of steps) {
      await change(`ALTER TABLE orders ${step}`);
      const target = await find('orders');
      assert.equal(summary(target), expected, step);
      assert(!versions.has(target.shape.version), step);
      versions.add(target.shape.version);
    }
    await change('ALTER TABLE orders RENAME TO bills');
    const renamed = await find('bills');
    assert.equal(summary(renamed), 'insert (data jsonb)');
    assert(versions.has(renamed.shape.version), 'a new name is no new shape');
  });

  test('a document table keeps its document column when columns are added or renamed', async (t) => {
    const { find, change } = await room(t, `CREATE TABLE orders (data JSONB) ${hook}`);
    await change('ALTER TABLE orders ADD processed boolean DEFAULT false');
    assert.equal(summary(await find('orders')), 'documents (data jsonb) document data');
    await change('ALTER TABLE orders ADD id bigserial PRIMARY KEY');
    assert.equal(summary(await find('orders')), 'documents (data jsonb) document data');
    await change(`ALTER TABLE orders RENAME data TO doc; ALTER TABLE orders ADD data int`);
    assert.equal(summary(await find('orders')), 'documents (doc jsonb) document doc');
    await change('ALTER TABLE orders DROP doc');
    const { check, shape } = await find('orders');
    assert.equal(check, 'unusable', 'the column that is called data now is an int');
    assert.deepEqual(shape.columns, []);
    await change('ALTER TABLE orders DROP data; ALTER TABLE orders ADD data jsonb');
    assert.equal(summary(await find('orders')), 'documents (data jsonb) document data');
  });

  test('a table with a key computed from a column that no row fills is unusable', async (t) => {
    const { find, change, spy } = await room(t, `CREATE TABLE orders (data JSONB) ${hook}`);
    const told = spy.next('catalog.table_unusable');
    await change(
      `ALTER TABLE orders ADD n int DEFAULT 1, ADD k int GENERATED ALWAYS AS (n + 1) STORED PRIMARY KEY`,
    );
    assert.match((await told).reason, /"k" is computed from "n", which no row fills/);
    assert.equal((await find('orders')).check, 'unusable');
  });

  test('INCLUDE follows a renamed column, and ends with a dropped one', async (t) => {
    const { find, change } = await room(
      t,
      `CREATE TABLE gh (data JSONB, PRIMARY KEY (id)) INCLUDE HEADER 'X-Id' AS id INCLUDE HEADERS AS h ${hook}`,
    );
    assert.equal(
      summary(await find('gh')),
      "upsert (data jsonb, id text, h jsonb) key (id) document data 'x-id'→id headers→h",
    );
    await change('ALTER TABLE gh RENAME id TO delivery; ALTER TABLE gh ADD id int');
    assert.equal(
      summary(await find('gh')),
      "upsert (data jsonb, delivery text, h jsonb) key (delivery) document data 'x-id'→delivery headers→h",
    );
    await change('ALTER TABLE gh ALTER h TYPE text');
    await change('ALTER TABLE gh DROP delivery');
    assert.equal(
      summary(await find('gh')),
      "insert (data jsonb, h text, id integer) document data 'x-id'→id headers→h",
      'the name is taken up again where the column is gone',
    );
    await change('ALTER TABLE gh DROP id, DROP h');
    assert.equal(summary(await find('gh')), 'documents (data jsonb) document data');
  });

  test('the columns of a table in a restored database are found by name', async (t) => {
    const { client, database, find, change } = await room(
      t,
      `CREATE TABLE gh (gone INT, data JSONB) INCLUDE HEADER 'x-id' AS id WITH (connector = 'webhook', document = 'data')`,
    );
    // As a restored dump leaves them: the numbers of columns are others, and so is the table's own.
    await change(`ALTER TABLE gh DROP gone;
      UPDATE headgate.webhook_table SET document = document || '{"relation": 1, "attnum": 3}',
        includes = jsonb_build_array((includes -> 0) || '{"relation": 1, "attnum": 2}')`);
    assert.equal(summary(await find('gh')), "insert (data jsonb, id text) document data 'x-id'→id");
    const again = await openCatalog(t, database);
    await again.catalog.opened();
    const loaded = again.spy.next('catalog.loaded');
    await client.query('ALTER TABLE gh RENAME data TO doc; ALTER TABLE gh RENAME id TO delivery');
    await loaded;
    assert.equal(
      summary(await again.find('gh')),
      "insert (doc jsonb, delivery text) document doc 'x-id'→delivery",
    );
  });

  test('renamed types, domains and functions have their new names in the next catalog reading', async (t) => {
    const { client, catalog, find, change } = await room(t);
    await client.query(`CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN score AS int DEFAULT 1;
      CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'`);
    await runOurs(client, `CREATE TABLE typed (m mood, s score, o int DEFAULT one()) ${hook}`);
    assert.equal(
      summary(await find('typed')),
      'insert (m public.mood, s public.score = 1, o integer = public.one())',
    );
    await change('ALTER TYPE mood RENAME TO "Mood"');
    await change('ALTER DOMAIN score SET DEFAULT 2');
    assert.equal(
      summary(await find('typed')),
      'insert (m public."Mood", s public.score = 2, o integer = public.one())',
    );
    // Nobody tells of a function; the engine does, when the statement that calls it fails, and then all is read again.
    await client.query('ALTER FUNCTION one RENAME TO two');
    await catalog.refresh(await find('typed'));
    assert.equal(
      summary(await find('typed')),
      'insert (m public."Mood", s public.score = 2, o integer = public.two())',
    );
    await change('DROP FUNCTION two CASCADE');
    await change('DROP TYPE "Mood" CASCADE');
    assert.equal(summary(await find('typed')), 'insert (s public.score = 2, o integer)');
  });

  test('the catalog stores the headers that INCLUDE HEADERS leaves out', async (t) => {
    const { find } = await room(
      t,
      `CREATE TABLE open (data JSONB) INCLUDE HEADERS AS h ${hook};
       CREATE TABLE checked (data JSONB) INCLUDE HEADERS AS h ${hook} VALIDATE AS one;
       CREATE TABLE whole (data JSONB) INCLUDE HEADERS AS h ${hook} VALIDATE AS all`,
    );
    const always = ['authorization', 'cookie', 'proxy-authorization'];
    assert.deepEqual((await find('open')).intake.hiddenHeaders, new Set(always));
    assert.deepEqual((await find('checked')).intake.hiddenHeaders, new Set([...always, 'x-signature']));
    assert.equal((await find('whole')).intake.hiddenHeaders, null);
  });

  test('headgate.confirm tells whether a table is still the checked one', async (t) => {
    const { client, database } = await room(t, `CREATE TABLE "Conf irm" (data JSONB) ${hook}`);
    const session = await database.connect();
    const read = async (): Promise<RelationRow> => {
      const { rows } = await client.query<RelationRow>(relationsSql(`select $1::regclass::oid as relation`), [
        '"Conf irm"',
      ]);
      assert(rows[0] !== undefined);
      return rows[0];
    };
    const { relation, version, code } = await read();
    const names = ['public."Conf irm"', relation];
    const confirm = (known: string): Promise<unknown> =>
      client.query('SELECT headgate.confirm($1, $2, $3, $4)', [...names, known, code.owner]);
    /** As a row that is alone asks: in another session, by a statement that is planned, under a lock. */
    const stays = async (known: string): Promise<void> => {
      const asked = `headgate.stays('public."Conf irm"', ${relation}, '${known}', ${code.owner})`;
      await session.query('BEGIN; LOCK TABLE ONLY public."Conf irm" IN ROW EXCLUSIVE MODE');
      try {
        // Named by what it says, so that it is the same prepared statement, and its plan, each time.
        const text = `SELECT ${asked}, ${relation}::oid::regclass`;
        await session.query({ name: known || 'none', text });
      } finally {
        await session.query('ROLLBACK');
      }
    };
    const holds = async (known: string): Promise<void> => {
      await confirm(known);
      for (let i = 0; i < 3; i++) await stays(known);
    };
    const changed = { code: 'HG001' };
    const fails = async (known: string, why: string): Promise<void> => {
      await assert.rejects(confirm(known), changed, why);
      await assert.rejects(stays(known), changed, why);
      await assert.rejects(stays(known), changed, why);
    };
    await holds(version);
    await fails('', 'no version');
    await client.query('ALTER TABLE "Conf irm" RENAME TO x; CREATE TABLE "Conf irm" ()');
    await fails(version, 'another table of that name');
    await client.query('DROP TABLE "Conf irm"; ALTER TABLE x RENAME TO "Conf irm"');
    await holds(version);
    await client.query(
      'ALTER SCHEMA public RENAME TO before; CREATE SCHEMA public; CREATE TABLE "Conf irm" ()',
    );
    await fails(version, 'another schema of that name');
    await client.query('DROP SCHEMA public CASCADE; ALTER SCHEMA before RENAME TO public');
    await holds(version);
    let last = version;
    for (const step of [
      'ALTER data TYPE text',
      'ALTER data TYPE jsonb USING data::jsonb',
      'ADD n int',
      'RENAME n TO m',
      'ALTER m SET DEFAULT 1',
      'ALTER m SET DEFAULT 2',
      'ALTER m SET NOT NULL',
      'DROP m',
      'ADD CHECK (data IS NOT NULL) NOT VALID',
      'ENABLE ROW LEVEL SECURITY',
      'CREATE INDEX ON "Conf irm" (length(data::text))',
      'CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$; CREATE TRIGGER f BEFORE INSERT ON "Conf irm" FOR EACH ROW EXECUTE FUNCTION f()',
      'CREATE OR REPLACE TRIGGER f AFTER INSERT ON "Conf irm" FOR EACH ROW EXECUTE FUNCTION f()',
      'CREATE RULE r AS ON INSERT TO "Conf irm" DO ALSO NOTHING',
    ]) {
      await client.query(step.startsWith('CREATE') ? step : `ALTER TABLE "Conf irm" ${step}`);
      await fails(last, step);
      last = (await read()).version;
      await holds(last);
    }
    await client.query('CREATE ROLE confirm_other; ALTER TABLE "Conf irm" OWNER TO confirm_other');
    await fails(last, 'another owner');
    await client.query('ALTER TABLE "Conf irm" OWNER TO current_user; DROP ROLE confirm_other');
    await client.query('DROP TABLE "Conf irm"; CREATE TABLE "Conf irm" (data jsonb)');
    await fails(last, 'another relation');
  });
});
