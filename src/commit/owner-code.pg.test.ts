import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { codes as outcomesOf, describeTable, messages } from '../../test/support/commit-room.ts';
import { beginning, room } from '../../test/support/owners-room.ts';
import { codes, nothingGained } from '../../test/support/owners.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { isLong } from '../../test/support/sample.ts';
import { debianBin, embeddedBin } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { executorSchema } from '../catalog/executor.ts';
import { toCode } from '../catalog/shape.ts';
import type { Rows } from '../types/rows.ts';

const removing = (rows: Rows, ...which: number[]): Rows => ({
  ...rows,
  deletes: Uint8Array.from({ length: rows.count }, (_, i) => (which.includes(i) ? 1 : 0)),
});

const spool = '0123456789abcdef0123456789abcdef';

/** Of `npm run test:versions`: the programs of another version. */
const { HEADGATE_TEST_BIN: given } = process.env;
const versions =
  given === undefined
    ? [
        { version: '18', bin: embeddedBin },
        { version: '15', bin: debianBin },
      ]
    : [{ version: 'given', bin: given }];

for (const { version, bin } of versions) {
  // Headgate as a superuser on an older version is for the long run.
  for (const role of bin === debianBin && !isLong ? ['hg'] : ['root', 'hg']) {
    suite(
      `code of another owner on PostgreSQL ${version}, Headgate as ${role}`,
      { skip: !existsSync(bin) },
      () => {
        let begun: TestServer;
        before(async () => {
          begun = await beginning(bin, role);
        });
        after(() => begun.close());

        test('runs with the rights of that owner, wherever it stands and however rows come', async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          for (const { name, columns, after } of codes) {
            await made(`id INT, ${columns}`, after);
            const target = await tableOf('mal.t');
            assert.equal(target.code.as, 'owner', name);
            assert.deepEqual(messages(await send([rowsOf(target, '{"id":1,"v":"a"}')])), ['committed'], name);
            const several = [
              rowsOf(target, '{"id":2,"v":"b"}'),
              rowsOf(target, '{"id":3,"v":"c"}', '{"id":4,"v":"d"}'),
            ];
            assert.deepEqual(outcomesOf(await send(several)), [1, 2], name);
            // One that does not fit, so that the others are stored behind savepoints, and questions are put.
            const mixed = [
              rowsOf(target, '{"id":5}'),
              rowsOf(target, '{"id":"x"}'),
              rowsOf(target, '{"id":6}'),
            ];
            assert.deepEqual(outcomesOf(await send(mixed)), [1, 'aborted payload_undecodable', 1], name);
            const { rows } = await root.query('SELECT count(*)::int AS n FROM mal.t');
            assert.deepEqual(rows, [{ n: 6 }], name);
            assert((await nothingGained(root, role, name)) > 0, name);
          }
        });

        test('also where rows replace others and delete them', async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          for (const { name, columns, after } of codes) {
            if (name === 'a rule') continue;
            await made(`id INT PRIMARY KEY, ${columns}`, after);
            const target = await tableOf('mal.t');
            assert.equal(target.shape.writeMode, 'upsert');
            assert.deepEqual(
              messages(await send([rowsOf(target, '{"id":1,"v":"a"}', '{"id":2,"v":"a"}')])),
              ['committed'],
              name,
            );
            const both = removing(rowsOf(target, '{"id":1,"v":"b"}', '{"id":2}'), 1);
            assert.deepEqual(messages(await send([both])), ['committed'], name);
            const { rows } = await root.query('SELECT id, v FROM mal.t');
            assert.deepEqual(rows, [{ id: 1, v: 'b' }], name);
            assert((await nothingGained(root, role, name)) > 0, name);
          }
        });

        test('and where requests come from the disk: it does not move what has arrived, either', async (t) => {
          const { root, handOver, tableOf, made } = await room(t, begun, bin, role);
          for (const { name, columns, after } of codes) {
            await made(`id INT, ${columns}`, after);
            const target = await tableOf('mal.t');
            const members = [rowsOf(target, '{"id":1,"v":"a"}'), rowsOf(target, '{"id":2,"v":"b"}')];
            const group = { target, members, rows: 2, bytes: 32 };
            const passage = { spool, first: 1n, last: 2n };
            assert.deepEqual(await handOver(group, passage), { kind: 'committed' }, name);
            assert.deepEqual(await handOver(group, passage), { kind: 'moved' }, name);
            const { rows } = await root.query(
              `SELECT (SELECT count(*)::int FROM mal.t) AS n, position
               FROM headgate.spool_position WHERE relation = 'mal.t'::regclass`,
            );
            assert.deepEqual(rows, [{ n: 2, position: '2' }], name);
            assert((await nothingGained(root, role, name)) > 0, name);
          }
        });

        test('whole documents too, byte by byte as jsonb keeps them, and a sender reads what is wrong with its own', async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          await made('data jsonb', codes[0]?.after ?? '');
          const target = await tableOf('mal.t', { document: 'data' });
          assert.deepEqual([target.shape.writeMode, target.code.as], ['copy', 'owner']);
          const document = '{"a":1.10,"b":12345678901234567890.0,"c":[-0,1e400]}';
          assert.deepEqual(outcomesOf(await send([rowsOf(target, document)])), [1]);
          const outcomes = await send([
            rowsOf(target, '1'),
            rowsOf(target, '["\\u0000"]'),
            rowsOf(target, 'null'),
          ]);
          assert.deepEqual(outcomesOf(outcomes), [1, 'aborted body_not_json', 1]);
          const { rows } = await root.query(
            `SELECT data = $1 AS same, data::text = $1::jsonb::text AS alike FROM mal.t LIMIT 1`,
            [document],
          );
          assert.deepEqual(rows, [{ same: true, alike: true }]);
          await nothingGained(root, role, 'document');
        });

        test('a deferrable trigger is refused, of the table and of one that its code writes into', async (t) => {
          const { root, own, send, tableOf, made } = await room(t, begun, bin, role);
          const late = (table: string, name: string) => `
          CREATE FUNCTION mal.${name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
            SET CONSTRAINTS ALL DEFERRED; PERFORM mal.evil(); INSERT INTO mal.queue VALUES (1); RETURN NULL; END$$;
          CREATE CONSTRAINT TRIGGER ${name} AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION mal.${name}()`;
          await made('id INT', late('mal.t', 'own'));
          const row = await describeTable(own, 'mal.t');
          assert(row !== null);
          assert.match(
            JSON.stringify(toCode(row)),
            /deferrable trigger or constraint .*own.* of role .*mallory.* would run at COMMIT/,
          );
          await made(
            'id INT',
            `${late('mal.queue', 'queued').replace('INSERT INTO mal.queue VALUES (1);', 'IF NEW.n < 3 THEN INSERT INTO mal.queue VALUES (NEW.n + 1); END IF;')};
           CREATE FUNCTION mal.fired() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
             SET CONSTRAINTS ALL DEFERRED; INSERT INTO mal.queue VALUES (1); RETURN NEW; END$$;
           CREATE TRIGGER fired BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.fired()`,
          );
          const target = await tableOf('mal.t');
          const outcomes = await send([rowsOf(target, '{"id":1}'), rowsOf(target, '{"id":2}')]);
          assert.deepEqual(outcomesOf(outcomes), ['aborted table_unusable', 'aborted table_unusable']);
          assert.match(messages(outcomes)[0] ?? '', /would run at COMMIT/);
          assert.equal(await nothingGained(root, role, 'late'), 0, 'all of it is rolled back');
          // Foreign keys and plain unique constraints that wait for COMMIT are PostgreSQL's own code.
          await made('id INT UNIQUE DEFERRABLE INITIALLY DEFERRED', codes[0]?.after ?? '');
          assert.deepEqual(outcomesOf(await send([rowsOf(await tableOf('mal.t'), '{"id":1}')])), [1]);
        });

        test('the function is made again when its owner drops it or gives it away, and is nobody else’s to use', async (t) => {
          const { root, owner, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', codes[0]?.after ?? '');
          const one = async () => outcomesOf(await send([rowsOf(await tableOf('mal.t'), '{"id":1}')]));
          assert.deepEqual(await one(), [1]);
          const name = `${executorSchema(role)}.mallory`;
          const types = 'text, oid, text, text, json, text, bytea';
          for (const statement of [
            `ALTER FUNCTION ${name}(${types}) SECURITY INVOKER`,
            `DROP FUNCTION ${name}(${types})`,
            `CREATE OR REPLACE FUNCTION ${name}() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
            `SELECT ${name}('mal.t', 'mal.t'::regclass, '', 'SELECT 1', '[]', '', NULL)`,
            `REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ${executorSchema(role)} FROM ${role}`,
          ])
            await assert.rejects(owner.query(statement), { code: '42501' }, statement);
          await root.query(`DROP FUNCTION ${name}(${types})`);
          assert.deepEqual(await one(), [1], 'dropped');
          await root.query(`CREATE ROLE heir; ALTER FUNCTION ${name}(${types}) OWNER TO heir`);
          assert.deepEqual(await one(), [1], 'given away');
          await root.query(`ALTER FUNCTION ${name}(${types}) SECURITY INVOKER`);
          assert.deepEqual(await one(), [1], 'changed by a superuser');
          await nothingGained(root, role, 'made again');
        });

        test('what Headgate’s role may not do is not done with the owner’s rights', async (t) => {
          const { root, owner, send, tableOf, made } = await room(t, begun, bin, role);
          if (role === 'root') return;
          await made('id INT PRIMARY KEY, v TEXT', codes[0]?.after ?? '');
          const target = await tableOf('mal.t');
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
          // A member of the owner has its rights; one that only may become it has not.
          await root.query(`ALTER ROLE ${role} NOINHERIT`);
          const { rows: known } = await root.query<{ n: number }>(
            `SELECT current_setting('server_version_num')::int AS n`,
          );
          if ((known[0]?.n ?? 0) >= 160_000)
            await root.query(`GRANT mallory TO ${role} WITH INHERIT FALSE, SET TRUE`);
          await owner.query(`REVOKE DELETE ON mal.t FROM ${role}`);
          assert.deepEqual(outcomesOf(await send([removing(rowsOf(target, '{"id":1}'), 0)])), [
            'aborted table_changed',
          ]);
          await owner.query(`REVOKE INSERT ON mal.t FROM ${role}`);
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":2}')])), ['aborted table_changed']);
          const { rows } = await root.query('SELECT id FROM mal.t');
          assert.deepEqual(rows, [{ id: 1 }]);
        });

        test('code that a plain table seems to have none of is found, or does not run', async (t) => {
          const { root, owner, own, send, tableOf, made } = await room(t, begun, bin, role);
          const { rows } = await root.query<{ n: number }>(
            `SELECT current_setting('server_version_num')::int AS n`,
          );
          // What is found is that of somebody who may not be acted for.
          await root.query(role === 'root' ? 'SELECT 1' : `REVOKE mallory FROM ${role}`);
          const codeOfTable = async (table: string) => {
            const row = await describeTable(own, table);
            assert(row !== null);
            return toCode(row);
          };
          const told = `CREATE TYPE mal.mood AS ENUM ('a');
            CREATE FUNCTION mal.told(mal.mood) RETURNS json LANGUAGE sql AS $$SELECT to_json(mal.evil())$$;
            CREATE CAST (mal.mood AS json) WITH FUNCTION mal.told(mal.mood)`;
          const hidden = [
            [160_000, 'v mal.mood', told, `JSON_OBJECT('a': v) IS NOT NULL`],
            [170_000, 'v jsonb', '', `JSON_VALUE(v, '$' RETURNING mal.word) IS NOT NULL`],
          ] as const;
          for (const [version, column, before, check] of hidden) {
            if ((rows[0]?.n ?? 0) < version) continue;
            await made('id INT', before);
            await owner.query(`ALTER TABLE mal.t ADD ${column}, ADD CHECK (${check})`);
            const code = await codeOfTable('mal.t');
            if (role === 'root')
              assert.ok(typeof code !== 'string' && code.as === 'owner' && !code.inert, check);
            else assert.match(JSON.stringify(code), /run code of its owner .*mallory/, check);
          }
          for (const [columns, after] of [
            ['id INT', `CREATE STATISTICS mal.s ON (mal.pure('x')) FROM mal.t`],
            ['id INT UNIQUE, other INT REFERENCES mal.t (id)', ''],
          ] as const) {
            await made(columns, after);
            const code = await codeOfTable('mal.t');
            assert.ok(typeof code === 'string' || (code.as === 'owner' && !code.inert), after);
          }
          // Every other function is named where it stands.
          await made(
            'id INT',
            `ALTER TABLE mal.t ADD v text[], ADD CHECK (coalesce(v[1], 'a') IN ('a', 'b') AND (v IS NULL OR NOT (id, 1) < (2, 3)
            OR CASE WHEN id = 1 THEN greatest(id, 2) = 2 ELSE nullif(id, 3) IS DISTINCT FROM 4 END OR v[2]::int::boolean IS TRUE))`,
          );
          const plain = await codeOfTable('mal.t');
          assert.ok(typeof plain !== 'string' && plain.inert);

          // Defaults are printed and read again: a cast that their type's owner makes meanwhile would be in them.
          const hue = "CREATE TYPE mal.hue AS ENUM ('a')";
          await made('id INT', `${hue}; ALTER TABLE mal.t ADD v text DEFAULT ('a'::mal.hue)::text`);
          const cast = await codeOfTable('mal.t');
          assert.ok(typeof cast === 'string' || (cast.as === 'owner' && !cast.inert));
          await made(
            'id INT',
            `${hue}; ALTER TABLE mal.t ADD v mal.hue DEFAULT 'a', ADD CHECK (v <> 'a' OR id > 0)`,
          );
          const constant = await codeOfTable('mal.t');
          // Whoever owns the type can put a domain in its place.
          assert.ok(
            role === 'root' ? typeof constant !== 'string' && constant.inert : typeof constant === 'string',
          );

          const fired = codes[0]?.after.replace(' ON mal.t ', ' ON mal.child ') ?? '';
          await made('id INT PRIMARY KEY', `CREATE TABLE mal.child () INHERITS (mal.t); ${fired}`);
          await owner.query(
            'ALTER TABLE mal.child DISABLE TRIGGER fired; INSERT INTO mal.child VALUES (1); ALTER TABLE mal.child ENABLE TRIGGER fired',
          );
          const parent = await tableOf('mal.t');
          assert.deepEqual(messages(await send([removing(rowsOf(parent, '{"id":1}'), 0)])), ['committed']);
          assert.equal(await nothingGained(root, role, 'a table that inherits'), 0);
          assert.equal((await root.query('TABLE mal.child')).rowCount, 1);

          await root.query(
            `CREATE TABLE public.t (id INT PRIMARY KEY, code INT UNIQUE); ALTER TABLE public.t OWNER TO ${role}; GRANT ALL ON public.t TO mallory`,
          );
          const known = await codeOfTable('public.t');
          assert.ok(typeof known !== 'string' && known.inert);
          await owner.query(
            'CREATE TABLE mal.follower (code INT REFERENCES public.t (code) ON UPDATE CASCADE)',
          );
          const passedOn = await codeOfTable('public.t');
          const lifted = (rows[0]?.n ?? 0) >= 180_000;
          assert.match(
            JSON.stringify(passedOn),
            lifted ? /"as":"owner"/ : /would run code of role .*mallory/,
          );
        });

        test('tables that foreign keys look into run code of their owner, with no more than his rights', async (t) => {
          const { root, owner, own, send, tableOf, made } = await room(t, begun, bin, role);
          await made(
            'id INT PRIMARY KEY',
            `INSERT INTO mal.t VALUES (1), (2); CREATE STATISTICS mal.of_t ON (mal.pure('x')) FROM mal.t`,
          );
          await root.query(`CREATE TABLE public.t (id INT PRIMARY KEY, other INT REFERENCES mal.t); ALTER TABLE public.t OWNER TO ${role};
            GRANT REFERENCES ON public.t TO mallory; CREATE TABLE public.u (id INT UNIQUE); ALTER TABLE public.u OWNER TO ${role}; GRANT REFERENCES ON public.u TO mallory`);
          await owner.query(`CREATE TABLE mal.follower (id INT REFERENCES public.t); CREATE STATISTICS mal.of_follower ON (mal.pure('y')) FROM mal.follower;
            CREATE TABLE mal.of_u (id INT REFERENCES public.u (id) ON UPDATE CASCADE ON DELETE CASCADE); TRUNCATE mal.seen`);
          const target = await tableOf('public.t');
          assert.deepEqual([target.code.as, target.code.inert], ['owner', false]);
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1,"other":1}')])), [1]);
          assert.ok((await nothingGained(root, role, 'looked up')) > 0);
          await owner.query('TRUNCATE mal.seen');
          assert.deepEqual(messages(await send([removing(rowsOf(target, '{"id":1}'), 0)])), ['committed']);
          assert.ok((await nothingGained(root, role, 'looked for')) > 0);
          // Rows of a table without a primary key are added, and nothing is passed on.
          const added = await tableOf('public.u');
          assert.equal(added.code.as, 'headgate');
          assert.deepEqual(outcomesOf(await send([rowsOf(added, '{"id":1}')])), [1]);

          await owner.query(
            'DROP TABLE mal.follower; CREATE TABLE mal.follower (id INT REFERENCES public.t ON DELETE CASCADE)',
          );
          const { rows: served } = await root.query(
            `SELECT current_setting('server_version_num')::int >= 180000 AS eighteen`,
          );
          if (served[0].eighteen === true) {
            await owner.query(`
              CREATE FUNCTION mal.follows() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM mal.evil(); RETURN OLD; END$$;
              CREATE TRIGGER before BEFORE DELETE ON mal.follower FOR EACH ROW EXECUTE FUNCTION mal.follows();
              CREATE TRIGGER after AFTER DELETE ON mal.follower FOR EACH ROW EXECUTE FUNCTION mal.follows();
              CREATE TRIGGER statement AFTER DELETE ON mal.follower FOR EACH STATEMENT EXECUTE FUNCTION mal.follows()`);
            const followed = await tableOf('public.t');
            assert.equal(followed.code.as, 'owner');
            assert.deepEqual(outcomesOf(await send([rowsOf(followed, '{"id":3}')])), [1]);
            await owner.query('INSERT INTO mal.follower VALUES (3); TRUNCATE mal.seen');
            const gone = await send([removing(rowsOf(followed, '{"id":3}'), 0)]);
            assert.deepEqual(messages(gone), ['committed']);
            assert.equal(await nothingGained(root, role, 'passed on'), 3);
            // One that waits for COMMIT is refused, with the request that would fire it, and no other.
            await owner.query(
              `CREATE CONSTRAINT TRIGGER deferred AFTER DELETE ON mal.follower DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mal.follows()`,
            );
            assert.deepEqual(outcomesOf(await send([rowsOf(followed, '{"id":4}')])), [1]);
            await owner.query('INSERT INTO mal.follower VALUES (4); TRUNCATE mal.seen');
            const [late = ''] = messages(await send([removing(rowsOf(followed, '{"id":4}'), 0)]));
            assert.match(late, /deferr/i);
            assert.equal(await nothingGained(root, role, 'deferred'), 0);
          } else {
            // Before 18, triggers behind the statement run with the rights of the first table's owner.
            const row = await describeTable(own, 'public.t');
            assert.match(
              JSON.stringify(row && toCode(row)),
              /run code of role .*mallory.* with the rights of its owner/,
            );
          }
          await owner.query('DROP TABLE mal.follower');
          // What is left for COMMIT would run, before PostgreSQL 18, with the rights of whoever commits.
          await owner.query(`CREATE FUNCTION mal.fired() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM mal.late(); RETURN NULL; END$$;
            CREATE CONSTRAINT TRIGGER fired AFTER INSERT ON mal.queue DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mal.fired();
            CREATE FUNCTION mal.queues() RETURNS text LANGUAGE sql AS 'INSERT INTO mal.queue VALUES (1) RETURNING ''x''';
            CREATE FUNCTION mal.pures(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN (SELECT mal.queues()); END$$;
            CREATE STATISTICS mal.queued ON (mal.pures('z')) FROM mal.t; TRUNCATE mal.queue`);
          const queueing = await tableOf('public.t');
          const [queued = ''] = messages(await send([rowsOf(queueing, '{"id":2,"other":2}')]));
          assert.match(queued, /deferr/i);
          await nothingGained(root, role, 'queued');
          if (role === 'root') return;
          await root.query(`REVOKE CREATE ON DATABASE postgres FROM ${role}`);
          const row = await describeTable(own, 'public.t');
          assert.match(JSON.stringify(row && toCode(row)), /run code of the role .*mallory/);
        });

        test('a table that changes hands between catalog and row runs nothing', async (t) => {
          const { root, owner, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', '');
          await root.query(`CREATE TABLE public.t (id INT); ALTER TABLE public.t OWNER TO ${role}`);
          const target = await tableOf('public.t');
          assert.deepEqual([target.code.as, target.code.inert], ['headgate', true]);
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
          await root.query('ALTER TABLE public.t OWNER TO mallory');
          await owner.query('ALTER TABLE public.t ALTER id SET DEFAULT length(mal.pure(current_user))');
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":2}')])), ['aborted table_changed']);
          assert.equal(await nothingGained(root, role, 'changed hands'), 0);
        });
      },
    );
  }
}
