import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { codes as outcomesOf, describeTable, messages } from '../../test/support/commit-room.ts';
import { beginning, room, versions } from '../../test/support/owners-room.ts';
import { codes, nothingGained } from '../../test/support/owners.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { until } from '../../test/support/until.ts';
import { isLong, sampleOf } from '../../test/support/sample.ts';
import { debianBin } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { toCode } from '../relations/shape.ts';
import type { Rows } from '../types/rows.ts';

const removing = (rows: Rows, ...which: number[]): Rows => ({
  ...rows,
  deletes: Uint8Array.from({ length: rows.count }, (_, i) => (which.includes(i) ? 1 : 0)),
});

const spool = '0123456789abcdef0123456789abcdef';

const hgOn = sampleOf(
  versions.filter(({ bin }) => existsSync(bin)),
  1,
);
for (const { version, bin } of versions) {
  // Headgate as a superuser on an older version is for the long run; as another role, on one of them in each run.
  const roles = [
    ...(bin === debianBin && !isLong ? [] : ['root']),
    ...(hgOn.some((it) => it.bin === bin) ? ['hg'] : []),
  ];
  for (const role of roles) {
    suite(
      `code of another owner runs with the owner's rights on PostgreSQL ${version}, Headgate as ${role}`,
      { skip: !existsSync(bin) },
      () => {
        let begun: TestServer;
        before(async () => {
          begun = await beginning(bin, role);
        });
        after(() => begun.close());

        test("code of another owner runs with that owner's rights, wherever it is and however rows arrive", async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          // As the owner of the database may: Headgate's functions read tables with policies.
          await root.query('ALTER DATABASE postgres SET row_security = off');
          for (const [i, { name, columns, after }] of codes.entries()) {
            await made(`id INT, ${columns}`, after);
            const target = await tableOf('mal.t', {}, i % 2 === 0);
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
            assert((await nothingGained(root, name)) > 0, name);
          }
        });

        test("code of another owner runs with that owner's rights where rows replace and delete others", async (t) => {
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
            assert((await nothingGained(root, name)) > 0, name);
          }
        });

        test("code of another owner runs with that owner's rights for spooled requests, and cannot move the spool's position", async (t) => {
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
            assert((await nothingGained(root, name)) > 0, name);
          }
        });

        test("documents of a table with another owner's code are stored exactly, and a bad document is refused alone", async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          await made('data jsonb', codes[0]?.after ?? '');
          const target = await tableOf('mal.t', { document: 'data' }, true);
          assert.deepEqual([target.shape.writeMode, target.code.as], ['documents', 'owner']);
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
          await nothingGained(root, 'document');
        });

        test("deferred triggers with code of another owner run with that owner's rights at COMMIT", async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          const late = (table: string, name: string) => `
          CREATE FUNCTION mal.${name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
            SET CONSTRAINTS ALL DEFERRED; PERFORM mal.evil(); RETURN NULL; END$$;
          CREATE CONSTRAINT TRIGGER ${name} AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION mal.${name}()`;
          const writes = `CREATE FUNCTION mal.fired() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
             SET CONSTRAINTS ALL DEFERRED; INSERT INTO mal.queue VALUES (1); RETURN NEW; END$$;
           CREATE TRIGGER fired BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.fired()`;
          for (const after of [late('mal.t', 'own'), `${late('mal.queue', 'queued')}; ${writes}`]) {
            await made('id INT', after);
            const target = await tableOf('mal.t');
            const outcomes = await send([rowsOf(target, '{"id":1}'), rowsOf(target, '{"id":2}')]);
            assert.deepEqual(outcomesOf(outcomes), [1, 1]);
            assert.ok((await nothingGained(root, 'late')) > 0);
          }
        });

        test("an owner's rights do not let rows in where the role that stores rows lacks them", async (t) => {
          const { root, owner, writer, send, tableOf, made } = await room(t, begun, bin, role);
          // A member of the owner has its rights; one that only may become it has not.
          if (role !== 'root') {
            await root.query(`ALTER ROLE ${role} NOINHERIT`);
            const { rows: known } = await root.query<{ n: number }>(
              `SELECT current_setting('server_version_num')::int AS n`,
            );
            if ((known[0]?.n ?? 0) >= 160_000)
              await root.query(`GRANT mallory TO ${role} WITH ADMIN TRUE, INHERIT FALSE, SET TRUE`);
          }
          for (const after of [codes[0]?.after ?? '', '']) {
            await made('id INT PRIMARY KEY, v TEXT', after);
            const target = await tableOf('mal.t');
            assert.equal(target.code.as, after === '' ? 'writer' : 'owner');
            assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
            await owner.query(`REVOKE DELETE ON mal.t FROM ${writer}`);
            assert.deepEqual(outcomesOf(await send([removing(rowsOf(target, '{"id":1}'), 0)])), [
              'aborted table_changed',
            ]);
            await owner.query(`REVOKE INSERT ON mal.t FROM ${writer}`);
            assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":2}')])), ['aborted table_changed']);
            const { rows } = await root.query('SELECT id FROM mal.t');
            assert.deepEqual(rows, [{ id: 1 }]);
          }
        });

        test('the catalog finds hidden code of a table that seems plain, or the code does not run', async (t) => {
          const { root, owner, own, writer, send, tableOf, made } = await room(t, begun, bin, role);
          const { rows } = await root.query<{ n: number }>(
            `SELECT current_setting('server_version_num')::int AS n`,
          );
          // What is found is that of somebody who may not be acted for.
          await root.query(
            role === 'root' ? 'SELECT 1' : `REVOKE mallory FROM ${role}; ALTER ROLE ${role} NOCREATEROLE`,
          );
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
            else
              assert.match(
                JSON.stringify(code),
                /run code of its owner .*mallory.*CREATE ROLE headgate_as_\d+ LOGIN; GRANT .*mallory/,
                check,
              );
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
          assert.ok(typeof constant === 'string' || (constant.as === 'owner' && !constant.inert));

          const fired = codes[0]?.after.replace(' ON mal.t ', ' ON mal.child ') ?? '';
          await made('id INT PRIMARY KEY', `CREATE TABLE mal.child () INHERITS (mal.t); ${fired}`);
          await owner.query(
            'ALTER TABLE mal.child DISABLE TRIGGER fired; INSERT INTO mal.child VALUES (1); ALTER TABLE mal.child ENABLE TRIGGER fired',
          );
          const parent = await tableOf('mal.t');
          assert.deepEqual(messages(await send([removing(rowsOf(parent, '{"id":1}'), 0)])), ['committed']);
          assert.equal(await nothingGained(root, 'a table that inherits'), 0);
          assert.equal((await root.query('TABLE mal.child')).rowCount, 1);

          for (const value of ['current_user', 'session_user', 'user']) {
            await made(`id INT, who TEXT DEFAULT ${value}`, '');
            const code = await codeOfTable('mal.t');
            assert.ok(typeof code === 'string' || (code.as === 'owner' && !code.inert), value);
          }
          await made(
            'id INT, at TIMESTAMPTZ DEFAULT current_timestamp, d DATE DEFAULT current_date, n SERIAL',
            '',
          );
          await owner.query(`GRANT USAGE ON mal.t_n_seq TO ${writer}`);
          const usual = await codeOfTable('mal.t');
          assert.ok(typeof usual !== 'string' && usual.as === 'writer');
          assert.deepEqual(messages(await send([rowsOf(await tableOf('mal.t'), '{"id":1}')])), ['committed']);
          // What the role that stores rows may not use is used in the owner's session.
          await owner.query(`REVOKE USAGE ON mal.t_n_seq FROM ${writer}`);
          const serial = await codeOfTable('mal.t');
          assert.ok(typeof serial === 'string' || serial.as === 'owner');
          if (typeof serial !== 'string')
            assert.deepEqual(messages(await send([rowsOf(await tableOf('mal.t'), '{"id":2}')])), [
              'committed',
            ]);
        });

        test("code of another owner never runs with the rights of Headgate's role or a superuser", async (t) => {
          const { root, owner, own, send, handOver, tableOf, made } = await room(t, begun, bin, role);
          const says = /table_unusable/;
          await made('id INT PRIMARY KEY', `INSERT INTO mal.t VALUES (1), (2)`);
          await root.query(
            `CREATE ROLE chief SUPERUSER; CREATE SCHEMA mine; GRANT ALL ON SCHEMA mine TO PUBLIC`,
          );
          const parts = [
            ['a table that it looks into', 'id INT REFERENCES mal.t', 'SELECT 1', '{"id":1}'],
            [
              'one that looks into it',
              'id INT PRIMARY KEY',
              'CREATE TABLE mal.other (id INT REFERENCES mine.t)',
              '{"id":1}',
            ],
            [
              'a partition',
              'id INT',
              'CREATE TABLE mal.other (id INT); ALTER TABLE mal.other OWNER TO mallory',
              '{"id":1}',
            ],
          ] as const;
          for (const whose of role === 'root' ? [role, 'chief'] : [role])
            for (const [name, columns, after, row] of parts) {
              const what = `${whose}: ${name}`;
              const by = name === 'a partition' ? ' PARTITION BY RANGE (id)' : '';
              await root.query(`DROP TABLE IF EXISTS mine.t CASCADE; DROP TABLE IF EXISTS mal.other; CREATE TABLE mine.t (${columns})${by};
                ALTER TABLE mine.t OWNER TO ${whose}; GRANT ALL ON mine.t TO PUBLIC`);
              await owner.query(after);
              if (by !== '')
                await root.query('ALTER TABLE mine.t ATTACH PARTITION mal.other FOR VALUES FROM (0) TO (9)');
              await owner.query('TRUNCATE mal.seen');
              await owner.query(
                `DROP STATISTICS IF EXISTS mal.of_t; CREATE STATISTICS mal.of_t ON (mal.pure('x')) FROM mal.t`,
              );
              const target = await tableOf('mine.t');
              assert.equal(target.code.as, whose === role ? 'headgate' : 'owner', what);
              const outcomes = await send([rowsOf(target, row), rowsOf(target, row)]);
              assert.match(outcomesOf(outcomes).join(), says, what);
              const told = outcomes.map((it) => (it.kind === 'aborted' ? it.refusal.engineError : it.kind));
              assert.match(
                told.join(),
                /role "mallory".*give the table to a role that is no superuser/,
                what,
              );
              const group = { target, members: [rowsOf(target, row)], rows: 1, bytes: 2 };
              const handed = await handOver(group, { spool, first: 1n, last: 1n });
              assert.equal(handed.kind === 'away' && handed.refusal.code, 'table_unusable', what);
              assert.equal(await nothingGained(root, what), 0);
            }
          // A table that is looked into and changes hands meanwhile is locked before its owner is asked about.
          await root.query(`DROP TABLE mine.t CASCADE; CREATE TABLE mine.plans (id INT PRIMARY KEY); INSERT INTO mine.plans VALUES (1);
            CREATE TABLE mine.t (id INT REFERENCES mine.plans); ALTER TABLE mine.plans OWNER TO ${role}; ALTER TABLE mine.t OWNER TO ${role};
            GRANT ALL ON mine.t TO PUBLIC`);
          const target = await tableOf('mine.t');
          await own.query('BEGIN; LOCK TABLE mine.plans IN EXCLUSIVE MODE');
          const sent = send([rowsOf(target, '{"id":1}')]);
          await until(
            async () => (await root.query('SELECT FROM pg_locks WHERE NOT granted')).rowCount !== 0,
          );
          await root.query(`SET lock_timeout = '50ms'`);
          await own.query('COMMIT');
          assert.deepEqual(outcomesOf(await sent), [1]);
          await root.query(`RESET lock_timeout; ALTER TABLE mine.plans OWNER TO mallory`);
          assert.match(outcomesOf(await send([rowsOf(target, '{"id":1}')])).join(), says);
          await nothingGained(root, 'looked into');
        });

        test('a table that changes its owner between catalog and row runs no code of the new owner', async (t) => {
          const { root, owner, writer, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', '');
          await root.query(
            `CREATE TABLE public.t (id INT); ALTER TABLE public.t OWNER TO ${role}; GRANT INSERT, SELECT ON public.t TO ${writer}`,
          );
          const target = await tableOf('public.t');
          assert.equal(target.code.as, 'writer');
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":1}')])), [1]);
          await root.query('ALTER TABLE public.t OWNER TO mallory');
          await owner.query('ALTER TABLE public.t ALTER id SET DEFAULT length(mal.pure(current_user))');
          assert.deepEqual(outcomesOf(await send([rowsOf(target, '{"id":2}')])), ['aborted table_changed']);
          assert.equal(await nothingGained(root, 'changed hands'), 0);
        });
      },
    );
  }
}
