import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { codes, commitRoom, messages } from '../../test/support/commit-room.ts';
import { rowsOf } from '../../test/support/rows.ts';
import type { Rows } from '../types/rows.ts';

/** Whatever a session can keep. */
const leave = `
  PERFORM set_config('synchronous_commit', 'off', false), set_config('TimeZone', 'Asia/Tokyo', false),
    set_config('DateStyle', 'German', false), set_config('search_path', 'elsewhere', false),
    set_config('statement_timeout', '54321', false), set_config('lock_timeout', '54321', false),
    set_config('default_transaction_isolation', 'serializable', false), set_config('my.own', 'x', false);
  EXECUTE 'CREATE TEMP TABLE IF NOT EXISTS left_behind (n int)';
  PERFORM pg_advisory_lock(77);
  EXECUTE 'LISTEN left_behind';
  EXECUTE format('DECLARE "c%s" CURSOR WITH HOLD FOR SELECT 1', random());
  EXECUTE format('PREPARE "p%s" AS SELECT 1', random());
  PERFORM set_config('role', 'tenant', false);`;

const look = `
  concat_ws(' ', current_user = session_user, current_setting('synchronous_commit'), current_setting('TimeZone'),
    current_setting('DateStyle'), current_setting('search_path'), current_setting('statement_timeout'),
    current_setting('lock_timeout'), current_setting('transaction_isolation'), nullif(current_setting('my.own', true), ''), to_regclass('pg_temp.left_behind'),
    (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objid = 77),
    (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors WHERE is_holdable))`;

const trigger = (name: string, body: string) => `
  CREATE FUNCTION ${name}_code() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN ${body} RETURN NEW; END$$;
  CREATE TRIGGER code BEFORE INSERT ON ${name} FOR EACH ROW EXECUTE FUNCTION ${name}_code()`;

suite('code of one table leaves nothing in its session for the next table', () => {
  test("session state left by a table's code is gone for the next table, after commit and rollback", async (t) => {
    const { client, targetOf, tableOf, send } = await commitRoom(t, { commitConnectionsMax: 1 });
    await client.query(`
      DO $$BEGIN CREATE ROLE tenant; EXCEPTION WHEN duplicate_object THEN NULL; END$$;
      CREATE SCHEMA headgate;
      CREATE FUNCTION headgate.stays(text, oid, text, oid) RETURNS bool LANGUAGE sql AS $$SELECT true$$;
      CREATE FUNCTION headgate.confirm(text, oid, text, oid) RETURNS void LANGUAGE sql AS '';
      CREATE TABLE ta (data jsonb); CREATE TABLE td (id int, fail bool); GRANT ALL ON ta, td TO tenant; GRANT USAGE ON SCHEMA headgate TO tenant;
      CREATE TABLE tb (data jsonb, seen text); CREATE TABLE tc (at timestamptz);
      ${trigger('ta', leave)};
      ${trigger('td', `${leave} IF NEW.fail THEN RAISE EXCEPTION 'no'; END IF;`)};
      ${trigger('tb', `NEW.seen := ${look};`)}`);
    const [ta, td, tb, tc] = [
      await targetOf('ta'),
      await tableOf('td'),
      await tableOf('tb'),
      await tableOf('tc'),
    ];
    const observe = async (): Promise<unknown> => {
      assert.deepEqual(messages(await send([rowsOf(tb, '{"data":1}')])), ['committed']);
      assert.deepEqual(messages(await send([rowsOf(tc, '{"at":"2026-01-02 03:04:05"}')])), ['committed']);
      const seen = await client.query<{ seen: string }>('DELETE FROM tb RETURNING seen');
      const { rows } = await client.query(`DELETE FROM tc RETURNING extract(epoch FROM at)::int AS at`);
      return [seen.rows, rows];
    };
    const before = await observe();
    const dirty: [string, Rows[], unknown[]][] = [
      ['documents', [rowsOf(ta, '1')], [1]],
      ['several documents', [rowsOf(ta, '1'), rowsOf(ta, '2')], [1, 1]],
      ['rows', [rowsOf(td, '{"id":1}')], [1]],
      ['a refused row', [rowsOf(td, '{"id":1,"fail":true}')], ['aborted row_refused']],
      [
        'a refused row among others',
        [rowsOf(td, '{"id":1}'), rowsOf(td, '{"fail":true}')],
        [1, 'aborted row_refused'],
      ],
    ];
    for (const [name, rows, outcomes] of dirty) {
      assert.deepEqual(codes(await send(rows)), outcomes, name);
      assert.deepEqual(await observe(), before, name);
    }
  });

  test("session state left by a table's code does not change synchronous_commit of its rows", async (t) => {
    const { client, targetOf, tableOf, send } = await commitRoom(t, { commitConnectionsMax: 1 });
    await client.query(`
      CREATE SCHEMA headgate;
      CREATE FUNCTION headgate.stays(text, oid, text, oid) RETURNS bool LANGUAGE sql AS $$SELECT true$$;
      CREATE TABLE said (at_commit text);
      CREATE FUNCTION headgate.confirm(text, oid, text, oid) RETURNS void LANGUAGE sql AS
        $$INSERT INTO public.said VALUES (current_setting('synchronous_commit'))$$;
      CREATE TABLE ta (data jsonb); ${trigger('ta', `PERFORM set_config('synchronous_commit', 'off', false);`)};
      CREATE TABLE td (id int); ${trigger('td', `PERFORM set_config('synchronous_commit', 'off', false);`)};
      CREATE FUNCTION ending() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO public.said VALUES (current_setting('synchronous_commit')); RETURN NULL; END$$;
      CREATE CONSTRAINT TRIGGER ending AFTER INSERT ON td DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ending()`);
    assert.deepEqual(codes(await send([rowsOf(await targetOf('ta'), '1')])), [1]);
    assert.deepEqual(codes(await send([rowsOf(await tableOf('td'), '{"id":1}')])), [1]);
    const { rows } = await client.query('SELECT at_commit FROM said');
    assert.deepEqual(rows, [{ at_commit: 'on' }, { at_commit: 'on' }]);
  });
});

suite('names placed before pg_catalog do not mislead a commit', () => {
  test("names placed before pg_catalog are not found by Headgate's statements, and table code resolves names as for any client", async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    // What a role that may create in `public` can put there: it fits better than PostgreSQL's own.
    await client.query(`
      CREATE TABLE caught (what text);
      CREATE FUNCTION caught_one(what text) RETURNS bool LANGUAGE plpgsql AS
        $$BEGIN INSERT INTO public.caught VALUES (what); RETURN true; END$$;
      CREATE FUNCTION eq(varchar, varchar) RETURNS bool LANGUAGE sql AS $$SELECT public.caught_one('=')$$;
      CREATE OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = eq);
      CREATE FUNCTION minus(bigint, unknown_t int DEFAULT 1) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
      CREATE FUNCTION arrow(json, varchar) RETURNS json LANGUAGE sql AS $$SELECT 'null'::json FROM public.caught_one('->')$$;
      CREATE OPERATOR -> (LEFTARG = json, RIGHTARG = varchar, FUNCTION = arrow);
      CREATE FUNCTION concat(text) RETURNS text LANGUAGE sql AS $$SELECT 'caught' FROM public.caught_one('concat 1')$$;
      CREATE FUNCTION concat(text, text) RETURNS text LANGUAGE sql AS $$SELECT 'caught' FROM public.caught_one('concat 2')$$;
      CREATE FUNCTION concat(text, xid8) RETURNS text LANGUAGE sql AS $$SELECT 'caught' FROM public.caught_one('concat xid')$$;
      CREATE AGGREGATE count(bool) (SFUNC = int8inc_any, STYPE = int8, INITCOND = '0');
      CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE sql AS $$SELECT 'caught' FROM public.caught_one('lower')$$;
      CREATE FUNCTION coalesce_like(varchar) RETURNS text LANGUAGE sql AS $$SELECT 'x'$$;
      CREATE TABLE helped (word text);
      CREATE FUNCTION help() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO helped VALUES (NEW.k); RETURN NEW; END$$;
      CREATE TABLE t (k varchar(20) PRIMARY KEY, d text DEFAULT pg_catalog.concat('a', 'b'), x text DEFAULT pg_catalog.lower('X'::varchar));
      CREATE TRIGGER help AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION help()`);
    const target = await tableOf('t');
    const removed = { ...rowsOf(target, '{"k":"a"}', '{"k":"b"}'), deletes: Uint8Array.of(1, 0) };
    assert.deepEqual(codes(await send([rowsOf(target, '{"k":"a"}', '{"k":"b"}')])), [2]);
    assert.deepEqual(codes(await send([removed])), [2]);
    assert.deepEqual(
      codes(await send([rowsOf(target, '{"k":"c"}'), rowsOf(target, '{"k":{}}', '{"d":1}')])),
      [1, 'aborted row_refused'],
    );
    const { rows } = await client.query(`SELECT k, d, x FROM t ORDER BY k COLLATE "C"`);
    assert.deepEqual(
      rows,
      ['b', 'c'].map((k) => ({ k, d: 'ab', x: 'x' })),
    );
    assert.deepEqual((await client.query('SELECT what FROM caught')).rows, []);
    assert.deepEqual((await client.query('SELECT word FROM helped ORDER BY word')).rows.length, 3);
  });

  test('a delete compares a citext key by the equality of its type', async (t) => {
    const { client, tableOf, send } = await commitRoom(t);
    const { rows: available } = await client.query(
      `SELECT FROM pg_available_extensions WHERE name = 'citext'`,
    );
    if (available.length === 0) return t.skip('there is no citext');
    await client.query('CREATE EXTENSION citext; CREATE TABLE t (k citext PRIMARY KEY, n int)');
    const target = await tableOf('t');
    assert.deepEqual(codes(await send([rowsOf(target, '{"k":"Abc","n":1}')])), [1]);
    assert.deepEqual(
      codes(await send([{ ...rowsOf(target, '{"k":"aBC"}'), deletes: Uint8Array.of(1) }])),
      [1],
    );
    assert.deepEqual((await client.query('SELECT k FROM t')).rows, []);
  });
});
