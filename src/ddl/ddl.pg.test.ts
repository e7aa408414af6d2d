import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { Door, migration, rows, webhook } from '../../test/support/ddl-door.ts';
import { debianBin, embeddedBin, startServer, type TestServer } from '../../test/support/server.ts';
import { toBytes } from '../../test/support/ddl-rooms.ts';

/** `owner`: the role that makes the catalog: a superuser with event triggers, or a plain one without. */
function statements(bin: string, owner: 'root' | 'keeper'): void {
  let server: TestServer;
  let root: Door;
  let app: Door;
  let events: string[];
  const open = async (user: string): Promise<Door> => {
    const door = new Door(server.socketDir, user);
    await door.client.connect();
    return door;
  };

  before(async () => {
    server = await startServer(bin);
    root = await open('root');
    await root.client.query(`CREATE ROLE keeper LOGIN; CREATE ROLE client LOGIN; CREATE ROLE other LOGIN;
      GRANT CREATE ON DATABASE postgres TO keeper, client; GRANT CREATE ON SCHEMA public TO client; CREATE SCHEMA place; CREATE SCHEMA app AUTHORIZATION client`);
    const maker = await open(owner);
    await maker.client.query(`BEGIN; SET LOCAL search_path = pg_catalog; ${migration}; COMMIT`);
    await maker.client.end();
    app = await open('client');
    events = [];
    root.client.on('notification', (message) => events.push(message.channel));
    await root.client.query('LISTEN headgate_catalog');
  });
  after(async () => {
    await root.client.end();
    await app.client.end();
    await server.close();
  });

  test('knows whether it may have event triggers', async () => {
    assert.deepEqual(await rows(root, 'SELECT event_triggers FROM headgate.capability'), [
      [owner === 'root'],
    ]);
  });

  test('a role that may create tables makes a webhook table that Headgate may write', async () => {
    await app.run("CREATE SECRET app.s WITH (backend = 'meta') AS 'x'");
    await app.run(
      "CREATE TABLE app.gh (body JSONB NOT NULL CHECK (body ? 'a')) WITH (connector = 'webhook', webhook.wait_for_persistence = false) VALIDATE SECRET app.s AS f(headers->>'X-Upper', 'key', s, payload)",
    );
    assert.deepEqual(app.notices.splice(0), ['WARNING: header "X-Upper" can never match']);
    const [row] = await rows(
      root,
      `SELECT schema_name, table_name, document, includes, payload, options, expression, sealed_expression IS NOT NULL, secrets
      FROM headgate.catalog_rows WHERE table_name = 'gh'`,
    );
    assert.deepEqual(row?.slice(0, 8), [
      'app',
      'gh',
      'body',
      [],
      'payload',
      { connector: 'webhook', 'webhook.wait_for_persistence': false },
      "f(headers->>'X-Upper', '********', s, payload)",
      true,
    ]);
    const [bound] = (row?.[8] ?? []) as { alias: string; name: string; seal_id: string; sealed: string }[];
    assert.deepEqual(
      [bound?.alias, bound?.name, typeof bound?.sealed, bound?.seal_id.length],
      ['s', 's', 'string', 36],
    );
    await root.client.query(
      `SET ROLE ${owner}; INSERT INTO app.gh VALUES ('{"a":1}'); SELECT * FROM app.gh; RESET ROLE`,
    );
    assert.ok(events.length > 0, 'every change is announced');
  });

  test('sealed values are for Headgate alone', async () => {
    for (const sql of [
      'SELECT sealed FROM headgate.secret',
      'SELECT sealed_expression FROM headgate.webhook_table',
      'SELECT * FROM headgate.catalog_rows',
      "SELECT headgate.confirm('app.gh', 1, '')",
      'SELECT headgate.catalog_fingerprint()',
      "UPDATE headgate.secret SET owner = 'client'",
    ]) {
      assert.equal((await app.fails(sql)).code, '42501', sql);
    }
    assert.deepEqual(await app.run('SHOW SECRETS'), [['s', 'app', 'meta']]);
  });

  test('what belongs to another role stays as it is', async () => {
    const other = await open('other');
    await root.client.query('GRANT USAGE ON SCHEMA app TO other');
    assert.match(
      (await other.fails('ALTER TABLE app.gh DROP VALIDATE')).message,
      /must be owner of table app\.gh/,
    );
    assert.equal((await other.fails("ALTER TABLE app.gh VALIDATE AS a = 'b'")).code, '42501');
    assert.equal((await other.fails("ALTER SECRET app.s AS 'b'")).code, '42501');
    assert.equal((await other.fails('DROP SECRET app.s')).code, '42501');
    assert.equal((await other.fails("CREATE SECRET app.t WITH (backend = 'meta') AS 'b'")).code, '42501');
    assert.equal((await other.fails(webhook('app.mine'))).code, '42501');
    for (const sql of [
      'DELETE FROM headgate.webhook_table',
      'UPDATE headgate.webhook_table SET expression = NULL',
      'DELETE FROM headgate.secret',
      'DELETE FROM headgate.webhook_table_secret',
    ]) {
      await other.client.query(sql);
    }
    assert.equal(
      (
        await other.fails(
          "INSERT INTO headgate.webhook_table (relation, payload, options, includes) VALUES ('app.gh', 'x', '{}', '[]')",
        )
      ).code,
      '42501',
    );
    await root.client.query('CREATE SCHEMA theirs AUTHORIZATION other');
    assert.equal(
      (await other.fails(`${webhook('theirs.t')} VALIDATE SECRET app.s AS s = 'x'`)).code,
      '42501',
    );
    await other.client.end();
    assert.deepEqual(
      await rows(
        root,
        'SELECT count(*)::int, count(expression)::int, sum(jsonb_array_length(secrets))::int FROM headgate.catalog_rows',
      ),
      [[1, 1, 1]],
    );
  });

  test('IF NOT EXISTS and IF EXISTS speak as PostgreSQL does, and register nothing', async () => {
    await app.client.query('CREATE TABLE plain (data jsonb)');
    app.notices.length = 0;
    await app.run(webhook('IF NOT EXISTS plain'));
    await app.run("CREATE SECRET IF NOT EXISTS app.s WITH (backend = 'meta') AS 'y'");
    await app.run('DROP SECRET IF EXISTS nosuch');
    await app.run(
      "ALTER TABLE IF EXISTS nosuch VALIDATE AS a = 'b'; ALTER TABLE IF EXISTS nosuch DROP VALIDATE",
    );
    assert.deepEqual(app.notices.splice(0), [
      'NOTICE: relation "plain" already exists, skipping',
      'NOTICE: secret "s" already exists, skipping',
      'NOTICE: secret "nosuch" does not exist, skipping',
      'NOTICE: relation "nosuch" does not exist, skipping',
      'NOTICE: relation "nosuch" does not exist, skipping',
    ]);
    assert.equal((await app.fails(webhook('plain'))).code, '42P07');
    assert.equal((await app.fails("CREATE SECRET app.s WITH (backend = 'meta') AS 'y'")).code, '42710');
    assert.equal((await app.fails("ALTER TABLE plain VALIDATE AS a = 'b'")).code, '42809');
    assert.equal((await app.fails("ALTER TABLE nosuch VALIDATE AS a = 'b'")).code, '42P01');
    assert.equal((await app.fails('DROP SECRET nosuch')).code, '42704');
    assert.deepEqual(
      await rows(root, "SELECT FROM headgate.webhook_table WHERE relation = 'plain'::regclass"),
      [],
    );
  });

  test('errors inside the plain statement point into what the client wrote', async () => {
    const sql =
      "SELECT 'é'; CREATE TABLE IF NOT EXISTS bad (data JSONB CHECK (nosuch(data))) WITH (connector = 'webhook')";
    const failure = await app.fails(sql);
    assert.deepEqual([failure.code, failure.position], ['42883', toBytes(sql).indexOf('nosuch') + 1]);
    const syntax = "CREATE TABLE bad (data JSONB NOT NULLL) WITH (connector = 'webhook')";
    assert.deepEqual(
      [(await app.fails(syntax)).code, (await app.fails(syntax)).position],
      ['42601', syntax.indexOf('NULLL') + 1],
    );
    const broken = `${webhook('bad')}; SELEC 1`;
    assert.equal((await app.fails(broken)).position, broken.indexOf('SELEC') + 1);
  });

  test('refuses what the statement alone does not show', async () => {
    assert.match(
      (await app.fails(`${webhook('bad')} VALIDATE SECRET nosuch AS a`)).message,
      /secret "nosuch" does not exist/,
    );
    assert.equal((await app.fails(`${webhook('bad')} VALIDATE AS f(other)`)).code, '42703');
    assert.equal((await app.fails(webhook('pg_temp.bad'))).code, '0A000');
    assert.equal((await app.fails(webhook('nosuch.bad'))).code, '3F000');
    assert.equal((await app.fails(webhook('other.public.bad'))).code, '0A000');
    await app.run("CREATE SECRET app.data WITH (backend = 'meta') AS 'y'");
    assert.equal((await app.fails(`${webhook('bad')} VALIDATE SECRET app.data AS data`)).code, '42702');
    await app.run('DROP SECRET app.data');
    if (owner === 'keeper') {
      await root.client.query('GRANT CREATE, USAGE ON SCHEMA place TO client');
      assert.match(
        (await app.fails(webhook('place.bad'))).message,
        /role "keeper", as which Headgate writes, may not use schema "place"/,
      );
    }
    assert.deepEqual(await rows(root, "SELECT FROM pg_class WHERE relname = 'bad'"), []);
  });

  test('a secret in use is not dropped; changed, it keeps its users', async () => {
    const failure = await app.fails('DROP SECRET app.s');
    assert.deepEqual([failure.code, failure.detail], ['2BP01', 'table app.gh depends on secret s']);
    const sealId = (): Promise<unknown[][]> =>
      rows(root, "SELECT secrets->0->>'seal_id' FROM headgate.catalog_rows");
    const [earlier] = await sealId();
    await app.run("ALTER SECRET app.s WITH (backend = 'meta') AS 'other'");
    const [later] = await sealId();
    assert.notEqual(earlier?.[0], later?.[0]);
  });

  test('ROLLBACK takes everything back, and a failed statement fails its transaction only', async () => {
    await app.run(
      `BEGIN; ${webhook('gone')}; CREATE SECRET gone WITH (backend = 'meta') AS 'a'; ALTER TABLE app.gh DROP VALIDATE`,
    );
    assert.deepEqual(await app.run('SHOW CREATE TABLE gone'), [
      ['public.gone', "CREATE TABLE public.gone (\n  data jsonb\n) WITH (\n  connector = 'webhook'\n)"],
    ]);
    await app.run('ROLLBACK');
    assert.deepEqual(await app.run('SHOW SECRETS'), [['s', 'app', 'meta']]);
    await app.fails(`${webhook('gone')}; ${webhook('gone')}`);
    assert.equal((await app.fails('SHOW CREATE TABLE gone')).code, '42P01');
    assert.match(JSON.stringify(await app.run('SHOW CREATE TABLE app.gh')), /VALIDATE SECRET app\.s AS f/);
  });

  test('prepared statements', async () => {
    app.notices.length = 0;
    await app.run(webhook('prepared'), true);
    await app.run("ALTER TABLE prepared VALIDATE AS a = 'b'", true);
    for (let turn = 0; turn < 3; turn++) {
      assert.match(JSON.stringify(await app.run('SHOW CREATE TABLE prepared', true)), /VALIDATE AS a = 'b'/);
    }
    assert.deepEqual(await app.run('DESCRIBE prepared', true), [['data', 'jsonb', 'YES', null]]);
    assert.deepEqual(await app.run('FLUSH', true), []);
    await app.run('DROP TABLE prepared');
    assert.equal((await app.fails('DESCRIBE prepared')).code, '42P01');
    assert.match(app.notices.join(), /has no VALIDATE clause/);
  });

  test('what SHOW CREATE TABLE gives can be run again', async () => {
    const [shown] = await app.run('SHOW CREATE TABLE app.gh');
    await app.run(
      'ALTER TABLE app.gh RENAME TO gh2; ALTER TABLE app.gh2 RENAME CONSTRAINT gh_body_check TO c',
    );
    await app.run(String(shown?.[1]));
    assert.deepEqual(await app.run('SHOW CREATE TABLE app.gh'), [shown]);
    await app.run('DROP TABLE app.gh2');
    await app.client
      .query(`CREATE TABLE "Plain 2" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n numeric(10,2) NOT NULL DEFAULT 1.5,
      t text COLLATE "C" UNIQUE, g int GENERATED ALWAYS AS (1 + 1) STORED, r bigint REFERENCES "Plain 2", CHECK (n > 0))`);
    const [plain] = await app.run('SHOW CREATE TABLE "Plain 2"');
    await app.run('DROP TABLE "Plain 2"');
    await app.run(String(plain?.[1]));
    assert.deepEqual(await app.run('SHOW CREATE TABLE "Plain 2"'), [plain]);
  });

  test('SHOW TABLES lists the search path', async () => {
    assert.deepEqual(await app.run('SHOW TABLES'), [
      ['Plain 2', 'public'],
      ['plain', 'public'],
    ]);
    await app.run(
      'SET search_path TO app; CREATE TABLE drops (validate int); ALTER TABLE drops DROP VALIDATE; RESET search_path',
    );
    assert.deepEqual(await app.run('DESCRIBE app.drops'), []);
    await app.run('DROP TABLE app.drops');
  });

  test('unqualified names follow the search path, and come out of the procedure as they went in', async () => {
    await app.run(
      `SET search_path TO app, public; ${webhook('here')} VALIDATE SECRET s AS s = 'x'; ALTER TABLE here VALIDATE AS a = 'b'`,
    );
    assert.deepEqual(await rows(app, 'SHOW search_path'), [['app, public']]);
    assert.deepEqual(
      await rows(
        root,
        "SELECT relation::regclass::text, payload, secrets FROM headgate.catalog_rows WHERE table_name = 'here'",
      ),
      [['app.here', 'data', []]],
    );
    await app.run('DROP TABLE here; RESET search_path');
  });

  test('the same table from many clients at once: one makes it, the others are told', async () => {
    const doors = await Promise.all(Array.from({ length: 6 }, () => open('client')));
    await Promise.all(doors.map((door) => door.run(webhook('IF NOT EXISTS race'))));
    const told = doors
      .flatMap((door) => door.notices)
      .filter((notice) => notice.includes('already exists, skipping'));
    assert.equal(told.length, 5);
    await Promise.all(
      doors.map((door) => door.run("CREATE SECRET IF NOT EXISTS race WITH (backend = 'meta') AS 'a'")),
    );
    await Promise.all(doors.map((door) => door.client.end()));
    await app.run('DROP TABLE race; DROP SECRET race');
  });

  test('a secret that a table is being made with is not dropped', async () => {
    const second = await open('client');
    await app.run("CREATE SECRET busy WITH (backend = 'meta') AS 'a'");
    await app.run(`BEGIN; ${webhook('user_of_busy')} VALIDATE SECRET busy AS busy`);
    const drop = second.fails('DROP SECRET busy');
    await app.run('COMMIT');
    assert.equal((await drop).code, '2BP01');
    await app.run('DROP TABLE user_of_busy; DROP SECRET busy');
    await second.client.end();
  });

  test('the fingerprint follows every change, with event triggers or without', async () => {
    await app.run(webhook('finger'));
    await app.run(
      'CREATE TYPE mood AS ENUM (); CREATE DOMAIN score AS int DEFAULT 1; CREATE TABLE quiet (a int)',
    );
    await app.run("CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'");
    const look = async (): Promise<unknown> =>
      (await rows(root, 'SELECT headgate.catalog_fingerprint()'))[0]?.[0];
    const steps = [
      "ALTER TABLE finger VALIDATE AS a = 'b'",
      'ALTER TABLE finger RENAME TO finger2',
      'ALTER TABLE finger2 RENAME data TO d',
      'ALTER TABLE finger2 ADD x int',
      'ALTER TABLE finger2 ADD PRIMARY KEY (x)',
      'ALTER TABLE finger2 DROP CONSTRAINT finger2_pkey',
      'ALTER TABLE finger2 ADD m mood, ADD s score, ADD o int DEFAULT one()',
      'ALTER TABLE finger2 ALTER x SET DEFAULT 1',
      'ALTER TABLE finger2 ALTER x SET DEFAULT 2',
      'ALTER TYPE mood RENAME TO temper',
      'ALTER TYPE temper SET SCHEMA app',
      'ALTER SCHEMA app RENAME TO app3',
      'ALTER SCHEMA app3 RENAME TO app',
      'ALTER DOMAIN score SET DEFAULT 2',
      'DROP FUNCTION one CASCADE',
      'DROP TYPE app.temper CASCADE',
      'ALTER TABLE finger2 SET SCHEMA app',
      'ALTER SCHEMA app RENAME TO app2',
      'ALTER SCHEMA app2 RENAME TO app',
      'ALTER TABLE app.finger2 DROP VALIDATE',
      'DROP TABLE app.finger2',
    ];
    let last = await look();
    for (const step of steps) {
      events.length = 0;
      await app.run(step);
      const now = await look();
      assert.notEqual(now, last, step);
      last = now;
      if (owner === 'root') assert.deepEqual(events, ['headgate_catalog'], step);
    }
    const left = await rows(
      root,
      'SELECT count(*)::int FROM headgate.webhook_table WHERE relation NOT IN (SELECT oid FROM pg_class)',
    );
    assert.deepEqual(left, [[owner === 'root' ? 0 : 1]]);
    await app.run('DROP DOMAIN score; DROP TABLE quiet');
    await app.client.query('CALL headgate.forget_dropped()');
    assert.deepEqual(
      await rows(
        root,
        'SELECT count(*)::int FROM headgate.webhook_table WHERE relation NOT IN (SELECT oid FROM pg_class)',
      ),
      [[0]],
    );
  });

  test('DDL that concerns no webhook table says nothing and is not disturbed', async () => {
    // A notification of what went before arrives at the latest with the answer to the next query.
    await rows(root, 'SELECT 1');
    events.length = 0;
    await app.run(
      'CREATE TABLE quiet (a int); ALTER TABLE quiet ADD b int; CREATE TEMP TABLE t (a int); DROP TABLE quiet, t',
    );
    await rows(root, 'SELECT 1');
    assert.deepEqual(events, []);
  });

  test('dropping the schema headgate leaves a database that works', async () => {
    await root.client.query('DROP SCHEMA headgate CASCADE');
    await root.client.query(
      'CREATE TABLE later (a int); ALTER TABLE later ADD b int; DROP TABLE later; DROP TABLE app.gh',
    );
  });
}

suite('PostgreSQL 18, as a superuser', () => statements(embeddedBin, 'root'));
suite('PostgreSQL 18, as a plain role', () => statements(embeddedBin, 'keeper'));
suite('PostgreSQL 15, as a superuser', { skip: !existsSync(debianBin) }, () => statements(debianBin, 'root'));
