/** A table ran no code when it was read, and its owner gives it some that planning runs, which no lock and no version of the table shows. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { codes, messages } from '../../test/support/commit-room.ts';
import { beginning, room } from '../../test/support/owners-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { embeddedBin } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { Probes } from './probes.ts';
import { roundTrip } from './round-trip.ts';
import { TableStatements } from './table-statements.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

/** Puts a statement of its own in the place of everything that the session has prepared, and tells as whom it ran. */
const planned = (role: string) => `
  CREATE TABLE mal.ran (who name, what text); GRANT USAGE ON SCHEMA mal TO PUBLIC; GRANT ALL ON mal.ran TO PUBLIC;
  CREATE FUNCTION mal.gain() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO mal.ran VALUES (current_user, 'a prepared statement'); RETURN 'xid 1'; END $$;
  CREATE FUNCTION mal.take() RETURNS int LANGUAGE plpgsql AS $$ DECLARE p record; BEGIN
    INSERT INTO mal.ran VALUES (current_user, 'planning');
    FOR p IN SELECT s.name, s.parameter_types FROM pg_prepared_statements s LOOP
      EXECUTE format('DEALLOCATE %I', p.name);
      EXECUTE format('PREPARE %I %s AS SELECT mal.gain()', p.name, CASE WHEN cardinality(p.parameter_types) > 0
        THEN '(' || array_to_string(p.parameter_types::text[], ',') || ')' ELSE '' END);
    END LOOP;
    IF current_user <> '${role}' THEN RETURN 1; END IF;
    RETURN 1 / 0; END $$;
  CREATE FUNCTION mal.pure() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT mal.take()); END $$;
  CREATE STATISTICS mal.planned ON (mal.pure()) FROM mal.t; TRUNCATE mal.ran`;

/** Stores the first row and deletes the second. */
const removing = (rows: Rows): Rows => ({ ...rows, deletes: Uint8Array.of(0, 1) });

/** A column that foreign keys join to another table, a row, and a second one for the same group. */
const joined = [
  { columns: 'data JSONB', key: 'JSONB', rows: ['1', '2'], choice: { document: 'data' } },
  { columns: 'v TEXT, id INT', key: 'INT', rows: ['{"id":1}', '{"id":2}'], choice: {} },
  { columns: `v TEXT CHECK (mine.own(v)), id INT`, key: 'INT', rows: ['{"id":1}', '{"id":2}'], choice: {} },
] as const;

suite('code that a table gets after it was read', () => {
  const begun = new Map<string, TestServer>();
  before(async () => {
    for (const role of ['root', 'hg']) begun.set(role, await beginning(embeddedBin, role));
  });
  after(async () => {
    for (const server of begun.values()) await server.close();
  });
  const roomOf = async (t: Parameters<typeof room>[0], role: string) => {
    const server = begun.get(role);
    assert.ok(server !== undefined);
    const rooms = await room(t, server, embeddedBin, role);
    await rooms.made('id INT PRIMARY KEY, v TEXT', '');
    await rooms.root.query(`CREATE SCHEMA mine AUTHORIZATION ${role}`);
    await rooms.own.query('CREATE TABLE mine.t (id INT PRIMARY KEY, v TEXT)');
    return rooms;
  };

  test('leaves nothing in the session that other tables would use', async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'root');
    const [hers, mine] = [await tableOf('mal.t'), await tableOf('mine.t')];
    assert.deepEqual([hers.code.as, hers.code.inert, mine.code.as], ['owner', true, 'headgate']);
    let next = 1;
    const store = () => send([rowsOf(mine, `{"id":${next++}}`)]);
    for (let i = 0; i < 3; i++) assert.deepEqual(messages(await store()), ['committed']);
    await owner.query(planned('root'));
    const both = () => removing(rowsOf(hers, `{"id":${next++}}`, '{"id":0}'));
    assert.deepEqual(messages(await send([both()])), ['committed']);
    for (let i = 0; i < 3; i++) assert.deepEqual(messages(await store()), ['committed']);
    assert.equal((await root.query('SELECT FROM mine.t')).rowCount, 6);
    const { rows } = await root.query('SELECT DISTINCT who, what FROM mal.ran');
    assert.deepEqual(rows, [{ who: 'mallory', what: 'planning' }]);
  });

  test('does not run where nobody may act for its owner', async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'hg');
    await root.query('REVOKE mallory FROM hg');
    const [hers, mine] = [await tableOf('mal.t'), await tableOf('mine.t')];
    assert.deepEqual([hers.code.as, hers.code.inert], ['nobody', true]);
    assert.deepEqual(messages(await send([removing(rowsOf(hers, '{"id":1}', '{"id":2}'))])), ['committed']);
    await owner.query(planned('hg'));
    const [outcome] = await send([removing(rowsOf(hers, '{"id":3}', '{"id":1}'))]);
    assert.equal(outcome?.kind === 'aborted' && outcome.refusal.code, 'table_changed');
    assert.deepEqual(messages(await send([rowsOf(hers, '{"id":4}')])), ['committed']);
    assert.deepEqual(messages(await send([rowsOf(mine, '{"id":1}')])), ['committed']);
    assert.deepEqual((await root.query('SELECT * FROM mal.ran')).rows, []);
    assert.deepEqual((await root.query('SELECT id FROM mal.t ORDER BY id')).rows, [{ id: 1 }, { id: 4 }]);
    await assert.rejects(tableOf('mal.t'), /GRANT .*mallory.* TO .*hg/);
  });

  test('does not run if it is of a table that a foreign key looks into, and that has another owner by now', async (t) => {
    const { root, owner, own, send, handOver, tableOf } = await roomOf(t, 'root');
    await root.query(
      `CREATE FUNCTION mine.own(text) RETURNS boolean LANGUAGE sql VOLATILE RETURN true; GRANT USAGE ON SCHEMA mine TO mallory`,
    );
    await owner.query(`${planned('root')}; CREATE FUNCTION mal.later() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE format('DECLARE %I CURSOR WITH HOLD FOR SELECT mal.gain()', random()); RETURN mal.take(); END $$;
      CREATE FUNCTION mal.pures() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT mal.later()); END $$`);
    for (const when of ['NOT DEFERRABLE', 'DEFERRABLE INITIALLY DEFERRED'])
      for (const { columns, key, rows, choice } of joined) {
        const what = `${columns} ${when}`;
        await root.query(`DROP TABLE IF EXISTS mine.r, mine.plans; CREATE TABLE mine.plans (id ${key} PRIMARY KEY);
          INSERT INTO mine.plans VALUES ('1'), ('2'); CREATE TABLE mine.r (${columns} UNIQUE REFERENCES mine.plans ${when})`);
        await root.query(
          `INSERT INTO headgate.webhook_table (relation, payload, options, includes) VALUES ('mine.r', 'x', '{}', '[]')`,
        );
        const read = await tableOf('mine.r', choice);
        const target: Target = { ...read, code: { ...read.code, functionsIn: 'headgate' } };
        assert.deepEqual([target.code.as, target.code.joined], ['headgate', true], what);
        const members = rows.map((row) => rowsOf(target, row));
        for (let i = 0; i < 3; i++) {
          assert.deepEqual(codes(await send(members)), [1, 1], what);
          await root.query('TRUNCATE mine.r');
        }
        // It is given away when the table is locked and asked about, and before the row is looked up.
        await root.query(
          `BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO mine.r (${key === 'INT' ? 'id' : 'data'}) VALUES ('1')`,
        );
        const sent = send(members);
        const waits = `SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`;
        while ((await root.query(waits)).rowCount === 0) await root.query('SELECT pg_sleep(0.01)');
        await own.query('ALTER TABLE mine.plans OWNER TO mallory');
        await owner.query('CREATE STATISTICS mal.of_plans ON (mal.pures()) FROM mine.plans');
        await root.query('ROLLBACK');
        const changed = Array(2).fill('aborted table_changed');
        assert.deepEqual(codes(await sent), changed, what);
        assert.deepEqual(codes(await send(members)), changed, what);
        const group = { target, members, rows: 2, bytes: 2 };
        const passage = { spool: '0123456789abcdef0123456789abcdef', first: 1n, last: 2n };
        assert.deepEqual(await handOver(group, passage), { kind: 'changed' }, what);
        // As it is known now, the function of the table's own owner stores its rows.
        const known = await tableOf('mine.r', choice);
        assert.equal(known.code.as, 'owner');
        assert.deepEqual(codes(await send([rowsOf(known, rows[0])])), [1], what);
        const { rows: ran } = await root.query('SELECT DISTINCT who FROM mal.ran');
        assert.deepEqual(ran, [{ who: 'mallory' }], what);
      }
  });

  test('does not come with a domain that takes the name of a column’s type', async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'hg');
    await root.query(`REVOKE mallory FROM hg; CREATE TYPE mine.mood AS ENUM ('ok'); GRANT USAGE ON SCHEMA mine TO mallory;
      CREATE TYPE mal.lent AS ENUM ('ok')`);
    await owner.query(`CREATE TYPE mal.mood AS ENUM ('ok')`);
    for (const type of ['mal.mood', 'mal.mood[]', 'mal.lent', 'mine.mood', 'mine.mood[]']) {
      await owner.query(
        `DROP TABLE mal.t; CREATE TABLE mal.t (id INT, v ${type}); GRANT INSERT ON mal.t TO hg`,
      );
      if (type.startsWith('mal.')) {
        await assert.rejects(tableOf('mal.t'), /GRANT .*mallory.* TO .*hg/, type);
        continue;
      }
      const hers = await tableOf('mal.t');
      assert.deepEqual([hers.code.as, hers.code.inert], ['nobody', true], type);
      assert.deepEqual(messages(await send([rowsOf(hers, '{"id":1}')])), ['committed'], type);
    }
  });

  test('does not run when it is asked which value does not fit', async (t) => {
    const { root, owner, own, send, tableOf } = await roomOf(t, 'root');
    await owner.query(planned('root'));
    await root.query('CREATE DOMAIN mine.word AS TEXT; CREATE TABLE mine.d (id INT, v mine.word)');
    const target = await tableOf('mine.d');
    assert.deepEqual([target.code.as, target.code.inert], ['headgate', false]);
    const rows = rowsOf(target, '{"id":1,"v":"a"}', '{"id":"x","v":"b"}');
    assert.deepEqual(codes(await send([rows])), ['aborted payload_undecodable']);
    const facts = { role: 'root', path: 'public', commit: 'on', apart: false };
    const ask = () =>
      new Probes(
        (messages, counts) => roundTrip(own, messages, counts, 5_000),
        new TableStatements(target),
        facts,
        99,
      ).first(rows);
    assert.deepEqual([(await ask())?.row, (await ask())?.column?.name], [1, 'id']);
    await root.query(
      'ALTER TABLE mine.d OWNER TO mallory; ALTER DOMAIN mine.word OWNER TO mallory; GRANT USAGE ON SCHEMA mine TO mallory',
    );
    await owner.query(`ALTER DOMAIN mine.word ADD CHECK (mal.gain() = 'xid 1'); TRUNCATE mal.ran; CREATE SEQUENCE mal.ran_at;
      CREATE OR REPLACE FUNCTION mal.gain() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('mal.ran_at'); RETURN 'xid 1'; END $$`);
    assert.equal(await ask(), null);
    assert.deepEqual((await root.query('SELECT is_called FROM mal.ran_at')).rows, [{ is_called: false }]);
  });

  test('is not made while rows are looked for', async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'hg');
    await root.query('REVOKE mallory FROM hg');
    const hers = await tableOf('mal.t');
    await owner.query(`BEGIN; INSERT INTO mal.t VALUES (7)`);
    // Waits for the key.
    const sent = send([removing(rowsOf(hers, '{"id":7}', '{"id":8}'))]);
    const waits = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.usename = 'hg'`;
    while ((await root.query(waits)).rowCount === 0) await root.query('SELECT pg_sleep(0.01)');
    const made = root.query(`SET lock_timeout = '100ms'; CREATE STATISTICS mal.late ON (id + 1) FROM mal.t`);
    await assert.rejects(made, /lock timeout/);
    await owner.query('ROLLBACK');
    assert.deepEqual(messages(await sent), ['committed']);
  });
});
