import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { test } from 'node:test';
import { Door } from '../../test/support/ddl-door.ts';
import { ownerLogins } from '../../test/support/owner-logins.ts';
import { startServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import { keepOnce } from './retention.ts';

test("keep runs no code with Headgate's rights when a table joined by a foreign key changes its owner", async (t) => {
  const server = await startServer();
  const [root, other, mallory] = [
    new Door(server.socketDir, 'root'),
    new Door(server.socketDir, 'root'),
    new Door(server.socketDir, 'mallory'),
  ];
  t.after(() => server.close());
  await root.client.connect();
  await other.client.connect();
  await migrate(root.client, readMigrations());
  await root.run('CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory');
  await mallory.client.connect();
  for (const when of ['NOT DEFERRABLE', 'DEFERRABLE INITIALLY DEFERRED']) {
    await root.run(
      `CREATE TABLE kept (data JSONB) INCLUDE TIMESTAMP AS arrived INCLUDE HEADER 'x' AS id WITH (connector = 'webhook', keep = '1 minute')`,
    );
    await root.run(`ALTER TABLE kept ADD UNIQUE (id); CREATE TABLE kids (id TEXT REFERENCES kept (id) ${when});
      INSERT INTO kept SELECT '1', now() - interval '1 hour', n FROM generate_series(1, 5) AS n`);
    await mallory.run(`CREATE TABLE mal.ran (who name, what text); GRANT USAGE ON SCHEMA mal TO PUBLIC; GRANT INSERT ON mal.ran TO PUBLIC;
      CREATE FUNCTION mal.gain(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO mal.ran VALUES (current_user, what); RETURN 1; END $$;
      CREATE FUNCTION mal.later() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE format('DECLARE %I CURSOR WITH HOLD FOR SELECT mal.gain(%L)', random(), 'at COMMIT'); RETURN mal.gain('planning'); END $$;
      CREATE FUNCTION mal.pure() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT mal.later()); END $$`);
    await root.run('BEGIN; LOCK TABLE kept');
    const engine = {
      clientConfig: (database: string) => ({ host: server.socketDir, user: 'root', database }),
      unavailable: null,
    };
    const logins = ownerLogins(t, engine.clientConfig);
    const options = { engine, logins, limits, observe: () => undefined, clock: () => performance.now() };
    const passed = keepOnce('postgres', options, new AbortController().signal);
    const waits = `SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation'`;
    await until(async () => (await other.run(waits)).length > 0);
    await other.run('ALTER TABLE kids OWNER TO mallory; GRANT USAGE ON SCHEMA public TO mallory');
    await mallory.run('CREATE STATISTICS mal.planned ON (mal.pure()) FROM kids; TRUNCATE mal.ran');
    await root.run('COMMIT');
    await passed;
    assert.deepEqual(await root.run(`SELECT * FROM mal.ran WHERE who <> 'mallory'`), []);
    assert.deepEqual(await root.run('SELECT count(*)::int FROM kept'), [[5]]);
    await root.run('DROP TABLE kept, kids; DROP SCHEMA mal CASCADE; CREATE SCHEMA mal AUTHORIZATION mallory');
  }
  for (const door of [root, other, mallory]) await door.client.end();
});
