/** Sessions of the owners of tables with code: what is left in them, and the logins that they begin with. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import type { Client } from 'pg';
import { setTimeout as delay } from 'node:timers/promises';
import { onEnd } from '../../test/support/cleanup.ts';
import { limits } from '../config/limits.ts';
import { OwnerSessions } from './owner-sessions.ts';
import { codes as outcomesOf, messages } from '../../test/support/commit-room.ts';
import { beginning, room, versions } from '../../test/support/owners-room.ts';
import { clientOf, codes, loginOf, nothingGained } from '../../test/support/owners.ts';
import { rowsOf } from '../../test/support/rows.ts';
import { isLong } from '../../test/support/sample.ts';
import { debianBin } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';

/** Of the server that a client is connected to. */
const configOf = ({ host, database = '' }: Client) => ({ host, database });

for (const { version, bin } of versions) {
  // Headgate as a superuser on an older version is for the long run.
  for (const role of bin === debianBin && !isLong ? ['hg'] : ['root', 'hg']) {
    suite(
      `owner sessions leave nothing behind on PostgreSQL ${version}, Headgate as ${role}`,
      { skip: !existsSync(bin) },
      () => {
        let begun: TestServer;
        before(async () => {
          begun = await beginning(bin, role);
        });
        after(() => begun.close());

        test("an owner's session serves the owner's next table and next rows as if it were new", async (t) => {
          const { root, owner, send, tableOf, made } = await room(t, begun, bin, role);
          const left = [
            'SET ROLE NONE',
            `SET search_path = 'mal'`,
            'SET default_transaction_read_only = on',
            `SET statement_timeout = '500ms'`,
            `SET session_replication_role = replica`,
            'CREATE TEMP TABLE IF NOT EXISTS u (id INT)',
            'SELECT pg_advisory_lock(7)',
            'LISTEN heard',
            'DEALLOCATE ALL',
            `DO $do$BEGIN EXECUTE format('ALTER ROLE %I SET statement_timeout = 1', session_user); END$do$`,
            `DO $do$BEGIN EXECUTE format('ALTER ROLE %I PASSWORD %L', session_user, 'other'); END$do$`,
          ];
          await made(
            'id INT',
            `CREATE FUNCTION mal.held() RETURNS text LANGUAGE sql AS $$SELECT string_agg(l.objid::text, ',') FROM pg_catalog.pg_locks l
               WHERE l.locktype = 'advisory' AND l.pid = pg_catalog.pg_backend_pid()$$;
             CREATE TABLE mal.u (id INT, who text DEFAULT current_user, held text DEFAULT mal.held())`,
          );
          await owner.query(
            `CREATE FUNCTION mal.leaves() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE what text; BEGIN
               FOR what IN SELECT w.what FROM mal.what w LOOP BEGIN EXECUTE what; EXCEPTION WHEN insufficient_privilege THEN NULL; END; END LOOP;
               RETURN NEW; END $$;
             CREATE TABLE mal.what (what text); GRANT ALL ON mal.what TO PUBLIC;
             CREATE TRIGGER leaves BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.leaves()`,
          );
          await root.query('GRANT ALL ON mal.u TO PUBLIC');
          for (const [i, what] of left.entries()) {
            await owner.query('TRUNCATE mal.what');
            await owner.query('INSERT INTO mal.what VALUES ($1)', [what]);
            const [first, second] = [await tableOf('mal.t'), await tableOf('mal.u')];
            assert.deepEqual([first.code.as, second.code.as], ['owner', 'owner']);
            for (const target of [first, first, second, first, second])
              assert.deepEqual(messages(await send([rowsOf(target, `{"id":${i}}`)])), ['committed'], what);
          }
          const { rows } = await root.query('SELECT DISTINCT who, held FROM mal.u');
          assert.deepEqual(rows, [{ who: 'mallory', held: null }]);
        });

        test("code that replaces the prepared statements of its owner's session affects only that owner's tables", async (t) => {
          const { root, owner, own, writer, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', '');
          await owner.query(`CREATE FUNCTION mal.renames() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE p record; BEGIN
              FOR p IN SELECT s.name, s.parameter_types FROM pg_catalog.pg_prepared_statements s LOOP
                EXECUTE format('DEALLOCATE %I', p.name);
                EXECUTE format('PREPARE %I %s AS SELECT mal.late()', p.name, CASE WHEN cardinality(p.parameter_types) > 0
                  THEN '(' || array_to_string(p.parameter_types::text[], ',') || ')' ELSE '' END);
              END LOOP; RETURN NEW; END $$;
            CREATE TRIGGER renames BEFORE INSERT ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.renames();
            CREATE TABLE mal.plain (data jsonb); GRANT ALL ON mal.plain TO ${writer}`);
          await root.query(`CREATE ROLE eve; CREATE SCHEMA eve AUTHORIZATION eve; CREATE SCHEMA mine AUTHORIZATION ${role};
            SET ROLE eve; CREATE FUNCTION eve.one() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE eve.t (id INT, n INT DEFAULT eve.one());
            GRANT USAGE ON SCHEMA eve TO ${writer}; GRANT ALL ON eve.t TO ${writer}; RESET ROLE`);
          if (role !== 'root') await root.query(`GRANT eve TO ${role} WITH ADMIN OPTION`);
          await own.query(`CREATE FUNCTION mine.one() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE mine.t (id INT, n INT DEFAULT mine.one());
            GRANT USAGE ON SCHEMA mine TO ${writer}; GRANT ALL ON mine.t TO ${writer}`);
          const hers = await tableOf('mal.t');
          const others = [
            await tableOf('eve.t'),
            await tableOf('mine.t'),
            await tableOf('mal.plain', { document: 'data' }, true),
          ];
          assert.deepEqual(
            others.map(({ code }) => code.as),
            ['owner', 'headgate', 'writer'],
          );
          for (let round = 0; round < 3; round++)
            for (const target of [hers, ...others]) await send([rowsOf(target, '{"id":1}')]);
          for (const table of ['eve.t', 'mine.t', 'mal.plain'])
            assert.equal((await root.query(`TABLE ${table}`)).rowCount, 3, table);
          await nothingGained(root, 'renamed');
        });

        test(
          'owner sessions ended by the server do not count against the bound on owner sessions',
          { skip: role !== 'root' },
          async (t) => {
            const { root, logins } = await room(t, begun, bin, role);
            await root.query('CREATE ROLE bob');
            const { rows: owners } = await root.query<{ oid: number }>(
              `SELECT oid::int8::int4 FROM pg_roles WHERE rolname IN ('mallory', 'bob')`,
            );
            const [mallory = 0, bob = 0] = owners.map(({ oid }) => oid);
            const bounds = { statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 };
            const sessions = new OwnerSessions({ logins, applicationName: 'test', ...bounds });
            onEnd(t, 'sessions', () => sessions.close());
            for (let i = 0; i <= limits.ownerSessionsMax; i++) {
              const client = await sessions.connect('postgres', mallory);
              const { processID } = client as unknown as { readonly processID: number };
              const ended = new Promise<void>((resolve) => client.once('end', resolve));
              client.release();
              await root.query('SELECT pg_terminate_backend($1)', [processID]);
              await ended;
            }
            const first = await sessions.connect('postgres', mallory);
            first.release();
            const other = await sessions.connect('postgres', bob);
            other.release();
            const again = await sessions.connect('postgres', mallory);
            again.release();
            assert.equal(again, first, 'it was kept');
          },
        );

        test("a role that created an owner's login before Headgate did gets no rights of the owner", async (t) => {
          const { root, owner, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', `${codes[0]?.after ?? ''}; CREATE TABLE mal.hers AS SELECT 'hers' AS text`);
          const target = await tableOf('mal.t');
          const login = `headgate_as_${target.code.owner}`;
          await root.query('CREATE ROLE eve LOGIN CREATEROLE; CREATE SCHEMA eve AUTHORIZATION eve');
          const [eve, other] = await Promise.all(
            ['eve', 'eve'].map((user) => clientOf(t, { ...configOf(root), user })),
          );
          assert.ok(eve !== undefined && other !== undefined);
          await eve.query(`CREATE ROLE ${login} LOGIN PASSWORD 'known'; GRANT ${login} TO eve`);
          const logged = await clientOf(t, { ...configOf(root), user: login, password: 'known' });
          await eve.query(`SET ROLE ${login}`);
          const one = async () => outcomesOf(await send([rowsOf(target, '{"id":1}')]));
          assert.deepEqual(await one(), [1]);
          for (const client of [eve, logged])
            for (const what of ['TABLE mal.hers', 'DROP TABLE mal.hers', 'SET ROLE mallory; TABLE mal.hers'])
              await assert.rejects(client.query(what), Error, what);
          assert.deepEqual(await one(), [1]);
          // What Headgate has made, and owns something now, is left to a superuser.
          const mine = await loginOf(root);
          await root.query(
            `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${mine}'`,
          );
          await root.query(
            `ALTER ROLE ${mine} SET work_mem = '1MB'; CREATE SCHEMA owned AUTHORIZATION ${mine}`,
          );
          assert.deepEqual(await one(), ['aborted table_unusable']);
          await root.query(`DROP OWNED BY ${mine}`);
          assert.deepEqual(await one(), [1]);
          await owner.query('DROP TABLE mal.hers');
          await nothingGained(root, 'become');
        });

        test("a role that keeps the name of an owner's login in use delays no rows of the owner", async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', codes[0]?.after ?? '');
          const target = await tableOf('mal.t');
          const login = `headgate_as_${target.code.owner}`;
          const one = async () => outcomesOf(await send([rowsOf(target, '{"id":1}')]));
          await root.query('CREATE ROLE eve LOGIN CREATEROLE; CREATE SCHEMA eve AUTHORIZATION eve');
          const eve = await clientOf(t, { ...configOf(root), user: 'eve' });
          const forget = async () => {
            await root.query(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE starts_with(usename, '${login}');
              DO $do$ DECLARE it name; BEGIN
                FOR it IN SELECT rolname FROM pg_roles WHERE starts_with(rolname, '${login}') LOOP EXECUTE format('DROP OWNED BY %I; DROP ROLE %1$I', it); END LOOP;
              END $do$`);
          };
          for (const kept of [
            `CREATE ROLE ${login}; GRANT ${login} TO eve; GRANT ALL ON SCHEMA eve TO ${login}; SET ROLE ${login}; CREATE TABLE eve.t (); RESET ROLE`,
            `CREATE ROLE ${login}; BEGIN; ALTER ROLE ${login} CONNECTION LIMIT 7`,
            `BEGIN; CREATE ROLE ${login}`,
          ]) {
            await eve.query(kept);
            assert.deepEqual(await one(), [1], kept);
            const mine = await loginOf(root);
            await root.query(
              `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${mine}'`,
            );
            // The end of the connection has been read.
            await delay(50);
            assert.deepEqual(await one(), [1], kept);
            assert.equal(await loginOf(root), mine, 'there is one');
            await eve.query('ROLLBACK');
            await forget();
          }
          await nothingGained(root, 'kept');
        });

        test("an owner's login created or entered by another role is taken back by Headgate or refused", async (t) => {
          const { root, owner, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', codes[0]?.after ?? '');
          const target = await tableOf('mal.t');
          const usual = `headgate_as_${target.code.owner}`;
          const one = async () => outcomesOf(await send([rowsOf(target, '{"id":1}')]));
          const closed = async () => {
            await root.query(
              `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE starts_with(usename, '${usual}')`,
            );
            await delay(50);
          };
          const memberships = (
            login: string,
          ) => `SELECT r.rolname AS of, m.rolname AS member, a.admin_option AS admin FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid
            JOIN pg_roles m ON m.oid = a.member WHERE '${login}' IN (r.rolname, m.rolname) AND m.rolname <> '${role}'`;
          const attributes = (
            login: string,
          ) => `SELECT rolcanlogin AS login, rolinherit AS inherits, rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls AS more
            FROM pg_roles WHERE rolname = '${login}'`;
          await root.query(
            `CREATE ROLE eve LOGIN CREATEROLE; CREATE ROLE victim; CREATE ROLE ${usual} LOGIN; GRANT victim TO ${usual}; GRANT ${usual} TO eve`,
          );
          assert.deepEqual(await one(), [1]);
          // A role that is no superuser may not take from others what they have granted.
          const mends = role === 'root';
          for (const changeOf of [
            () => 'SELECT 1',
            (login: string) => `ALTER ROLE ${login} CREATEROLE CREATEDB`,
            (login: string) => `ALTER ROLE ${login} NOLOGIN`,
            (login: string) => `ALTER ROLE ${login} NOINHERIT`,
            (login: string) => `ALTER ROLE ${login} CONNECTION LIMIT 0`,
            (login: string) => `ALTER ROLE ${login} SET role = 'victim'`,
            (login: string) => `ALTER ROLE ${login} SET statement_timeout = 1`,
            (login: string) => `GRANT mallory TO ${login} WITH ADMIN OPTION`,
            (login: string) => `GRANT victim TO ${login}`,
            (login: string) => `GRANT ${login} TO eve`,
          ]) {
            const before = await loginOf(root);
            const change = changeOf(before);
            await root.query(change);
            await closed();
            const outcomes = await one();
            if (!mends && outcomes[0] !== 1) {
              assert.deepEqual(outcomes, ['aborted table_unusable'], change);
              await root.query(`DROP ROLE ${before}`);
              assert.deepEqual(await one(), [1], change);
            } else assert.deepEqual(outcomes, [1], change);
            const login = await loginOf(root);
            const { rows } = await root.query(memberships(login));
            assert.deepEqual(rows, [{ of: 'mallory', member: login, admin: false }], change);
            assert.deepEqual(
              (await root.query(attributes(login))).rows,
              [{ login: true, inherits: true, more: false }],
              change,
            );
          }
          // What the owner's own role is set to does not matter, and the owner cannot end the sessions of the login.
          await root.query(
            `ALTER ROLE mallory CONNECTION LIMIT 0 NOLOGIN; ALTER ROLE mallory SET default_transaction_read_only = on`,
          );
          assert.deepEqual(await one(), [1]);
          const { rows: pids } = await root.query<{ pid: number }>(
            `SELECT pid FROM pg_stat_activity WHERE usename = '${await loginOf(root)}'`,
          );
          assert.ok(pids.length > 0);
          await assert.rejects(owner.query(`SELECT pg_terminate_backend(${pids[0]?.pid})`), {
            code: '42501',
          });
          await root.query(
            'ALTER ROLE mallory RENAME TO "mal""lo ry\\"; ALTER ROLE "mal""lo ry\\" LOGIN CONNECTION LIMIT -1',
          );
          await closed();
          await owner.query('TRUNCATE mal.seen');
          assert.deepEqual(await one(), [1], 'renamed');
          const { rows: seen } = await root.query('SELECT DISTINCT who, won FROM mal.seen');
          assert.deepEqual(seen, [{ who: 'mal""lo ry\\'.replace('""', '"'), won: '' }]);
          await owner.query('TRUNCATE mal.seen');
          await root.query('ALTER ROLE "mal""lo ry\\" RENAME TO mallory; ALTER ROLE mallory RESET ALL');
          await nothingGained(root, 'logins');
        });

        test("an owner's login to which another role grants a role of its own stays in use", async (t) => {
          const { root, send, tableOf, made } = await room(t, begun, bin, role);
          await made('id INT', codes[0]?.after ?? '');
          const target = await tableOf('mal.t');
          const one = async () => outcomesOf(await send([rowsOf(target, '{"id":1}')]));
          assert.deepEqual(await one(), [1]);
          const login = await loginOf(root);
          await root.query(
            `CREATE ROLE giver; CREATE ROLE gift; GRANT gift TO giver WITH ADMIN OPTION; CREATE TABLE given (); GRANT SELECT ON given TO ${login};
             SET ROLE giver; GRANT gift TO ${login}; RESET ROLE;
             SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${login}'`,
          );
          await delay(50);
          assert.deepEqual(await one(), [1]);
          assert.equal(await loginOf(root), login);
        });
      },
    );
  }
}
