/** Two roles on one database: what mallory does in schema headgate gains nothing, shows nothing and stops nobody. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Door, rows, webhook } from '../../test/support/ddl-door.ts';
import { someVersion } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from './migrate.ts';
import { forgetDeliveries } from '../reject/journal.ts';
import { pinned, readSizes, readTables } from './queries.ts';

const lockModes = [
  'ACCESS SHARE',
  'ROW SHARE',
  'ROW EXCLUSIVE',
  'SHARE UPDATE EXCLUSIVE',
  'SHARE',
  'SHARE ROW EXCLUSIVE',
  'EXCLUSIVE',
  'ACCESS EXCLUSIVE',
];

function hostileOn(bin: string): void {
  let server: TestServer;
  let root: Door;
  let alice: Door;
  let mallory: Door;
  const open = async (user: string): Promise<Door> => {
    const door = new Door(server.socketDir, user);
    await door.client.connect();
    return door;
  };
  const refused = async (door: Door, sql: string, code = '42501') =>
    assert.equal((await door.fails(sql)).code, code, sql);

  before(async () => {
    server = await startServer(bin);
    root = await open('root');
    await migrate(root.client, readMigrations());
    await root.client.query(`CREATE ROLE alice LOGIN; CREATE ROLE mallory LOGIN;
      GRANT CREATE ON DATABASE postgres TO alice, mallory;
      CREATE SCHEMA al AUTHORIZATION alice; CREATE SCHEMA mal AUTHORIZATION mallory`);
    [alice, mallory] = [await open('alice'), await open('mallory')];
    await alice.run("CREATE SECRET al.s WITH (backend = 'meta') AS 'x'");
    await alice.run(`${webhook('al.t')} VALIDATE SECRET al.s AS f(s)`);
    await mallory.run(webhook('mal.own'));
  });
  after(async () => {
    for (const door of [root, alice, mallory]) await door.client.end();
    await server.close();
  });

  test('the schema headgate accepts no webhook table and no secret, even if the search path leads there', async () => {
    for (const path of ['headgate, public', 'public']) {
      await root.client.query(`SET search_path = ${path}`);
      const name = path === 'public' ? 'headgate.mine' : 'mine';
      for (const sql of [webhook(name), `CREATE SECRET ${name} WITH (backend = 'meta') AS 'x'`])
        assert.match((await root.fails(sql)).message, /the schema "headgate" is Headgate's own/);
    }
    await root.client.query('RESET search_path');
  });

  test('other roles can neither lock nor write anything in schema headgate, in any lock mode', async () => {
    const relations = await rows(
      root,
      `SELECT c.oid::regclass::text FROM pg_class c
       WHERE c.relnamespace = 'headgate'::regnamespace AND c.relkind IN ('r', 'v')`,
    );
    assert(relations.length > 40);
    for (const [relation] of relations as string[][]) {
      for (const mode of lockModes) {
        await mallory.client.query('BEGIN');
        await refused(mallory, `LOCK TABLE ${relation} IN ${mode} MODE`);
        await mallory.client.query('ROLLBACK');
      }
      for (const sql of [`DELETE FROM ${relation}`, `TRUNCATE ${relation}`])
        assert.match((await mallory.fails(sql)).code, /^(42501|42809|55000)$/, sql);
    }
    const granted = await rows(
      root,
      `SELECT a.attrelid::regclass::text, a.attname::text, p.privilege
       FROM pg_attribute a CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'REFERENCES']) p (privilege)
       WHERE a.attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'headgate'::regnamespace AND relkind IN ('r', 'v'))
         AND a.attnum > 0 AND has_column_privilege('mallory', a.attrelid, a.attnum, p.privilege) ORDER BY 1, 2, 3`,
    );
    assert.deepEqual(granted, [
      ['headgate.request', 'action', 'INSERT'],
      ['headgate.request', 'given', 'INSERT'],
      // A role leaves tombstones of its own tables.
      ['headgate.tombstones', 'deleted_at', 'UPDATE'],
      ['headgate.tombstones', 'key', 'INSERT'],
      ['headgate.tombstones', 'relation', 'INSERT'],
      ['headgate.tombstones', 'version', 'INSERT'],
      ['headgate.tombstones', 'version', 'UPDATE'],
    ]);
    const [[hers] = []] = await rows(root, `SELECT 'al.t'::regclass::oid::text`);
    await refused(
      mallory,
      `INSERT INTO headgate.tombstones (relation, key, version) VALUES (${String(hers)}, gen_random_uuid(), '{9}')`,
      '44000',
    );
  });

  test('catalog functions act for the current role: with SET ROLE, membership and prepared statements', async () => {
    const drop = `INSERT INTO headgate.request (action, given)
      VALUES ('validate', jsonb_build_object('relation', 'al.t'::regclass::oid::bigint, 'validation', NULL))`;
    await root.client.query('GRANT USAGE ON SCHEMA al TO mallory');
    await refused(mallory, drop);
    await refused(
      mallory,
      `INSERT INTO headgate.request (caller, action, given) VALUES ('alice', 'forget', '{}')`,
    );
    await refused(mallory, `CALL headgate.alter_checks('al.t', 'al.t', false, '{"validation": null}', NULL)`);
    await refused(mallory, `SELECT headgate.do_validate(10, 'al.t'::regclass, NULL, NULL)`);
    await mallory.client.query('CREATE TABLE mal.lie (caller name, action text, given jsonb)');
    await refused(
      mallory,
      'CREATE TRIGGER lie BEFORE INSERT ON mal.lie FOR EACH ROW EXECUTE FUNCTION headgate.act()',
    );
    await refused(
      mallory,
      'CREATE TRIGGER flood BEFORE INSERT ON mal.lie FOR EACH ROW EXECUTE FUNCTION headgate.tell()',
    );

    await root.client.query(
      `CREATE ROLE team; GRANT team TO alice, mallory; CREATE SCHEMA team AUTHORIZATION team`,
    );
    await alice.run(
      `SET ROLE team; ${webhook('team.t')}; CREATE SECRET team.s WITH (backend = 'meta') AS 'x'; RESET ROLE`,
    );
    await mallory.run('ALTER TABLE team.t VALIDATE SECRET team.s AS f(s)');
    await mallory.client.query(`PREPARE p AS ${drop.replace('al.t', 'team.t')}`);
    await root.client.query('REVOKE team FROM mallory');
    await refused(mallory, 'EXECUTE p');
    await root.client.query(`SET ROLE mallory`);
    await refused(root, drop);
    await root.client.query('RESET ROLE');
    assert.deepEqual(await rows(root, 'SELECT count(*)::int FROM headgate.request'), [[0]]);
    assert.deepEqual(
      await rows(root, `SELECT expression FROM headgate.webhook_table WHERE relation = 'al.t'::regclass`),
      [['f(s)']],
    );
  });

  test("catalog functions use PostgreSQL's own relations and types, not temporary ones of the same names", async () => {
    await mallory.client.query(`
      CREATE TEMP TABLE pg_class AS SELECT c.oid, c.relname, c.relnamespace, c.relkind, c.relpersistence,
        (SELECT oid FROM pg_roles WHERE rolname = 'mallory') AS relowner FROM pg_catalog.pg_class c;
      CREATE FUNCTION mal.gain(x pg_catalog.regclass) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN IF current_user <> 'mallory' THEN EXECUTE 'ALTER ROLE mallory SUPERUSER'; END IF; RETURN true; END $$;
      CREATE DOMAIN pg_temp.regclass AS pg_catalog.regclass CHECK (mal.gain(VALUE))`);
    assert.deepEqual(await mallory.run(`SELECT headgate.owns_table('al.t'::pg_catalog.regclass)`), [[false]]);
    await refused(mallory, 'ALTER TABLE al.t DROP VALIDATE');
    await mallory.run('CREATE TABLE mal.gone (); ALTER TABLE mal.own ADD COLUMN z int; DROP TABLE mal.gone');
    await mallory.run(webhook('mal.another'));
    await mallory.run('DROP TABLE mal.another');
    assert.deepEqual(await rows(root, `SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'`), [[false]]);
    await mallory.client.query('DROP TABLE pg_temp.pg_class; DROP DOMAIN pg_temp.regclass');
  });

  test('the new owner of a table cannot point its check at a foreign secret', async () => {
    await root.run("CREATE SCHEMA r; CREATE SECRET r.rootsec WITH (backend = 'meta') AS 'canary'");
    await root.run(
      `CREATE TABLE mal.given (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET r.rootsec AS f(rootsec)`,
    );
    await root.client.query('ALTER TABLE mal.given OWNER TO mallory');
    await refused(mallory, 'ALTER TABLE mal.given VALIDATE SECRET r.rootsec AS g(rootsec)');
    const byHand = (validation: object) =>
      `CALL headgate.alter_checks('mal.given', '', false, '${JSON.stringify({ validation })}', NULL)`;
    const lie = { payload: null, expression: 'g(rootsec)', secrets: [], warnings: [] };
    await refused(mallory, byHand(lie), '22023');
    // With a seal of her own making the row is there, without the secret, and Headgate does not believe it (seals.test.ts).
    await mallory.client.query('BEGIN');
    const sealId = '00000000-0000-4000-8000-000000000000';
    await mallory.client.query(byHand({ ...lie, sealed: 'AAAA', sealId }));
    assert.deepEqual(
      await rows(
        mallory,
        `SELECT secret_id FROM headgate.webhook_table_secret WHERE relation = 'mal.given'::regclass`,
      ),
      [],
    );
    await mallory.client.query('ROLLBACK');
    await refused(
      mallory,
      byHand({ ...lie, sealed: 'AAAA', sealId, secrets: [{ schema: 'r', name: 'rootsec' }] }),
    );
    // The same of an ANSWER.
    const answers = (how: object) =>
      `CALL headgate.alter_checks('mal.given', '', false, '${JSON.stringify({ answers: [how], how: 'add' })}', NULL)`;
    const answer = {
      unchecked: true,
      committed: false,
      payload: null,
      expression: 'WHEN a BODY rootsec',
      secrets: [],
    };
    await refused(mallory, answers(answer), '22023');
    const bound = { ...answer, sealed: 'AAAA', sealId, secrets: [{ schema: 'r', name: 'rootsec' }] };
    await refused(mallory, answers(bound));
    await refused(mallory, answers({ ...bound, secrets: [], sealed: 'A'.repeat(300_000) }), '54000');
    await refused(mallory, "ALTER TABLE mal.given ANSWER SECRET r.rootsec WHEN f(rootsec) BODY 'a'");
    await refused(mallory, "ALTER TABLE al.t ANSWER BODY 'a'");
    await refused(
      mallory,
      `CALL headgate.alter_checks('al.t', '', false, '{"answers": [], "how": "replace"}', NULL)`,
    );
    await refused(
      mallory,
      `CALL headgate.ask('answers', jsonb_build_object('relation', 'al.t'::regclass::oid::bigint, 'answers', '[]'::jsonb, 'how', 'replace'))`,
    );
    await refused(mallory, `SELECT headgate.do_answers(10, 'al.t'::regclass, '[]', 'replace', NULL)`);
    await refused(mallory, 'DELETE FROM headgate.webhook_answer');
    await refused(mallory, 'SELECT sealed FROM headgate.webhook_answer');
    await refused(mallory, 'SELECT answers FROM headgate.answer_rows');
    await refused(mallory, 'SELECT id FROM headgate.handshake_log');
    await refused(mallory, "UPDATE headgate.webhook_table SET expression = 'x'");
    await refused(mallory, 'SELECT sealed_expression FROM headgate.webhook_table');
    await refused(mallory, 'SELECT sealed FROM headgate.secret');
    await refused(mallory, 'SELECT name FROM headgate.channel');
  });

  test('advisory locks of another role delay no DDL, and CREATE TABLE IF NOT EXISTS waits for a concurrent creation', async () => {
    await mallory.client.query(`SELECT pg_advisory_lock(1212498244, 'al.t'::regclass::oid::int),
      pg_advisory_lock(hashtextextended('headgate.create al.fresh', 0)), pg_advisory_lock(7521418777024066661),
      pg_advisory_lock(7521418777024066662), pg_advisory_lock(7521418777024066663)`);
    await alice.client.query(`SET statement_timeout = '20s'`);
    const again = await open('alice');
    await alice.client.query('BEGIN');
    await alice.run(webhook('IF NOT EXISTS al.fresh'));
    const second = again.run(webhook('IF NOT EXISTS al.fresh'));
    for (let waits = 0; waits === 0;)
      waits = Number(
        (
          await rows(
            root,
            `SELECT count(*)::int FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`,
          )
        )[0]?.[0],
      );
    await alice.client.query('COMMIT');
    await second;
    assert.deepEqual(again.notices, ['NOTICE: relation "fresh" already exists, skipping']);
    await again.client.end();
    await root.client.query(
      `BEGIN; SELECT headgate.lock_keys('al.t'::regclass::oid::bigint, true); ROLLBACK`,
    );
    await refused(mallory, `SELECT headgate.lock_keys('al.t'::regclass::oid::bigint, true)`);
    // A transaction of Headgate's that waits for a row of hers holds the lock that tables of others share.
    const waiting = await open('root');
    await waiting.client.query('BEGIN; SELECT headgate.lock_keys(7, true)');
    for (const alone of [false, true])
      await root.client.query(
        `BEGIN; SET LOCAL statement_timeout = '10s'; SELECT headgate.lock_keys(7 + 32, ${alone}); ROLLBACK`,
      );
    await waiting.client.end();
    await mallory.client.query('SELECT pg_advisory_unlock_all()');
  });

  test('oversized catalog values are refused, and existing ones affect their own table only', async () => {
    await refused(
      mallory,
      `INSERT INTO headgate.request (action, given) SELECT 'validate', jsonb_build_object(
        'relation', 'mal.own'::regclass::oid::bigint,
        'validation', jsonb_build_object('expression', string_agg(md5(i::text), ''), 'sealed', 'A', 'sealId', gen_random_uuid(),
          'secrets', '[]'::jsonb)) FROM generate_series(1, 200000) i`,
      '54000',
    );
    await refused(
      mallory,
      `CALL headgate.alter_checks('mal.own', '', false, jsonb_build_object('validation', jsonb_build_object(
        'expression', repeat('x', 300000), 'sealed', 'A', 'sealId', gen_random_uuid(), 'secrets', '[]'::jsonb)), NULL)`,
      '23514',
    );
    const secrets = JSON.stringify(Array.from({ length: 65 }, (_, i) => ({ schema: 'mal', name: `s${i}` })));
    await refused(
      mallory,
      `CALL headgate.alter_checks('mal.own', '', false, jsonb_build_object('validation', jsonb_build_object(
        'expression', 'x', 'sealed', 'A', 'sealId', gen_random_uuid(), 'secrets', '${secrets}'::jsonb)), NULL)`,
      '54000',
    );
    const making = (from: number, to: number) => `DO $do$ BEGIN FOR i IN ${from} .. ${to} LOOP
      CALL headgate.ask('create secret', jsonb_build_object('schema', 'mal', 'name', 'n' || i, 'backend', 'meta', 'sealId', gen_random_uuid(),
        'sealed', 'A')); END LOOP; END $do$`;
    await mallory.client.query(making(1, 10));
    await root.client
      .query(`INSERT INTO headgate.secret (schema_name, name, owner, owner_oid, backend, seal_id, sealed) SELECT
      s.schema_name, 'n' || i, s.owner, s.owner_oid, s.backend, s.seal_id, 'A' FROM headgate.secret s, generate_series(11, 990) AS i WHERE s.name = 'n1'`);
    await mallory.client.query(making(991, 1_000));
    await refused(mallory, "CREATE SECRET mal.more WITH (backend = 'meta') AS 'x'", '54000');

    await mallory.run(webhook('mal.deep')); // With a default that PostgreSQL keeps as 9 MB of text, and an expression of 9 MB that an older version has let in.
    await mallory.client.query(
      `DO $do$ BEGIN EXECUTE format('ALTER TABLE mal.deep ADD n text, ALTER n SET DEFAULT %L', repeat('y', 2300000)); END $do$`,
    );
    await root.client.query(`BEGIN; ALTER TABLE headgate.webhook_table DROP CONSTRAINT webhook_table_bounds;
      UPDATE headgate.webhook_table SET expression = repeat('x', 9000000) WHERE relation = 'mal.own'::regclass`);
    const all = await readSizes(root.client);
    const fitting = all.flatMap((it) => (it.fits ? it.relation : []));
    const read = await readTables(root.client, fitting);
    await root.client.query('ROLLBACK');
    assert.deepEqual(all.filter((it) => !it.fits).length, 2);
    assert(JSON.stringify(read.rows).length < 100_000 && read.rows.some((it) => it.table_name === 't'));
  });

  test('an unreadable dedupe or version window does not stop the expiry of ids of other tables', async () => {
    await mallory.run(webhook('mal.forgets'));
    for (const option of ['dedupe', 'version'])
      for (const window of ['170000000 years', '999999999 days', 'infinity', 'x']) {
        await mallory.client
          .query(`INSERT INTO headgate.request (action, given) SELECT 'options', jsonb_build_object('relation',
          'mal.forgets'::regclass::oid::bigint, 'options', '${JSON.stringify({ [option]: 'a', [`${option}_window`]: window })}'::jsonb)`);
        await root.client
          .query(`INSERT INTO headgate.delivery (relation, id, stored_at) VALUES ('al.t', gen_random_uuid(), '2000-01-01'), ('mal.forgets', gen_random_uuid(), now());
          INSERT INTO headgate.tombstone (relation, key, version, deleted_at) VALUES ('al.t', gen_random_uuid(), '{1}', '2000-01-01'), ('mal.forgets', gen_random_uuid(), '{1}', now())`);
        await root.client.query(forgetDeliveries, [100]);
        const left = `SELECT (SELECT count(*)::int FROM headgate.delivery WHERE relation = 'al.t'::regclass), (SELECT count(*)::int FROM headgate.tombstone WHERE relation = 'al.t'::regclass)`;
        assert.deepEqual(await rows(root, left), [[0, 0]], window);
      }
  });

  test('a secret belongs to a role rather than to its name, and follows a rename of the role and a restore', async () => {
    const ownerOf = () => rows(root, `SELECT owner::text FROM headgate.secret WHERE name = 'eves'`);
    await root.client.query(`CREATE ROLE eve LOGIN; CREATE SCHEMA ev; GRANT ALL ON SCHEMA ev TO PUBLIC`);
    const eve = await open('eve');
    await eve.run("CREATE SECRET ev.eves WITH (backend = 'meta') AS 'x'");
    await eve.client.end();
    await root.client.query('ALTER ROLE eve RENAME TO adam; CALL headgate.settle()');
    assert.deepEqual(await ownerOf(), [['adam']]);
    // A dump that is restored on another server: other oids, the same names.
    await root.client.query(
      `UPDATE headgate.cluster SET identity = 'cluster 1'; UPDATE headgate.secret SET owner_oid = 4000000000`,
    );
    const [before] = await rows(root, 'SELECT array_agg(name ORDER BY purpose)::text FROM headgate.channel');
    await root.client.query('CALL headgate.settle()');
    assert.notDeepEqual(
      await rows(root, 'SELECT array_agg(name ORDER BY purpose)::text FROM headgate.channel'),
      [before],
    );
    await alice.run("ALTER SECRET al.s AS 'y'");
    const adam = await open('adam');
    await adam.run("ALTER SECRET ev.eves AS 'y'");
    await adam.client.end();
    await root.client.query('REVOKE ALL ON SCHEMA ev FROM adam; DROP ROLE adam; CREATE ROLE adam LOGIN');
    const other = await open('adam');
    // Also where no Headgate has looked in between.
    await refused(other, "ALTER SECRET ev.eves AS 'mine'");
    await other.run(webhook('ev.t')).catch(() => {});
    await refused(other, `${webhook('ev.u')} VALIDATE SECRET ev.eves AS f(eves)`);
    await other.client.end();
    await root.client.query('CALL headgate.settle()');
    assert.deepEqual(await ownerOf(), [[null]]);
    await root.run('DROP SECRET ev.eves');
  });

  test('the functions of the schema headgate give no role rights that it lacks', async () => {
    const definers = await rows(
      root,
      `SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'headgate'::regnamespace
       AND p.prosecdef AND has_function_privilege('mallory', p.oid, 'EXECUTE')`,
    );
    assert.deepEqual(definers, []);
    const paths = await rows(
      root,
      `SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'headgate'::regnamespace
       AND NOT 'search_path=pg_catalog, pg_temp' = ANY(coalesce(p.proconfig, '{}')) ORDER BY 1`,
    );
    const own = ['confirm', 'hold_code', 'named_before', 'named_now', 'stays', 'store_values'];
    assert.deepEqual(paths.flat(), own);
    // A function of hers in WHERE sees no row that the view would not show.
    await mallory.client
      .query(`CREATE FUNCTION mal.leak(x text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS
      $$ BEGIN RAISE NOTICE 'leaked %', x; RETURN true; END $$`);
    await root.client
      .query(`INSERT INTO headgate.rejected_requests (received_at, relation, schema_name, table_name, door, status,
        code, reason, authenticated, remote_address, method, target, headers, headers_left_out)
      VALUES (now(), 'al.t', 'al', 't', 'http', 422, 'x', 'canary', true, '', 'POST', '/', '{}', '{}')`);
    mallory.notices.length = 0;
    for (const [relation, column] of [
      ['rejected_requests', 'reason'],
      ['rejected_summary', 'last_reason'],
    ])
      assert.deepEqual(
        await mallory.run(`SELECT ${column} FROM headgate.${relation} WHERE mal.leak(${column})`),
        [],
      );
    assert.deepEqual(mallory.notices, []);
    await refused(mallory, 'SELECT headgate.retry_rejected(id) FROM generate_series(1, 9) id', 'P0002');
    await refused(mallory, 'SELECT * FROM headgate.rejected_requests FOR UPDATE');
  });

  test('a schema headgate owned by an untrusted role is not executed', async () => {
    await root.client.query('CREATE DATABASE trap');
    await root.client.query('GRANT CREATE ON DATABASE trap TO mallory');
    const there = (user: string): Promise<Door> => {
      const door = new Door(server.socketDir, user, 'trap');
      return door.client.connect().then(() => door);
    };
    const [her, him] = [await there('mallory'), await there('root')];
    await her.client.query(`CREATE SCHEMA headgate; CREATE TABLE headgate.migration (version int);
      INSERT INTO headgate.migration VALUES (3)`);
    const migrations = readMigrations();
    await assert.rejects(migrate(him.client, migrations), /something in it was made by neither "root"/);
    await him.client.query('DROP SCHEMA headgate CASCADE; CREATE ROLE hg LOGIN; CREATE SCHEMA headgate');
    // Neither CREATE on the database nor on the schema, then on the schema alone, as somebody else has made it.
    const hg = await there('hg');
    await assert.rejects(
      migrate(hg.client, migrations),
      /role "hg" may not create in the schema headgate: let its owner run GRANT USAGE, CREATE ON SCHEMA headgate TO "hg"/,
    );
    await him.client.query('GRANT USAGE, CREATE ON SCHEMA headgate TO hg');
    await assert.rejects(migrate(hg.client, migrations), /GRANT USAGE ON SCHEMA headgate TO PUBLIC/);
    await him.client.query('GRANT USAGE ON SCHEMA headgate TO PUBLIC');
    assert.deepEqual(await migrate(hg.client, migrations), { from: 0, to: migrations.version });
    await him.client.query(
      'CREATE SCHEMA mine AUTHORIZATION mallory; REVOKE CREATE ON DATABASE trap FROM mallory',
    );
    await her.run(webhook('mine.t'));
    assert.deepEqual(await her.run(`SELECT has_table_privilege('hg', 'mine.t', 'INSERT')`), [[true]]);
    const found = await pinned<{ table_name: string }>(
      hg.client,
      'SELECT table_name FROM headgate.catalog_sizes WHERE fits',
    );
    assert.deepEqual(found, [{ table_name: 't' }]);
    await him.client.query('DROP SCHEMA headgate CASCADE');
    await assert.rejects(
      migrate(hg.client, migrations),
      /role "hg" may not make the schema headgate in database "trap": let the owner of the database run GRANT CREATE ON DATABASE "trap" TO "hg"/,
    );
    for (const door of [her, him, hg]) await door.client.end();
  });
}

for (const [version, bin] of someVersion())
  suite(`a hostile role cannot misuse the catalog on PostgreSQL ${version}`, () => hostileOn(bin));
