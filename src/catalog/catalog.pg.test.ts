import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { openCatalog } from '../../test/support/catalog.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { within } from '../../test/support/within.ts';
import { runOurs } from '../../test/support/webhook-tables.ts';
import { migrate, readMigrations } from './migrate.ts';
import { catalogVersion, CatalogError } from './rights.ts';

const create = (name: string, rest = '') =>
  `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook') ${rest}`;
const notFound = /no such webhook table/;

suite('the catalog follows the webhook tables of a database', () => {
  test('two Headgates that start at once create one catalog, and a newer catalog version is refused', async (t) => {
    const database = await testDatabase(t);
    const catalogs = await Promise.all(Array.from({ length: 4 }, () => openCatalog(t, database)));
    // While the catalog is being made a name is answered 503 after two seconds.
    await Promise.all(catalogs.map(({ find }) => within(60_000, () => assert.rejects(find('t'), notFound))));
    const client = await database.connect();
    const migrations = readMigrations();
    assert.equal(await catalogVersion(client), migrations.version);
    await client.query('insert into headgate.migration (version) values (9999)');
    await assert.rejects(migrate(client, migrations), CatalogError);
  });

  test('every catalog sees tables that another connection creates, renames or drops, and looks up unknown names', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const [a, b] = [await openCatalog(t, database), await openCatalog(t, database)];
    await assert.rejects(a.find('orders'), notFound);
    const client = await database.connect();
    await runOurs(client, create('orders'));
    const [seenByA, seenByB] = await Promise.all([a.find('orders'), b.find('orders')]);
    assert.equal(seenByA.oid, seenByB.oid);
    assert.equal(seenByA.intake.document, 'data');
    assert.equal(await a.find('orders'), seenByA, 'an unchanged table is the same object');
    await runOurs(client, create('others'));
    await a.find('others');
    assert.equal(await a.find('orders'), seenByA, 'also in the next snapshot');
    await client.query('alter table orders rename to bills');
    assert.equal((await b.find('bills')).oid, seenByA.oid);
    await assert.rejects(b.find('orders'), notFound);
    // So that what is loaded next is of the DROP.
    assert.equal((await a.find('bills')).oid, seenByA.oid);
    const dropped = a.spy.next('catalog.loaded');
    await client.query('drop table bills');
    await dropped;
    await assert.rejects(a.find('bills'), notFound);
  });

  test('a name that two tables exchange while they are read one by one is always found', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const { catalog, find } = await openCatalog(t, database);
    const client = await database.connect();
    await runOurs(client, `${create('here')}; ${create('aside')}`);
    const here = await find('here');
    const reading = await catalog.client(database.name);
    const query = reading.query.bind(reading) as (...given: unknown[]) => Promise<unknown>;
    const found: Promise<unknown>[] = [];
    Object.assign(reading, {
      query: async (given: string | { text: string }, ...rest: unknown[]) => {
        const text = typeof given === 'string' ? given : given.text;
        if (found.length < 8 && /table_versions\('\{\d/.test(text)) {
          await client.query(`begin; alter table here rename to passing; alter table aside rename to here;
            alter table passing rename to aside; commit`);
          found.push(find('here'));
        }
        return query(given, ...rest);
      },
    });
    // As a commit does that finds one of them changed.
    await catalog.refresh(here);
    await within(20_000, async () => assert.equal(found.length, 8));
    await Promise.all(found);
    await find('aside');
    await assert.rejects(find('passing'), notFound);
  });

  test('a look at an unchanged catalog is one short query on the embedded engine', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    if (database.engine.kind !== 'embedded') return t.skip('the engine may lend its sessions');
    const { find } = await openCatalog(t, database);
    const client = await database.connect();
    await runOurs(client, create('watched'));
    const { oid } = await find('watched');
    await client.query('create table other (n int)');
    // The last statement of each look, by when it began.
    const looks = new Map<string, string>();
    const last = async (count: number) => {
      await client.query('insert into other values (1)');
      const { rows } = await client.query<{ began: string; kind: string }>(
        `select query_start::text as began, substring(query from 'headgate[._](look|watch)') as kind from pg_stat_activity
         where datname = current_database() and application_name = 'headgate catalog' and state = 'idle' and query ~ 'headgate[._](look|watch)'`,
      );
      for (const { began, kind } of rows) looks.set(began, kind);
      return [...looks.values()].slice(-count);
    };
    const short = Array.from({ length: 3 }, () => 'watch');
    await within(20_000, async () => assert.deepEqual(await last(3), short));
    await client.query('alter table watched rename to seen');
    await within(5_000, async () => assert.deepEqual(await last(1), ['look']));
    assert.equal((await find('seen')).oid, oid);
    await within(20_000, async () => assert.deepEqual(await last(3), short));
  });

  test('a catalog whose connection was killed answers after it reconnects, with the changes since', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const { find, spy } = await openCatalog(t, database);
    const client = await database.connect();
    await runOurs(client, create('before'));
    await find('before');
    const lost = spy.next('catalog.unreadable');
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headgate catalog' and datname = current_database()`,
    );
    await lost;
    await client.query('alter table before rename to after');
    assert.equal((await find('after')).table, 'after');
    await assert.rejects(find('before'), notFound);
  });

  test('a catalog without event triggers notices DDL by comparing', async (t) => {
    const database = await testDatabase(t);
    const client = await database.connect();
    await migrate(client, readMigrations());
    await client.query('drop event trigger headgate_ddl; drop event trigger headgate_drop');
    const { find, spy } = await openCatalog(t, database);
    await runOurs(client, create('plain'));
    await find('plain');
    const noticed = spy.next('catalog.loaded', 3_000);
    await client.query('alter table plain rename to renamed');
    await noticed;
    await assert.rejects(find('plain'), notFound);
    const gone = spy.next('catalog.loaded', 3_000);
    await client.query('drop table renamed');
    await gone;
    await assert.rejects(find('renamed'), notFound);
    await runOurs(client, `begin; ${create('brief')}; drop table brief; commit`);
    const left = 'select from headgate.webhook_table';
    await within(3_000, async () => assert.equal((await client.query(left)).rowCount, 0));
  });

  test("a table's checks and secrets move to the table that replaces it, by its owner only", async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const { find } = await openCatalog(t, database);
    const client = await database.connect();
    await runOurs(
      client,
      `CREATE SECRET s WITH (backend = 'meta') AS 'value'; ${create('t', 'VALIDATE SECRET s AS secret')}`,
    );
    await find('t');
    await client.query(`create table t_102008 (data jsonb);
      select headgate.carry('t'::regclass, 't_102008'::regclass); drop table t; alter table t_102008 rename to t`);
    const { check } = await find('t');
    assert(typeof check === 'function');
    const { rows } = await client.query(
      'select relation::text as relation from headgate.webhook_table_secret',
    );
    assert.deepEqual(rows, [{ relation: 't' }]);
    // Without Citus a table of such a name is any other.
    await client.query(
      'begin; create table t_1 (data jsonb); drop table t; alter table t_1 rename to t; commit',
    );
    await within(3_000, () => assert.rejects(async () => find('t'), notFound));
    const { rows: open } = await client.query(
      `select p.proname from pg_proc p where p.pronamespace = 'headgate'::regnamespace and p.proname in ('carry', 'carry_spread', 'leave_shards')
         and has_function_privilege('public', p.oid, 'EXECUTE')`,
    );
    assert.deepEqual(open, []);
  });

  test('a table whose check cannot be compiled is unusable rather than open, and the reason names the secret', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const { find, spy } = await openCatalog(t, database);
    const client = await database.connect();
    await runOurs(
      client,
      `CREATE SECRET s WITH (backend = 'meta') AS 'value'; ${create('checked', 'VALIDATE SECRET s AS secret')}`,
    );
    const { check } = await find('checked');
    assert(typeof check === 'function');
    const request = { method: 'POST', rawHeaders: [], arrivedAtMs: 0, body: Buffer.alloc(0) };
    assert.equal(check({ ...request, target: 'value' }), true);
    assert.equal(check({ ...request, target: 'other' }), false);
    const told = spy.next('catalog.table_unusable');
    await client.query(`update headgate.secret set seal_id = gen_random_uuid() where name = 's'`);
    assert.match((await told).reason, /^secret s: does not open$/);
    assert.equal((await find('checked')).check, 'unusable');
    const again = spy.next('catalog.loaded');
    await client.query('alter table checked add column more int');
    await again;
    assert.equal((await find('checked')).check, 'unusable');
  });

  test('a document table whose column is no longer jsonb is unusable until it is jsonb again', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const { find, spy } = await openCatalog(t, database);
    const client = await database.connect();
    await runOurs(client, create('shape'));
    assert.equal((await find('shape')).check, null);
    const changed = spy.next('catalog.table_unusable');
    await client.query('alter table shape alter column data type text');
    await changed;
    assert.equal((await find('shape')).check, 'unusable');
    const back = spy.next('catalog.loaded');
    await client.query('alter table shape alter column data type jsonb using data::jsonb');
    await back;
    assert.equal((await find('shape')).check, null);
  });

  test('a thousand concurrent lookups of unknown tables cost a few catalog reads', async (t) => {
    const database = await testDatabase(t, { catalog: true });
    const { find, spy } = await openCatalog(t, database);
    await assert.rejects(find('nothing'), notFound);
    const client = await database.connect();
    await runOurs(client, create('something'));
    await find('something');
    const before = spy.seen.length;
    const answers = await Promise.allSettled(Array.from({ length: 1_000 }, (_, i) => find(`nothing_${i}`)));
    assert(answers.every((answer) => answer.status === 'rejected'));
    assert.equal(spy.seen.length, before, 'nothing changed, so nothing was loaded again');
  });
});
