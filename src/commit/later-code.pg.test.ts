/** A table ran no code when it was read, and its owner gives it some that planning runs, which no lock and no version of the table shows. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import type { DatabaseError } from 'pg';
import { codes, messages } from '../../test/support/commit-room.ts';
import { beginning, room } from '../../test/support/owners-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { clientOf } from '../../test/support/owners.ts';
import { until } from '../../test/support/until.ts';
import { embeddedBin } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { ValueSearch } from './value-at-fault.ts';
import { remove } from '../keep/statements.ts';
import { copySql, groupStatement } from './document-copy.ts';
import { isMeantFirst } from './plan-lock.ts';
import { removeOlderStatement, storeNewerStatement, storeNewestStatement } from './newest-statements.ts';
import { roundTrip } from './round-trip.ts';
import {
  removeStatement,
  storeDocumentsStatement,
  storeStatement,
  storeValuesStatement,
} from './statements.ts';
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

suite('code added to a table after the catalog was read does not run with other rights', () => {
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
    await rooms.own.query(`CREATE TABLE mine.t (id INT PRIMARY KEY, v TEXT);
      GRANT USAGE ON SCHEMA mine TO ${rooms.writer}; GRANT ALL ON mine.t TO ${rooms.writer}`);
    return rooms;
  };

  test('code added to a table after the catalog was read leaves nothing in the commit session for other tables', async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'root');
    const [hers, mine] = [await tableOf('mal.t'), await tableOf('mine.t')];
    assert.deepEqual([hers.code.as, hers.code.deletesAs, mine.code.as], ['writer', 'owner', 'writer']);
    let next = 1;
    const store = () => send([rowsOf(mine, `{"id":${next++}}`)]);
    for (let i = 0; i < 3; i++) assert.deepEqual(messages(await store()), ['committed']);
    await owner.query(planned('root'));
    const both = () => removing(rowsOf(hers, `{"id":${next++}}`, '{"id":0}'));
    assert.deepEqual(messages(await send([both()])), ['committed']);
    for (let i = 0; i < 3; i++) assert.deepEqual(messages(await store()), ['committed']);
    assert.equal((await root.query('SELECT FROM mine.t')).rowCount, 6);
    const { rows } = await root.query('SELECT DISTINCT who FROM mal.ran');
    assert.deepEqual(rows, [{ who: 'mallory' }]);
  });

  test("code added to a table does not run if Headgate may not act for the table's owner", async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'hg');
    await root.query('REVOKE mallory FROM hg; ALTER ROLE hg NOCREATEROLE');
    const [hers, mine] = [await tableOf('mal.t'), await tableOf('mine.t')];
    assert.deepEqual([hers.code.as, hers.code.deletesAs], ['writer', 'writer']);
    assert.deepEqual(messages(await send([removing(rowsOf(hers, '{"id":1}', '{"id":2}'))])), ['committed']);
    await owner.query(planned('hg'));
    const [outcome] = await send([removing(rowsOf(hers, '{"id":3}', '{"id":1}'))]);
    assert.equal(outcome?.kind === 'aborted' && outcome.refusal.code, 'table_changed');
    assert.deepEqual(messages(await send([rowsOf(hers, '{"id":4}')])), ['committed']);
    assert.deepEqual(messages(await send([rowsOf(mine, '{"id":1}')])), ['committed']);
    assert.deepEqual((await root.query('SELECT * FROM mal.ran')).rows, []);
    assert.deepEqual((await root.query('SELECT id FROM mal.t ORDER BY id')).rows, [{ id: 1 }, { id: 4 }]);
    await assert.rejects(tableOf('mal.t'), /CREATE ROLE headgate_as_\d+ LOGIN; GRANT .*mallory/);
  });

  test("code of an owner that has lost its membership in Headgate's role does not run in Headgate's session", async (t) => {
    const { root, send, tableOf, made } = await roomOf(t, 'hg');
    await root.query('REVOKE mallory FROM hg');
    await made(
      'id INT',
      `CREATE SEQUENCE mal.ran; GRANT ALL ON mal.ran TO PUBLIC;
       CREATE FUNCTION mal.runs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('mal.ran'); RETURN NEW; END $$;
       CREATE TRIGGER runs BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.runs()`,
    );
    for (const registered of [false, true]) {
      await root.query('GRANT hg TO mallory');
      const hers = await tableOf('mal.t', {}, registered);
      assert.equal(hers.code.as, 'headgate');
      assert.deepEqual(codes(await send([rowsOf(hers, '{"id":1}')])), [1]);
      await root.query(`REVOKE hg FROM mallory; SELECT setval('mal.ran', 1, false)`);
      assert.deepEqual(codes(await send([rowsOf(hers, '{"id":2}')])), ['aborted table_changed']);
      assert.deepEqual((await root.query('SELECT is_called FROM mal.ran')).rows, [{ is_called: false }]);
    }
  });

  test("an owner's code runs in Headgate's session only if the owner could act as Headgate's login role", async (t) => {
    const { root, own, tableOf, made } = await roomOf(t, 'hg');
    await made('id INT', 'ALTER TABLE mal.t ENABLE ROW LEVEL SECURITY');
    await root.query(
      'REVOKE mallory FROM hg; CREATE ROLE weak; GRANT weak TO hg, mallory; GRANT USAGE ON SCHEMA mal TO weak',
    );
    await own.query('SET ROLE weak');
    // RESET ROLE would lead back to that one.
    await assert.rejects(tableOf('mal.t'), /for which role \\"weak\\" cannot log in/);
    await root.query('GRANT hg TO mallory');
    assert.equal((await tableOf('mal.t')).code.as, 'headgate');
  });

  test("a table whose column type another owner could replace by a domain is not stored with Headgate's rights", async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'hg');
    await root.query(`REVOKE mallory FROM hg; ALTER ROLE hg NOCREATEROLE; CREATE TYPE mine.mood AS ENUM ('ok'); GRANT USAGE ON SCHEMA mine TO mallory;
      CREATE TYPE mal.lent AS ENUM ('ok')`);
    await owner.query(`CREATE TYPE mal.mood AS ENUM ('ok')`);
    for (const type of ['mal.mood', 'mal.mood[]', 'mal.lent', 'mine.mood', 'mine.mood[]']) {
      await owner.query(
        `DROP TABLE mal.t; CREATE TABLE mal.t (id INT, v ${type}); GRANT INSERT ON mal.t TO hg`,
      );
      if (type.startsWith('mal.')) {
        await assert.rejects(tableOf('mal.t'), /CREATE ROLE headgate_as_\d+ LOGIN; GRANT .*mallory/, type);
        continue;
      }
      const hers = await tableOf('mal.t');
      assert.equal(hers.code.as, 'writer', type);
      assert.deepEqual(messages(await send([rowsOf(hers, '{"id":1}')])), ['committed'], type);
    }
  });

  test('code added to a table does not run during the search for a value of the wrong type', async (t) => {
    const { root, owner, own, send, tableOf } = await roomOf(t, 'root');
    await owner.query(planned('root'));
    await root.query(
      'CREATE DOMAIN mine.word AS TEXT; CREATE TABLE mine.d (id INT, v mine.word); GRANT ALL ON mine.d TO PUBLIC',
    );
    const target = await tableOf('mine.d');
    assert.equal(target.code.as, 'headgate');
    const rows = rowsOf(target, '{"id":1,"v":"a"}', '{"id":"x","v":"b"}');
    assert.deepEqual(codes(await send([rows])), ['aborted payload_undecodable']);
    const facts = { role: 'root', path: 'public', commit: 'on', apart: false };
    const ask = () =>
      new ValueSearch(
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

  test("code cannot be added to a table during a commit's search for existing rows", async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'hg');
    await root.query('REVOKE mallory FROM hg; ALTER ROLE hg NOCREATEROLE');
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

  test("no statement of a commit runs code of another table that takes its table's name by a schema rename", async (t) => {
    const { root, owner, send, tableOf } = await roomOf(t, 'root');
    const other = await clientOf(t, { host: root.host, database: 'postgres', user: 'mallory' });
    // What is counted up stays so after a rollback.
    await root.query(`GRANT CREATE ON DATABASE postgres TO mallory; CREATE SCHEMA trap AUTHORIZATION mallory; CREATE SCHEMA seen AUTHORIZATION mallory;
      GRANT USAGE ON SCHEMA trap, seen TO PUBLIC`);
    await owner.query(`CREATE SEQUENCE seen.ran; ALTER TABLE mal.t ADD at TIMESTAMPTZ;
      CREATE FUNCTION seen.pure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM nextval('seen.ran'); RETURN 1; END $$;
      CREATE TABLE trap.t (id INT PRIMARY KEY, v TEXT, at TIMESTAMPTZ, n INT DEFAULT seen.pure(1));
      CREATE FUNCTION seen.fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('seen.ran'); RETURN NULL; END $$;
      CREATE TRIGGER fired BEFORE INSERT OR UPDATE OR DELETE ON trap.t EXECUTE FUNCTION seen.fired(); GRANT ALL ON seen.ran, mal.t, trap.t TO PUBLIC`);
    const hers = await tableOf('mal.t', {}, true);
    assert.equal(hers.code.as, 'writer');
    await owner.query('BEGIN; INSERT INTO mal.t VALUES (7)');
    // Rows that keep different columns are stored by different statements: the first waits for the key, and the second stores a value apart, in a relation
    // that has to be locked, so that the session learns what was renamed.
    const large = randomBytes(20_000).toString('hex');
    const sent = send(
      ['{"id":7}', `{"id":8,"v":"${large}"}`, '{"id":9}'].map((row) => ({
        ...rowsOf(hers, row),
        keeps: row.includes('"v"') ? null : new Map([[0, ['v']]]),
      })),
    );
    const waits = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.usename = 'headgate_commit'`;
    await until(async () => (await root.query(waits)).rowCount !== 0);
    await other.query('ALTER SCHEMA mal RENAME TO was; ALTER SCHEMA trap RENAME TO mal');
    await owner.query('ROLLBACK');
    assert.deepEqual(
      codes(await sent),
      Array.from({ length: 3 }, () => 'aborted table_changed'),
    );
    // Each statement alone, without the questions before it.
    const newest = { parts: [{ column: 'v', type: 25, path: null }], keyTypes: [23], replacesEqual: false };
    const versioned = { ...hers, shape: { ...hers.shape, newest } } as unknown as Target;
    const documents = {
      ...hers,
      shape: { ...hers.shape, columns: [{ ...hers.shape.columns[1], name: 'v' }] },
    } as Target;
    // On Citus, of which this server has nothing: either the statement has the condition, or it comes right before.
    const spread = { ...hers, shape: { ...hers.shape, distributedByCitus: true } } as Target;
    const copied = { ...documents, shape: { ...documents.shape, distributedByCitus: true } } as Target;
    const grouped = groupStatement(
      copied,
      { commit: 'as it is', timeoutMs: null },
      { role: 'root', path: '', commit: 'on', apart: false },
      false,
    ).sql.split('; ');
    const at = grouped.findIndex((it) => it.startsWith('copy '));
    assert.deepEqual(grouped.slice(at - 2, at), isMeantFirst(copied));
    for (const text of [
      storeValuesStatement(spread).replace(', $1, $2)', `, '[]'::json, '')`).replaceAll('$1', `''[]''::json`),
      isMeantFirst(spread)[1] ?? '',
      storeStatement(hers),
      storeStatement({ ...hers, shape: { ...hers.shape, writeMode: 'insert' } }),
      storeStatement({ ...hers, shape: { ...hers.shape, writeMode: 'ignore' } }),
      storeDocumentsStatement(documents),
      storeNewestStatement(versioned),
      storeNewerStatement(versioned, [], true),
      removeStatement(hers) ?? '',
      removeOlderStatement(versioned),
      copySql(documents, { apart: false }),
      copySql(documents, { apart: true }),
      copySql(documents, { apart: false }, true),
      copySql({ ...documents, code: { ...documents.code, schemaTrusted: true } }, { apart: false }, true),
      remove(
        { oid: String(hers.oid), name: '"mal"."t"' },
        'at',
        'now',
        'now',
        { indexed: false, lockable: false },
        1,
        null,
      ),
      storeStatement(spread),
    ]) {
      const whole = text.replaceAll('$1', `'[]'::json`).replaceAll('$2', `''`).replaceAll('$3', `''::bytea`);
      await assert.rejects(root.query(whole), /invalid input syntax for type boolean: "elsewhere"/, whole);
      assert.deepEqual(
        (await root.query('SELECT is_called FROM seen.ran')).rows,
        [{ is_called: false }],
        whole,
      );
    }
  });

  test('a storing statement that waits for its table runs no code of another table that takes the name meanwhile', async (t) => {
    const { root, owner, own, tableOf } = await roomOf(t, 'root');
    const other = await clientOf(t, { host: root.host, database: 'postgres', user: 'mallory' });
    await root.query(
      `GRANT CREATE ON DATABASE postgres TO mallory; CREATE SCHEMA trap AUTHORIZATION mallory; CREATE SCHEMA seen AUTHORIZATION mallory`,
    );
    await owner.query(`CREATE SEQUENCE seen.ran;
      CREATE FUNCTION seen.pure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM nextval('seen.ran'); RETURN 1; END $$;
      CREATE TABLE trap.t (id INT PRIMARY KEY, v TEXT, n INT DEFAULT seen.pure(1))`);
    const hers = await tableOf('mal.t', {}, true);
    await owner.query('BEGIN; LOCK TABLE mal.t');
    // When it began, the name meant the right table.
    const late = own.query(storeStatement(hers).replaceAll('$1', `'[]'::json`).replaceAll('$2', `''`));
    const failed = assert.rejects(late, (error: DatabaseError) => {
      assert.match(error.message, /invalid input syntax for type boolean: "elsewhere"/);
      // A place in the text, which no value of a row has: no row is blamed.
      assert.match(error.position ?? '', /^\d+$/);
      return true;
    });
    await until(async () => (await root.query('SELECT FROM pg_locks WHERE NOT granted')).rowCount !== 0);
    await other.query('ALTER SCHEMA mal RENAME TO was; ALTER SCHEMA trap RENAME TO mal');
    await owner.query('COMMIT');
    await failed;
    assert.deepEqual((await root.query('SELECT is_called FROM seen.ran')).rows, [{ is_called: false }]);
  });

  test("a group runs no code of a view that has its table's name only while the group waits for a lock", async (t) => {
    const { root, owner, send, tableOf, writer } = await roomOf(t, 'root');
    const other = await clientOf(t, { host: root.host, database: 'postgres', user: 'mallory' });
    await root.query('CREATE SCHEMA trap AUTHORIZATION mallory; GRANT USAGE ON SCHEMA trap TO PUBLIC');
    // A name of a table is all that changes hands: that takes no right on the database.
    await owner.query(`CREATE SEQUENCE trap.ran; CREATE TABLE mal.d (data JSONB);
      CREATE FUNCTION trap.pure(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM nextval('trap.ran'); RETURN 1; END $$;
      CREATE TABLE trap.t (id INT PRIMARY KEY, v TEXT, n INT DEFAULT trap.pure(1)); CREATE VIEW mal.t_trap AS SELECT * FROM trap.t;
      CREATE TABLE trap.d (data JSONB, n INT DEFAULT trap.pure(1)); CREATE VIEW mal.d_trap AS SELECT * FROM trap.d;
      GRANT ALL ON trap.ran, mal.t, trap.t, mal.t_trap, mal.d, trap.d, mal.d_trap TO PUBLIC`);
    const waits = `SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.usename = '${writer}'`;
    for (const [name, row, rows] of [
      ['t', '{"id":1}', 1],
      ['d', '{"id":1}', 1],
      ['d', '{"id":1}', 40],
    ] as const) {
      const hers = await tableOf(`mal.${name}`, {}, true);
      assert.equal(hers.code.as, 'writer');
      const rename = (from: string, to: string) => `ALTER TABLE mal.${from} RENAME TO ${to}`;
      await owner.query(`BEGIN; LOCK TABLE trap.${name}`);
      await other.query(`BEGIN; ${rename(name, 'was')}; ${rename(`${name}_trap`, name)}; COMMIT`);
      let isOver = false;
      const sent = send([rowsOf(hers, ...Array.from({ length: rows }, () => row))]).finally(() => {
        isOver = true;
      });
      await until(async () => isOver || (await root.query(waits)).rowCount !== 0);
      await other.query(`BEGIN; ${rename(name, `${name}_trap`)}; ${rename('was', name)}; COMMIT`);
      await owner.query('COMMIT');
      assert.deepEqual(codes(await sent), ['aborted table_changed'], name);
    }
    assert.deepEqual((await root.query('SELECT is_called FROM trap.ran')).rows, [{ is_called: false }]);
  });
});
