/** The owner of a database, who is no superuser, gains nothing there by what Headgate does as one. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Client } from 'pg';
import { Door, webhook } from '../../test/support/ddl-door.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from './migrate.ts';
import { catalogVersion, readRights, UntrustedSchema } from './rights.ts';

const migrations = readMigrations();
const gain = `BEGIN EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE alice SUPERUSER'; END`;

suite("the owner of a database gains no rights of Headgate's role there", () => {
  let server: TestServer;
  let root: Door;
  before(async () => {
    server = await startServer();
    root = new Door(server.socketDir, 'root');
    await root.client.connect();
    await root.client.query('CREATE ROLE alice LOGIN CREATEDB; CREATE ROLE hg LOGIN');
  });
  after(async () => {
    await root.client.end();
    await server.close();
  });
  const inDatabase = async (
    name: string,
    work: (open: (user: string) => Promise<Client>) => Promise<void>,
  ): Promise<void> => {
    const open: Client[] = [];
    try {
      await work(async (user) => {
        const client = new Client({ host: server.socketDir, user, database: name });
        open.push(client);
        await client.connect();
        return client;
      });
    } finally {
      for (const client of open) await client.end();
    }
    const { rows } = await root.client.query(`SELECT rolsuper FROM pg_roles WHERE rolname = 'alice'`);
    assert.deepEqual(rows, [{ rolsuper: false }]);
  };
  const made = async (name: string): Promise<void> => {
    const alice = new Client({ host: server.socketDir, user: 'alice', database: 'postgres' });
    await alice.connect();
    await alice.query(`CREATE DATABASE ${name}`);
    await alice.end();
  };

  test("the owner of a database cannot make a schema headgate that a superuser's Headgate would use", async () => {
    await made('trap');
    await inDatabase('trap', async (open) => {
      const [alice, headgate] = [await open('alice'), await open('root')];
      await alice.query(`CREATE SCHEMA headgate; CREATE TABLE headgate.migration (version int);
        INSERT INTO headgate.migration VALUES (${migrations.version});
        CREATE PROCEDURE headgate.settle() LANGUAGE plpgsql AS $$ ${gain} $$`);
      const refusal = /of role "alice", .* was made by neither "root" nor a superuser/;
      await assert.rejects(catalogVersion(headgate), refusal);
      await assert.rejects(migrate(headgate, migrations), UntrustedSchema);
      await alice.query('ALTER SCHEMA headgate OWNER TO pg_database_owner');
      await assert.rejects(catalogVersion(headgate), /of role "pg_database_owner"/);
      await headgate.query('DROP SCHEMA headgate CASCADE');
      assert.deepEqual(await migrate(headgate, migrations), { from: 0, to: migrations.version });
    });
  });

  test('the owner of a database can create the schema headgate for a Headgate role that is no superuser', async () => {
    await made('lent');
    await inDatabase('lent', async (open) => {
      const [alice, headgate] = [await open('alice'), await open('hg')];
      await alice.query(
        'CREATE SCHEMA headgate; GRANT USAGE ON SCHEMA headgate TO PUBLIC; GRANT CREATE ON SCHEMA headgate TO hg',
      );
      assert.deepEqual(await migrate(headgate, migrations), { from: 0, to: migrations.version });
    });
  });

  test('the owner of a database cannot choose the role that Headgate acts as', async () => {
    await made('forced');
    await inDatabase('forced', async (open) => {
      const alice = await open('alice');
      const before = await open('root');
      assert.deepEqual(await migrate(before, migrations), { from: 0, to: migrations.version });
      const door = new Door(server.socketDir, 'alice', 'forced');
      await door.client.connect();
      await door.run(webhook('t'));
      await door.client.end();
      await alice.query('ALTER DATABASE forced SET role = alice');
      const after = await open('root');
      const { rows } = await after.query('SELECT current_user::text AS acts, session_user::text AS login');
      assert.deepEqual(rows, [{ acts: 'alice', login: 'root' }]);
      await assert.rejects(
        catalogVersion(after),
        /every session in database "forced" acts as role "alice".*RESET role/,
      );
      await alice.query('ALTER DATABASE forced RESET role');
      assert.equal(await catalogVersion(await open('root')), migrations.version);
      // What a login sets for itself is its own choice.
      await root.client.query('CREATE ROLE login LOGIN IN ROLE hg; ALTER ROLE login SET role = hg');
      const { chosen, role } = await readRights(await open('login'));
      assert.deepEqual([chosen, role], [true, 'hg']);
    });
  });
});
