import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Barrier } from '../../test/support/barrier.ts';
import { Spy, testDatabase } from '../../test/support/postgres.ts';
import { EngineError } from './engine.ts';
import { openPostgresEngine } from './postgres.ts';

test('a PostgreSQL engine opens by the connection string of a test database', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  const { rows } = await client.query<{ name: string }>('select current_database() as name');
  assert.equal(rows[0]?.name, database.name);
  assert.ok(database.engine.serverVersion >= 140_000);

  const spy = new Spy();
  const engine = await openPostgresEngine({ databaseUrl: database.connectionString, observe: spy.observe });
  t.after(() => engine.close());
  assert.equal(engine.unavailable, null);
  assert.equal(engine.defaultDatabase, database.name);
  assert.equal(engine.serverVersion, database.engine.serverVersion);
  assert.deepEqual(engine.endpoint(), database.engine.endpoint());
  assert.deepEqual(
    spy.seen.map((observation) => observation.kind),
    ['engine.starting', 'engine.ready'],
  );
});

test('a lost engine connection is noticed, reported once, and restored', async (t) => {
  const database = await testDatabase(t);
  const spy = new Spy();
  const engine = await openPostgresEngine({ databaseUrl: database.connectionString, observe: spy.observe });
  t.after(() => engine.close());
  const client = await database.connect();
  const lost = spy.next('engine.lost');
  const ready = spy.next('engine.ready');
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  );
  assert.match((await lost).reason, /terminat/);
  await ready;
  assert.equal(engine.unavailable, null);
});

test('an engine recovers from a server that is away at the start, and from one that goes away later', async (t) => {
  const database = await testDatabase(t);
  const barrier = new Barrier(database.engine.endpoint());
  await barrier.open();
  const { port } = barrier;
  await barrier.bar();

  const spy = new Spy();
  const { user, password } = database.clientConfig;
  const secret = typeof password === 'string' && password !== '' ? password : 'hunter2hunter2';
  const databaseUrl = `postgresql://${user}:${encodeURIComponent(secret)}@127.0.0.1:${port}/${database.name}?sslmode=disable`;
  const engine = await openPostgresEngine({ databaseUrl, observe: spy.observe });
  t.after(async () => {
    await engine.close();
    await barrier.bar();
  });
  assert.match(engine.unavailable ?? '', /ECONNREFUSED/);
  assert.equal(engine.serverVersion, 0);
  assert.deepEqual(engine.endpoint(), { kind: 'tcp', host: '127.0.0.1', port, tls: false });

  let ready = spy.next('engine.ready');
  await barrier.open();
  await ready;
  assert.equal(engine.unavailable, null);

  const lost = spy.next('engine.lost');
  await barrier.bar();
  await lost;
  assert.notEqual(engine.unavailable, null);

  ready = spy.next('engine.ready');
  await barrier.open();
  await ready;
  assert.equal(engine.unavailable, null);
  assert.ok(!JSON.stringify(spy.seen).includes(secret));
});

test('a refused engine login is reported with the reason, without the password', async (t) => {
  const database = await testDatabase(t);
  // Refused by every server, whatever its rules for passwords are: there is no such database.
  const databaseUrl = database.connectionString
    .replace(`/${database.name}`, `/${database.name}_hunter2hunter2`)
    .replace(/\/\/([^:@]*)(:[^@]*)?@/, '//$1:hunter2hunter2@');
  const engine = await openPostgresEngine({ databaseUrl, observe: () => undefined });
  t.after(() => engine.close());
  assert.match(engine.unavailable ?? '', /does not exist|authentication failed/);
  assert.doesNotMatch(engine.unavailable ?? '', /hunter2/);
});

test('an invalid DSN is refused without being shown', async () => {
  for (const databaseUrl of [
    'mysql://root:hunter2@localhost/x',
    'postgresql://root:hunter2@local host:99999999/x',
    'postgresql://root:hunter2@h/x?sslmode=sometimes',
    'postgresql://root:hunter2@h/x?sslmode=verify-ca',
    'postgresql://root:hunter2@h/x?sslmode=verify-full&sslrootcert=/nowhere/ca.pem',
    'postgresql://root:hunter2@local host/x',
    'postgresql://root:hunter2#@h/x',
  ]) {
    await assert.rejects(openPostgresEngine({ databaseUrl, observe: () => undefined }), (error) => {
      assert.ok(error instanceof EngineError, String(error));
      assert.match(error.message, /^the database URL cannot be used: /);
      assert.doesNotMatch(error.message, /hunter2/);
      return true;
    });
  }
});

test("settings of a database's owner run no code in the session that watches the server", async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  await client.query(`
    create schema evil; create table evil.ran (who text);
    create function evil.run(what anyelement) returns boolean language plpgsql as
      $$ begin insert into evil.ran values (current_user); return true; end $$;
    create domain evil.bool as pg_catalog.bool check (evil.run(value));
    create function evil.current_setting(name text) returns text language plpgsql as
      $$ begin perform evil.run(name); return pg_catalog.current_setting(name); end $$;
    create function evil.version() returns text language plpgsql as
      $$ begin perform evil.run(''::text); return pg_catalog.version(); end $$;
    do $$ begin execute pg_catalog.format('alter database %I set search_path = evil, pg_catalog', pg_catalog.current_database()); end $$`);
  const more = `${database.connectionString.includes('?') ? '&' : '?'}target_session_attrs=read-write`;
  for (const databaseUrl of [database.connectionString, database.connectionString + more]) {
    const engine = await openPostgresEngine({ databaseUrl, observe: () => undefined });
    assert.equal(engine.unavailable, null);
    await engine.close();
  }
  assert.deepEqual((await client.query('select who from evil.ran')).rows, []);
});
