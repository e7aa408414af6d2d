/** A schema gets the name of another one while `headgate gateway`, whose database has none of Headgate's functions, stores events: no code of its table runs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway } from '../../test/support/gateway.ts';
import { versions } from '../../test/support/owners-room.ts';
import { clientOf } from '../../test/support/owners.ts';
import { sampleOf } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { openPostgresEngine } from '../engine/postgres.ts';

for (const { version, bin } of sampleOf(versions, 1))
  test(`the gateway runs no code of a table whose schema takes the name during a body, on PostgreSQL ${version}`, async (t) => {
    const server = await startServer(bin);
    onEnd(t, 'server', () => server.close());
    const config = { host: server.socketDir, database: 'postgres' };
    const root = await clientOf(t, { ...config, user: 'root' });
    await root.query(
      `CREATE ROLE writer LOGIN; CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory`,
    );
    const mallory = await clientOf(t, { ...config, user: 'mallory' });
    // What is counted up stays so after a rollback.
    await mallory.query(`CREATE SCHEMA mal; CREATE SCHEMA trap; CREATE SCHEMA seen; GRANT USAGE ON SCHEMA mal, trap, seen TO writer; CREATE SEQUENCE seen.ran;
      CREATE FUNCTION seen.pure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM nextval('seen.ran'); RETURN 1; END $$;
      CREATE TABLE mal.plain (id int, v text); CREATE TABLE trap.plain (id int, v text, n int DEFAULT seen.pure(1));
      CREATE TABLE mal.keyed (id int PRIMARY KEY, v text); CREATE TABLE trap.keyed (id int PRIMARY KEY, v text, n int DEFAULT seen.pure(1));
      CREATE TABLE mal.viewed (id int, headgate_row text); CREATE VIEW trap.viewed AS SELECT id, v AS headgate_row FROM trap.plain;
      GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA mal, trap TO writer; GRANT ALL ON seen.ran TO writer`);
    const databaseUrl = `postgresql://writer@/postgres?host=${encodeURIComponent(server.socketDir)}`;
    const engine = await openPostgresEngine({ databaseUrl, observe: () => undefined });
    onEnd(t, 'engine', () => engine.close());
    const gateway = await openTestGateway(t, { engine });
    const stores = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
      WHERE a.usename = 'writer' AND a.state = 'idle in transaction' AND l.relation = 'mal.NAME'::regclass AND l.mode = 'RowExclusiveLock'`;
    // Rows of a megabyte, which go to the database before the body has ended.
    const large = `{"id":1,"more":"${'x'.repeat(1_100_000)}"}\n`;
    for (const [name, query] of [
      ['plain', ''],
      ['keyed', '&on_conflict=update'],
      ['keyed', '&on_conflict=ignore'],
      ['viewed', ''],
    ] as const) {
      const sent = request(`${gateway.url}/v1/events?name=mal.${name}${query}`, { method: 'POST' });
      const answered = once(sent, 'response');
      sent.write(large);
      sent.write(large.replace('1', '2'));
      await until(async () => (await root.query(stores.replace('NAME', name))).rowCount !== 0);
      await mallory.query('ALTER SCHEMA mal RENAME TO was; ALTER SCHEMA trap RENAME TO mal');
      sent.end('{"id":3}\n');
      const [answer] = (await answered) as [{ readonly statusCode: number; resume(): void }];
      answer.resume();
      assert.equal(answer.statusCode, 503, name);
      await mallory.query('ALTER SCHEMA mal RENAME TO trap; ALTER SCHEMA was RENAME TO mal');
      const { rows } = await root.query('SELECT is_called FROM seen.ran');
      assert.deepEqual(rows, [{ is_called: false }], `${name}${query}`);
      const { status, text } = await gateway.events(`name=mal.${name}${query}`, '{"id":4}');
      assert.equal(status, 200, text);
    }
  });
