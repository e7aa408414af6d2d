/** Whatever a role gives its own tables, the tables of the others are read: what the engine fails to read, and what would take it too long. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Door, webhook } from '../../test/support/ddl-door.ts';
import { pictureOf as picture, update } from '../../test/support/picture.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { readAround } from './locked-tables.ts';
import type { SnapshotCache } from './snapshot-cache.ts';
import { readSizes, readTables } from './queries.ts';
import { pollVersions } from './version-poll.ts';
import { migrate, readMigrations } from './migrate.ts';

const catalogWholeMs = 60_000;

/** PostgreSQL takes the deepest DEFAULT that it can parse, and cannot print it. A session looks for its depth once. */
const deepDefault = (table: string) => `DO $$ DECLARE
  known int := pg_catalog.current_setting('test.depth', true)::int;
  low int := coalesce(known - 20, 10); high int := coalesce(known + 20, 100000); middle int; BEGIN
  WHILE high - low > 20 LOOP
    middle := (low + high) / 2;
    BEGIN
      EXECUTE 'ALTER TABLE ${table} ALTER n SET DEFAULT 1' || repeat('+random()::int', middle);
      low := middle;
    EXCEPTION WHEN statement_too_complex THEN high := middle;
    END;
  END LOOP;
  PERFORM pg_catalog.set_config('test.depth', low::text, false); END $$`;

suite('the catalog reads all tables around those that cannot be read', () => {
  let server: TestServer;
  let root: Door;
  let reader: Door;
  let mallory: Door;
  let nowMs = 0;
  const open = async (user: string): Promise<Door> => {
    const door = new Door(server.socketDir, user);
    await door.client.connect();
    return door;
  };
  before(async () => {
    server = await startServer();
    [root, reader] = [await open('root'), await open('root')];
    await migrate(root.client, readMigrations());
    await root.client.query(`CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory`);
    mallory = await open('mallory');
    for (let i = 0; i < 8; i++) await root.run(webhook(`others_${i}`));
  });
  after(async () => {
    for (const door of [root, reader, mallory]) await door.client.end();
    await server.close();
  });
  const pictureOf = (catalogTablesMax: number) => picture({ catalogTablesMax, catalogWholeMs }, () => nowMs);
  const unusable = (picture: SnapshotCache) => [...picture.tables.snapshot.unusable.keys()].toSorted();

  test('a table whose default PostgreSQL cannot print is unusable, and so are all tables of an owner of several', async () => {
    const numbered = (name: string) =>
      `CREATE TABLE ${name} (n int, data jsonb) WITH (connector = 'webhook')`;
    for (const name of ['mal.a', 'mal.fine', 'mal.z']) await mallory.run(numbered(name));
    for (const most of [4, 100]) {
      const picture = pictureOf(most);
      await update(picture, reader.client);
      assert.deepEqual(unusable(picture), []);
      await mallory.client.query(deepDefault('mal.a'));
      await assert.rejects(reader.client.query('SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef'), {
        code: '54001',
      });
      await root.run(webhook(`fresh_${most}`));
      for (const one of [picture, pictureOf(most)]) {
        await update(one, reader.client);
        assert.deepEqual(unusable(one), ['mal\0a']);
        assert.match(
          one.tables.snapshot.unusable.get('mal\0a') ?? '',
          /fails to read its definition: stack depth/,
        );
        assert.ok(one.tables.snapshot.tables.has(`public\0fresh_${most}`));
      }
      // Looked at again after a while, whatever becomes of it until then.
      await mallory.client.query('ALTER TABLE mal.a ALTER n DROP DEFAULT');
      await update(picture, reader.client);
      assert.deepEqual(unusable(picture), ['mal\0a']);
      nowMs += catalogWholeMs + 1;
      await update(picture, reader.client);
      assert.deepEqual(unusable(picture), []);
      await root.run(`DROP TABLE fresh_${most}`);
    }
    const bad = Array.from({ length: 5 }, (_, i) => `mal.bad_${i}`);
    for (const name of bad) {
      await mallory.run(numbered(name));
      await mallory.client.query(deepDefault(name));
    }
    const picture = pictureOf(100);
    await update(picture, reader.client);
    assert.deepEqual(
      unusable(picture),
      ['mal\0a', ...bad.map((it) => it.replace('.', '\0')), 'mal\0fine', 'mal\0z'].toSorted(),
    );
    await mallory.client.query(`DROP TABLE ${bad.join(', ')}`);
  });

  test('the catalog finds all tables that become unreadable one after another', async () => {
    const names = ['before', 'first', 'more_0', 'more_1', 'more_2', 'more_3'];
    for (const name of names)
      await mallory.run(`CREATE TABLE mal.${name} (n int, data jsonb) WITH (connector = 'webhook')`);
    const oids = (await readSizes(reader.client)).map(({ relation }) => relation);
    let next = 1;
    const spoilt = async (which: readonly number[]) => {
      if (next < names.length) await mallory.client.query(deepDefault(`mal.${names[next++]}`));
      return readTables(reader.client, which);
    };
    const known = { locked: [], faulty: new Map<number, string>() };
    const { read, faulty } = await readAround(reader.client, oids, known, spoilt);
    assert.equal(next, names.length);
    assert.ok(faulty.size >= names.length - 1);
    assert.ok(read.rows.some(({ table_name }) => table_name === 'others_7'));
    await root.client.query(`DROP TABLE ${names.map((name) => `mal.${name}`).join(', ')}`);
  });

  test('an error that any statement can meet marks no table of the catalog as unreadable', async () => {
    for (const code of ['53200', '57014', '40001']) {
      let times = 0;
      const read = () => {
        times += 1;
        return reader.client.query(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '${code}'; END $$`);
      };
      await assert.rejects(readAround(reader.client, [1], { locked: [], faulty: new Map() }, read), { code });
      assert.equal(times, 1);
    }
  });

  test('tables, types and roles dropped during a catalog reading do not fail it', async () => {
    await root.client.query(`CREATE ROLE gone LOGIN; CREATE SCHEMA gone AUTHORIZATION gone`);
    const gone = await open('gone');
    await gone.client.query(`CREATE DOMAIN gone.dom AS int DEFAULT 1; CREATE TYPE gone.mood AS ENUM ('x');
      CREATE FUNCTION gone.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
      CREATE FUNCTION gone.g(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'`);
    await gone.run(`CREATE TABLE gone.a (id int PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, s serial, n gone.dom, m gone.mood DEFAULT 'x',
      g int GENERATED ALWAYS AS (gone.g(1)) STORED, d text DEFAULT now()::text, CHECK (gone.g(n) > 0)) WITH (connector = 'webhook')`);
    await gone.run(
      `CREATE TABLE gone.p (n int, d int DEFAULT gone.g(1)) PARTITION BY RANGE (n) WITH (connector = 'webhook')`,
    );
    await gone.client
      .query(`CREATE TRIGGER t BEFORE INSERT ON gone.a FOR EACH ROW EXECUTE FUNCTION gone.f(); CREATE INDEX ON gone.a (gone.g(n));
      CREATE TABLE gone.b (id int REFERENCES gone.a ON DELETE CASCADE); CREATE TABLE gone.p1 PARTITION OF gone.p FOR VALUES FROM (0) TO (9);
      ALTER TABLE gone.a ENABLE ROW LEVEL SECURITY`);
    await gone.run(`CREATE SECRET gone.s WITH (backend = 'meta') AS 'x'`);
    await gone.run(`ALTER TABLE gone.a VALIDATE SECRET gone.s AS headers->>'a' = s`);
    await gone.client.end();
    await reader.client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    const seen = async () => (await pollVersions(reader.client, { snapshot: '', fingerprint: '' }))?.versions;
    const versions = await seen();
    const oids = [...(versions?.keys() ?? [])].filter((oid) => oid !== 0);
    await root.client.query('DROP OWNED BY gone CASCADE; DROP ROLE gone');
    // As it was, for this transaction.
    assert.deepEqual((await seen())?.size, versions?.size);
    const { rows } = await readTables(reader.client, oids);
    assert.ok(rows.some(({ table_name }) => table_name === 'others_7'));
    await reader.client.query('ROLLBACK');
  });

  test('a table with a very large CHECK is unusable, and the catalog reads all other tables', async () => {
    await mallory.run(webhook('mal.large'));
    await mallory.client
      .query(`DO $$ BEGIN EXECUTE 'ALTER TABLE mal.large ADD CHECK ((data ->> $a$a$a$) NOT IN ('
      || (SELECT string_agg(quote_literal(repeat('x', 40) || i), ',') FROM generate_series(1, 40000) i) || '))'; END $$`);
    const picture = pictureOf(100);
    await update(picture, reader.client);
    assert.deepEqual(unusable(picture), ['mal\0large']);
    await mallory.client.query('DROP TABLE mal.large');
  });

  test("the time that an owner's tables cost each catalog read is bounded", async () => {
    await mallory.client.query(`DO $$ BEGIN FOR i IN 1 .. 130 LOOP
      EXECUTE 'CREATE TABLE mal.wide_' || i || ' (' || (SELECT string_agg('c' || n || ' int', ',') FROM generate_series(1, 1590) n) || ')';
      INSERT INTO headgate.request (action, given) VALUES ('register', jsonb_build_object(
        'relation', ('mal.wide_' || i)::regclass::oid::bigint, 'options', '{}'::jsonb, 'includes', '[]'::jsonb));
    END LOOP; END $$`);
    const looked = async () => {
      const [[count] = []] = await root.run(
        `SELECT count(*)::int FROM headgate.table_versions() v JOIN pg_class c ON c.oid = v.relation AND c.relname LIKE 'wide%' AND v.version <> ''`,
      );
      return count;
    };
    assert.equal(await looked(), 124);
    const [[beyond] = []] = await root.run(
      `SELECT NOT fits FROM headgate.catalog_sizes WHERE table_name = 'wide_130'`,
    );
    assert.equal(beyond, true);
    // So that it is known to be there, and answered 503.
    assert.deepEqual(
      await root.run(
        `SELECT version FROM headgate.table_versions() WHERE relation = 'mal.wide_130'::regclass`,
      ),
      [['']],
    );
    await root.client.query('ALTER ROLE mallory SUPERUSER');
    assert.equal(await looked(), 130);
  });
});
