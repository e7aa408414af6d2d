/** What a role holds in a transaction that it leaves open concerns its own tables alone: reading the catalog waits for nobody. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { Door, webhook } from '../../test/support/ddl-door.ts';
import { pictureOf as picture, update } from '../../test/support/picture.ts';
import { debianBin, embeddedBin, startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { sampleOf } from '../../test/support/sample.ts';
import { until } from '../../test/support/until.ts';
import { migrate, readMigrations } from './migrate.ts';
import { ownedTables } from './role-queries.ts';
import { readSizes, readTables } from './queries.ts';
import { readAround } from './locked-tables.ts';

/** Whoever waits for a lock fails the test at once. */
const impatient = `SET statement_timeout = '5s'`;

function nobodyWaitsOn(bin: string): void {
  let server: TestServer;
  let root: Door;
  let reader: Door;
  let mallory: Door;
  let other: Door;
  before(async () => {
    server = await startServer(bin);
    const open = async (user: string): Promise<Door> => {
      const door = new Door(server.socketDir, user);
      await door.client.connect();
      return door;
    };
    [root, reader] = [await open('root'), await open('root')];
    await migrate(root.client, readMigrations());
    await root.client.query('CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory');
    [mallory, other] = [await open('mallory'), await open('mallory')];
    for (const door of [root, reader]) await door.client.query(impatient);
  });
  after(async () => {
    for (const door of [root, reader, mallory, other]) await door.client.end();
    await server.close();
  });
  const pictureOf = (catalogTablesMax: number) => picture({ catalogTablesMax });

  test('the catalog reads locked tables once they are free, and all other tables at once', async () => {
    await mallory.run(`CREATE TABLE mal.shown (n int DEFAULT 1) WITH (connector = 'webhook')`);
    await mallory.run(
      `CREATE TABLE mal.cut (n int, v text DEFAULT 'x') PARTITION BY RANGE (n) WITH (connector = 'webhook')`,
    );
    await mallory.run('CREATE TABLE mal.part PARTITION OF mal.cut FOR VALUES FROM (0) TO (9)');
    for (let i = 0; i < 12; i++) await root.run(webhook(`others_${i}`));
    for (const [most, name] of [
      [1, 'fresh_one'],
      [100, 'fresh_all'],
    ] as const) {
      const picture = pictureOf(most);
      await update(picture, reader.client);
      const shown = picture.tables.snapshot.tables.get('mal\0shown');
      assert.equal(shown?.check, null);
      await mallory.client.query('BEGIN; LOCK TABLE mal.shown, mal.cut, mal.part');
      assert.equal(await update(picture, reader.client), null);
      await root.run(webhook(name));
      assert.ok((await update(picture, reader.client)) !== null);
      assert.ok(picture.tables.snapshot.tables.has(`public\0${name}`));
      assert.deepEqual([...picture.tables.snapshot.unusable], []);
      assert.equal(picture.tables.snapshot.tables.get('mal\0shown')?.oid, shown.oid);
      // Of a table that is locked and has changed, or was never read, nothing is believed.
      await root.client.query(
        `UPDATE headgate.webhook_table SET payload = '${name}' WHERE relation = 'mal.shown'::regclass`,
      );
      await update(picture, reader.client);
      assert.match(picture.tables.snapshot.unusable.get('mal\0shown') ?? '', /somebody has locked it/);
      const fresh = pictureOf(most);
      await update(fresh, reader.client);
      const locked = [...fresh.tables.snapshot.unusable.keys()].toSorted();
      // Its partition, which is none of Headgate's tables, is not waited for, either.
      assert.deepEqual(locked, ['mal\0cut', 'mal\0shown']);
      assert.equal(await update(fresh, reader.client), null);
      assert.ok(fresh.isDue);
      const question = { database: 'postgres', user: 'mallory', schema: 'mal', table: 'shown' };
      const owned = ownedTables({ client: () => Promise.resolve(reader.client) }, question, 'owned');
      await assert.rejects(owned, { code: '55P03' });
      await mallory.client.query('COMMIT');
      for (const one of [fresh, picture]) {
        assert.ok((await update(one, reader.client)) !== null);
        assert.deepEqual([...one.tables.snapshot.unusable], []);
        assert.ok(!one.isDue);
        assert.equal(await update(one, reader.client), null);
      }
    }
    // A lock that waits for a reader holds up all readers that come later.
    await mallory.client.query('BEGIN; SELECT FROM mal.shown');
    const waiting = other.client.query('BEGIN; LOCK TABLE mal.shown; COMMIT');
    await until(async () => (await root.run(`SELECT FROM pg_locks WHERE NOT granted`)).length > 0);
    const picture = pictureOf(100);
    await update(picture, reader.client);
    assert.deepEqual([...picture.tables.snapshot.unusable.keys()], ['mal\0shown']);
    await mallory.client.query('COMMIT');
    await waiting;
  });

  test('the catalog leaves out all tables of an owner who locks one after the other, and reads those of others', async () => {
    const names = Array.from({ length: 8 }, (_, i) => `mal.turn_${i}`);
    for (const name of names)
      await mallory.run(`CREATE TABLE ${name} (n int DEFAULT 1) WITH (connector = 'webhook')`);
    await root.run(webhook('calm'));
    const oids = (await readSizes(reader.client)).map(({ relation }) => relation);
    let tries = 0;
    await mallory.client.query('BEGIN');
    const { read, locked } = await readAround(
      reader.client,
      oids,
      { locked: [], faulty: new Map() },
      // Behind the last look at the locks.
      async (which) => {
        await mallory.client.query(`LOCK TABLE ${names[tries++]}`);
        return readTables(reader.client, which);
      },
    );
    await mallory.client.query('ROLLBACK');
    assert.deepEqual([tries, locked.length >= names.length], [3, true]);
    assert.ok(read.rows.some(({ table_name }) => table_name === 'calm'));
    await mallory.client.query(`DROP TABLE ${names.join(', ')}`);
    await root.client.query('DROP TABLE calm');
  });

  test('repairs of the catalog do not wait for the locks of table owners, and blocked ones run later', async () => {
    await mallory.run(webhook('mal.gone'));
    await mallory.client
      .query(`BEGIN; INSERT INTO headgate.request (action, given) VALUES ('options', jsonb_build_object(
      'relation', 'mal.gone'::regclass::oid::bigint, 'options', '{"connector": "webhook"}'::jsonb, 'collect', NULL))`);
    await other.client.query(`SET lock_timeout = '50ms'; DROP TABLE mal.gone; RESET lock_timeout`);
    const left = async () =>
      (
        await root.run(
          `SELECT FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)`,
        )
      ).length;
    assert.equal(await left(), 1);
    const picture = pictureOf(100);
    await update(picture, reader.client);
    await update(picture, reader.client);
    assert.equal(await update(picture, reader.client), null);
    assert.equal(await left(), 1);
    await mallory.client.query('ROLLBACK');
    await update(picture, reader.client);
    assert.equal(await left(), 0);

    // Her children of a row, too, and the names of her secrets and tokens.
    await root.client.query('CREATE ROLE eve LOGIN; GRANT CREATE ON SCHEMA public TO eve');
    const eve = new Door(server.socketDir, 'eve');
    await eve.client.connect();
    try {
      await eve.run(`CREATE SECRET s WITH (backend = 'meta') AS 'x'`);
      await eve.run(webhook('hers'));
      await eve.run(`CREATE TOKEN hers FOR INSERT ON hers`);
      await eve.run(`BEGIN; ALTER SECRET s AS 'y'`);
      await root.client.query('ALTER ROLE eve RENAME TO adam');
      await reader.client.query('CALL headgate.settle()');
      await root.run(`CREATE SECRET roots WITH (backend = 'meta') AS 'x'`);
      const owners = () =>
        root.run(
          `SELECT owner::text FROM headgate.secret WHERE name = 's' UNION ALL SELECT owner::text FROM headgate.token`,
        );
      assert.deepEqual(await owners(), [['eve'], ['adam']]);
      await eve.client.query('COMMIT');
      await reader.client.query('CALL headgate.settle()');
      assert.deepEqual(await owners(), [['adam'], ['adam']]);
      assert.deepEqual(await reader.run('SHOW lock_timeout'), [['0']]);
    } finally {
      await eve.client.end();
    }
  });
}

const versions = [
  { version: '18', bin: embeddedBin },
  { version: '15', bin: debianBin },
].filter(({ bin }) => existsSync(bin));
for (const { version, bin } of sampleOf(versions, 1))
  suite(`reading the catalog waits for no lock on PostgreSQL ${version}`, () => nobodyWaitsOn(bin));
