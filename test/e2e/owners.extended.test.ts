/** Many owners at one time, and what one of them sets for his database. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { asked } from '../support/asked.ts';
import type { Answer } from '../support/asked.ts';
import { sharedHeadgate } from '../support/headgate.ts';
import { times } from '../support/sample.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';

const shared = sharedHeadgate();

suite('tables of many owners are served side by side', () => {
  test('first rows of many owners are all stored, and those of tables with code in sessions of their owners', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    const count = times(70, 500);
    await root.query(`CREATE SCHEMA o; GRANT ALL ON SCHEMA o TO PUBLIC;
      CREATE FUNCTION o.who() RETURNS text LANGUAGE sql VOLATILE AS 'SELECT current_user'; CREATE PROCEDURE o.owners(n int) LANGUAGE plpgsql AS $$
      BEGIN FOR i IN 1..n LOOP EXECUTE format('CREATE ROLE o%s', i); END LOOP; END $$; CALL o.owners(${count})`);
    for (let i = 1; i <= count; i++)
      await root.query(
        `CREATE TABLE o.t${i} (id INT, who TEXT DEFAULT o.who(), session TEXT DEFAULT session_user) WITH (connector = 'webhook');
         CREATE TABLE o.p${i} (id INT) WITH (connector = 'webhook')`,
      );
    await root.query(
      `DO $$ BEGIN FOR i IN 1..${count} LOOP EXECUTE format('ALTER TABLE o.t%1$s OWNER TO o%1$s; ALTER TABLE o.p%1$s OWNER TO o%1$s', i); END LOOP; END $$`,
    );
    await until(async () => (await headgate.post(`dev/o/t${count}`, '{"id":0}')).status === 200);
    // As many at a time as a service has connections: a session takes some ms to open, and a sender's time is limited.
    const waiting = Array.from({ length: count }, (_, i) => i + 1);
    const answers: Answer[] = [];
    const sender = async () => {
      for (let i = waiting.shift(); i !== undefined; i = waiting.shift())
        answers.push(await headgate.post(`dev/o/t${i}`, '{"id":1}'));
    };
    await Promise.all(Array.from({ length: 16 }, sender));
    answers.push(
      ...(await Promise.all(
        Array.from({ length: count }, (_, i) => headgate.post(`dev/o/p${i + 1}`, '{"id":1}')),
      )),
    );
    assert.deepEqual(
      answers.filter(({ status }) => status !== 200).map(({ status, text }) => `${status} ${text}`),
      [],
    );
    for (let i = 1; i <= count; i++) {
      const { rows } = await root.query(
        `SELECT DISTINCT who, starts_with(session, format('headgate_as_%s_', 'o${i}'::regrole::oid)) AS own FROM o.t${i} WHERE id = 1`,
      );
      assert.deepEqual(rows, [{ who: `o${i}`, own: true }]);
    }
    // Those that were closed for others may not have ended yet; the others are kept for longer.
    await within(limits.ownerSessionIdleMs / 3, async () => {
      const { rows } = await root.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename LIKE 'headgate_as_%'`,
      );
      assert.ok((rows[0]?.n ?? 0) <= limits.ownerSessionsMax, String(rows[0]?.n));
    });
  });

  test('settings of one database stop no table of another database', async (t) => {
    const headgate = await shared();
    const root = await headgate.client(t);
    await root.query(
      'CREATE ROLE landlord LOGIN; CREATE ROLE tenant LOGIN; CREATE SCHEMA rented AUTHORIZATION tenant',
    );
    await root.query('CREATE DATABASE theirs OWNER landlord');
    const tenant = await headgate.clientAs(t, 'tenant');
    await tenant.query(`CREATE TABLE rented.plain (data JSONB) WITH (connector = 'webhook');
      CREATE TABLE rented.coded (id INT) WITH (connector = 'webhook')`);
    await tenant.query(`CREATE FUNCTION rented.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
      CREATE TRIGGER f BEFORE INSERT ON rented.coded FOR EACH ROW EXECUTE FUNCTION rented.f()`);
    const landlord = await headgate.clientAs(t, 'landlord', 'theirs');
    await landlord.query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    const all = ['theirs/public/t', 'dev/rented/plain', 'dev/rented/coded'];
    const post = async () =>
      Promise.all(all.map(async (table) => (await headgate.post(table, '{"id":1}')).status));
    await until(async () => (await post()).every((status) => status === 200));
    for (const settings of [
      ['SET default_transaction_read_only = on'],
      [
        'SET statement_timeout = 1',
        'SET lock_timeout = 1',
        'SET idle_session_timeout = 1',
        'SET row_security = off',
      ],
      ['CONNECTION LIMIT 0'],
    ]) {
      for (const setting of settings) await landlord.query(`ALTER DATABASE theirs ${setting}`);
      // They are those of sessions that begin from now on.
      await root.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'theirs' AND usename <> 'landlord'`,
      );
      await until(async () => {
        const [there, ...here] = await post();
        assert.deepEqual(here, [200, 200], settings.join());
        return there === 503;
      });
      assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 200, settings.join());
      await root.query('ALTER DATABASE theirs RESET ALL; ALTER DATABASE theirs CONNECTION LIMIT -1');
      await until(async () => (await post())[0] === 200);
    }
  });
});
