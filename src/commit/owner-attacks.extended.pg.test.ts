/** What owners try beside the code of their own tables: with the role that stores plain tables, and with Headgate's memory. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { codes as outcomesOf, describeTable, messages } from '../../test/support/commit-room.ts';
import { beginning, room, versions } from '../../test/support/owners-room.ts';
import { clientOf, codes, loginOf, nothingGained } from '../../test/support/owners.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { sampleOf } from '../../test/support/sample.ts';
import type { TestServer } from '../../test/support/server.ts';
import { letWriterIn } from '../catalog/rights.ts';
import { toCode } from '../relations/shape.ts';
import { LoginRefused } from '../engine/owner-logins.ts';

// Each role on one of the versions.
for (const role of ['root', 'hg']) {
  for (const { version, bin } of sampleOf(
    versions.filter(({ bin }) => existsSync(bin)),
    1,
  )) {
    suite(
      `owners of tables gain no rights by attacks on PostgreSQL ${version}, Headgate as ${role}`,
      { skip: !existsSync(bin) },
      () => {
        let begun: TestServer;
        before(async () => {
          begun = await beginning(bin, role);
        });
        after(() => begun.close());

        test("a table's default or check does not advance another owner's sequence with the rights of the commit role", async (t) => {
          const { root, owner, own, writer, send, tableOf, made } = await room(t, begun, bin, role);
          await root.query(`CREATE TABLE other.counted (id SERIAL); GRANT USAGE ON SCHEMA other TO ${writer};
          GRANT USAGE ON SEQUENCE other.counted_id_seq TO ${writer}`);
          const { rows: sequences } = await root.query<{ oid: number }>(
            `SELECT 'other.counted_id_seq'::regclass::oid::int8::int4 AS oid`,
          );
          const oid = sequences[0]?.oid;
          for (const columns of [
            `id INT, n BIGINT DEFAULT nextval(${oid}::regclass)`,
            `id INT, n BIGINT DEFAULT nextval(${oid}::oid::regclass)`,
            `id INT, n BIGINT DEFAULT CASE WHEN random() < 2 THEN nextval(${oid}::regclass) END`,
            `id INT, CHECK (nextval(${oid}::regclass) > 0)`,
            `id INT, n OID DEFAULT ${oid}, CHECK (nextval(n::regclass) > 0)`,
          ]) {
            await made(columns, '');
            const target = await tableOf('mal.t');
            assert.deepEqual([target.code.as, target.code.inert], ['owner', false], columns);
            assert.match(outcomesOf(await send([rowsOf(target, '{"id":1}')])).join(), /^aborted/, columns);
          }
          const { rows } = await root.query(
            'SELECT last_value::int AS value, is_called FROM other.counted_id_seq',
          );
          assert.deepEqual(rows, [{ value: 1, is_called: false }]);
          // One that gets the number that a default has named before there was such a relation.
          const later = async (): Promise<number> => {
            await root.query('DROP SEQUENCE IF EXISTS other.later; CREATE SEQUENCE other.later');
            const { rows } = await root.query<{ oid: number }>(
              `SELECT 'other.later'::regclass::oid::int8::int4 AS oid`,
            );
            return rows[0]?.oid ?? 0;
          };
          const next = (await later()) + 2_000;
          await made(`id INT, n BIGINT DEFAULT nextval('${next}'::regclass)`, '');
          for (let at = await later(); at < next; at = await later())
            await root.query(`SELECT lo_unlink(lo_create(0)) FROM generate_series(2, ${next - at})`);
          await root.query(`GRANT USAGE ON SEQUENCE other.later TO ${writer}`);
          const dangling = await tableOf('mal.t');
          assert.equal(dangling.code.as, 'owner');
          assert.match(outcomesOf(await send([rowsOf(dangling, '{"id":1}')])).join(), /^aborted/);
          const { rows: counted } = await root.query(
            `SELECT 'other.later'::regclass::oid::int8::int4 AS oid, is_called FROM other.later`,
          );
          assert.deepEqual(counted, [{ oid: next, is_called: false }]);
          // Its own are counted up without its session.
          await made('id INT, n SERIAL, m BIGINT GENERATED ALWAYS AS IDENTITY', '');
          await owner.query(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA mal TO ${writer}`);
          const usual = await describeTable(own, 'mal.t');
          assert(usual !== null);
          const code = toCode(usual);
          assert.ok(typeof code !== 'string' && code.as === 'writer');
        });

        test('the partition key of another table is not evaluated with the rights of the commit role', async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          await made(
            'id INT',
            `CREATE FUNCTION mal.key() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM mal.evil(); RETURN 1; END$$;
             CREATE TABLE mal.parted (a int) PARTITION BY HASH ((a + mal.key())); TRUNCATE mal.seen`,
          );
          const { rows: parted } = await root.query<{ oid: number }>(
            `SELECT 'mal.parted'::regclass::oid::int8::int4 AS oid`,
          );
          const belongs = `satisfies_hash_partition(${parted[0]?.oid}::oid, 2, 0, id)`;
          for (const place of [
            `CREATE TABLE mal.t (id INT, CHECK (${belongs} IS NOT NULL))`,
            `CREATE TABLE mal.t (id INT, v BOOL DEFAULT ${belongs.replace(' id', ' 1')})`,
            `CREATE TABLE mal.t (id INT, g BOOL GENERATED ALWAYS AS (${belongs}) STORED)`,
            `CREATE TABLE mal.t (id INT); CREATE INDEX ON mal.t ((${belongs}))`,
            `CREATE TABLE mal.t (id INT); CREATE INDEX ON mal.t (id) WHERE ${belongs}`,
          ]) {
            await root.query(
              `DROP TABLE mal.t; SET ROLE mallory; ${place}; GRANT ALL ON mal.t TO PUBLIC; RESET ROLE; TRUNCATE mal.seen`,
            );
            const target = await tableOf('mal.t');
            assert.equal(target.code.as, 'owner', place);
            assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1], place);
            await nothingGained(root, place);
          }
        });

        test('the functions of a range type are not called by an index with the rights of the commit role', async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          for (const index of [
            `gist ((CASE WHEN id = 9999 THEN '[-9,9999)'::mal.span ELSE '[1,3)'::mal.span END))`,
            `gist ((CASE WHEN id = 9999 THEN '{[-9,9999)}'::mal.spans ELSE '{[1,3)}'::mal.spans END))`,
            `btree (id) WHERE '{"[1,3)"}'::mal.span[] IS NOT NULL`,
          ]) {
            await made(
              'id INT',
              `CREATE FUNCTION mal.tell() RETURNS void LANGUAGE sql AS $$INSERT INTO mal.seen VALUES (current_user, session_user, '')$$;
               CREATE FUNCTION mal.apart(int, int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM mal.tell(); RETURN $1 - $2; END$$;
               CREATE TYPE mal.span AS RANGE (SUBTYPE = int4, SUBTYPE_DIFF = mal.apart, MULTIRANGE_TYPE_NAME = mal.spans);
               INSERT INTO mal.t SELECT generate_series(1, 1000); CREATE INDEX ON mal.t USING ${index}; TRUNCATE mal.seen`,
            );
            const target = await tableOf('mal.t');
            assert.equal(target.code.as, 'owner', index);
            assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":9999}')])), [1], index);
            await nothingGained(root, index);
          }
        });

        test('a type of an extension that an owner created belongs to a superuser and cannot be moved by the owner', async (t) => {
          const { root, owner, writer, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', '');
          await root.query(
            'GRANT CREATE ON DATABASE postgres TO mallory; GRANT CREATE ON SCHEMA public TO mallory',
          );
          await owner
            .query('CREATE EXTENSION citext SCHEMA public')
            .catch(() => t.skip('there is no citext'));
          await root.query(`CREATE TABLE other.ext (id INT, v public.citext, w public.citext[]);
          GRANT USAGE ON SCHEMA other TO ${writer}; GRANT ALL ON other.ext TO ${writer}; ALTER TABLE other.ext OWNER TO ${role}`);
          assert.equal((await tableOf('other.ext')).code.as, 'writer');
          const denied = { code: '42501' };
          await assert.rejects(owner.query('ALTER EXTENSION citext SET SCHEMA mal'), denied);
          await assert.rejects(owner.query('ALTER TYPE public.citext RENAME TO other'), denied);
          // What goes with it are columns, and so it is another table.
          const before = await tableOf('other.ext');
          await owner.query('DROP EXTENSION citext CASCADE; CREATE DOMAIN public.citext AS text');
          assert.notEqual((await tableOf('other.ext')).shape.version, before.shape.version);
        });

        test('a commit without USAGE on the schema headgate is refused with that reason', async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          for (const [columns, after, choice] of [
            ['data jsonb', '', { document: 'data' }],
            ['id INT PRIMARY KEY', '', {}],
            ['id INT', codes[0]?.after ?? '', {}],
          ] as const) {
            await made(columns, after);
            const target = await tableOf('mal.t', choice, true);
            // The role that owns the schema needs no grant.
            if (role !== 'root' && target.code.as === 'writer') continue;
            await root.query('REVOKE USAGE ON SCHEMA headgate FROM PUBLIC');
            const outcomes = await send([rowsOf(target, '{"id":1}')]);
            assert.match(
              messages(outcomes).join(),
              /schema headgate: GRANT USAGE ON SCHEMA headgate TO PUBLIC/,
              columns,
            );
            assert.deepEqual(outcomesOf(outcomes), ['aborted table_unusable']);
            await root.query('GRANT USAGE ON SCHEMA headgate TO PUBLIC');
            assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
          }
        });

        test('a login of an owner whose role row stays locked is refused in time, and is corrected later', async (t) => {
          const { root, logins, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', codes[0]?.after ?? '');
          const target = await tableOf('mal.t');
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
          const login = await loginOf(root);
          await root.query(`ALTER ROLE ${login} SET work_mem = '1MB'`);
          await root.query(`BEGIN; ALTER ROLE ${login} SET work_mem = '2MB'`);
          const asked = await Promise.allSettled(
            Array.from({ length: 4 }, () => logins.owner('postgres', target.code.owner)),
          );
          for (const it of asked)
            assert.ok(it.status === 'rejected' && it.reason instanceof LoginRefused, JSON.stringify(it));
          await root.query('COMMIT');
          assert.match(
            (await logins.owner('postgres', target.code.owner)).config.options ?? '',
            / role=mallory$/,
          );
          const { rows } = await root.query(
            `SELECT FROM pg_db_role_setting WHERE setrole = '${await loginOf(root)}'::regrole`,
          );
          assert.deepEqual(rows, []);
        });

        test('a role that created the commit role before Headgate did reads and changes no rows by its function', async (t) => {
          if (role !== 'root') return t.skip('Headgate’s own role stores them');
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          await root.query(`DROP OWNED BY headgate_commit; DROP ROLE headgate_commit; CREATE ROLE eve LOGIN CREATEROLE;
            CREATE SCHEMA eve AUTHORIZATION eve`);
          const { host, database } = root;
          const eve = await clientOf(t, { host, database: database ?? '', user: 'eve' });
          await eve.query(`CREATE ROLE headgate_commit; GRANT headgate_commit TO eve; GRANT ALL ON SCHEMA eve TO headgate_commit;
            SET ROLE headgate_commit; CREATE FUNCTION eve.run(what text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS
              $$ DECLARE found text; BEGIN EXECUTE what INTO found; RETURN found; END $$; RESET ROLE`);
          await made('data JSONB', '');
          await tableOf('mal.t', { document: 'data' }, true);
          // As what has been granted to it in the meantime.
          await root.query('GRANT EXECUTE ON FUNCTION headgate.claim_deliveries TO headgate_commit');
          await letWriterIn(root, 'embedded');
          await letWriterIn(root, 'embedded');
          const target = await tableOf('mal.t', { document: 'data' }, true);
          assert.equal(target.code.as, 'writer');
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
          for (const what of [
            'SELECT data FROM mal.t',
            'DELETE FROM mal.t RETURNING data',
            `SELECT headgate.claim_deliveries('mal.t'::regclass, ARRAY[gen_random_uuid()], 9)`,
          ])
            await assert.rejects(eve.query('SELECT eve.run($1)', [what]), { code: '42501' }, what);
          const { rows } = await root.query('SELECT data FROM mal.t');
          assert.deepEqual(rows, [{ data: { id: 1 } }]);
        });

        test("long messages of an owner's code are not kept in memory", async (t) => {
          const { writer, send, tableOf, made } = await room(t, begun, bin, role);
          const says = [
            `RAISE EXCEPTION USING MESSAGE = repeat('x', 20000000)`,
            `RAISE WARNING USING MESSAGE = repeat('x', 20000000)`,
            `FOR i IN 1..20 LOOP RAISE WARNING USING MESSAGE = repeat('x', 1000000); END LOOP`,
          ];
          for (const say of says) {
            await made(
              'id INT',
              `CREATE FUNCTION mal.says() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${say}; RETURN NEW; END $$;
             CREATE TRIGGER says BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.says();
             CREATE TABLE mal.plain (data jsonb); GRANT ALL ON mal.plain TO ${writer}`,
            );
            const target = await tableOf('mal.t');
            const outcomes = await send([rowsOf(target, '{"id":1}')]);
            // The connection was cut off, or what is read in turn took too long.
            assert.match(
              outcomesOf(outcomes).join(),
              /^(unknown|aborted (engine_unavailable|deadline))/,
              say,
            );
            const plain = await tableOf('mal.plain', { document: 'data' }, true);
            assert.deepEqual(outcomesOf(await send([rowsOf(plain, '{"id":1}')])), [1], say);
          }
        });
      },
    );
  }
}
