import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { after, afterEach, before, suite, test } from 'node:test';
import { Door } from '../../test/support/ddl-door.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import type { Observation } from '../observe/observations.ts';
import { OwnerLogins } from '../engine/owner-logins.ts';
import { keepOnce } from './retention.ts';
import { remove, rowsCutoff, rowsWithin } from './statements.ts';

const table = (name: string, keep: string, more = '') =>
  `CREATE TABLE ${name} (data JSONB) INCLUDE TIMESTAMP AS arrived ${more} WITH (connector = 'webhook', keep = '${keep}')`;

suite('keep removes old rows', () => {
  let server: TestServer;
  let root: Door;
  let mallory: Door;

  before(async () => {
    server = await startServer();
    root = new Door(server.socketDir, 'root');
    await root.client.connect();
    await migrate(root.client, readMigrations());
    await root.run(
      'CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; CREATE ROLE bob LOGIN',
    );
    mallory = new Door(server.socketDir, 'mallory');
    await mallory.client.connect();
  });
  after(async () => {
    await root.client.end();
    await mallory.client.end();
    await server.close();
  });

  // A pass goes through all tables there are.
  afterEach(() =>
    root.client.query(`DO $$ DECLARE made regclass; BEGIN
      FOREACH made IN ARRAY ARRAY(SELECT relation FROM headgate.webhook_table) LOOP
        EXECUTE format('DROP TABLE %s CASCADE', made);
      END LOOP; END $$`),
  );

  const told: Observation[] = [];
  const pass = async (
    other: Partial<Record<keyof typeof limits & `keep${string}`, number>> = {},
    database = 'postgres',
  ) => {
    const { signal } = new AbortController();
    told.length = 0;
    const engine = {
      clientConfig: (database: string) => ({ host: server.socketDir, user: 'root', database }),
      unavailable: null,
    };
    const quick = { ...limits, keepRestMs: 0, keepRestTimes: 0, ...other };
    const observe = (it: Observation) => void told.push(it);
    const logins = new OwnerLogins({ kind: 'embedded', defaultDatabase: 'postgres', ...engine }, null);
    const options = { engine, logins, limits: quick, observe, clock: () => performance.now() };
    try {
      return await keepOnce(database, options, signal);
    } finally {
      await logins.close();
    }
  };
  const fill = (name: string, rows: number, age: string, from = 0) =>
    root.run(
      `INSERT INTO ${name} SELECT to_jsonb(${from} + g), now() - interval '${age}' - g * interval '1 ms' FROM generate_series(1, ${rows}) g`,
    );
  const count = async (name: string) => Number((await root.run(`SELECT count(*) FROM ${name}`))[0]?.[0]);
  const kept = (door: Door, name: string) =>
    door.run(
      `SELECT rows::int, older_than IS NOT NULL, reason FROM headgate.kept WHERE table_name = '${name}' ORDER BY id`,
    );

  test('keep by age removes old rows in small transactions and reports in headgate.kept', async () => {
    await root.run(table('aged', '90 days'));
    await fill('aged', 2_500, '91 days');
    await fill('aged', 10, '1 day');
    await root.run('INSERT INTO aged VALUES (NULL, NULL)');
    assert.equal(await pass({ keepTurnMs: 0 }), true, 'there was no time');
    assert.equal(await count('aged'), 2_511);
    assert.equal(await pass(), false, 'nothing is left');
    assert.equal(await count('aged'), 11);
    assert.deepEqual(await kept(root, 'aged'), [[2_500, true, null]]);
    assert.deepEqual(
      told.map(({ kind }) => kind),
      ['keep.removed'],
    );
    await pass();
    assert.deepEqual(await kept(root, 'aged'), [[2_500, true, null]]);
    const [[, shown] = []] = await root.run('SHOW CREATE TABLE aged');
    assert.match(String(shown), /keep = '90 days'/);
    await root.run(`ALTER TABLE aged SET (keep = '1 HOUR')`);
    assert.match(String((await root.run('SHOW CREATE TABLE aged'))[0]?.[1]), /keep = '1 hours'/);
    await root.run(`ALTER TABLE aged SET (keep = 'all')`);
    await pass();
    assert.equal(await count('aged'), 11);
  });

  test('keep holds no lock during its pauses, and committed removals stay', async () => {
    await root.run(table('rested', '1 minute'));
    await fill('rested', 1_000, '1 hour');
    const passed = pass({ keepRestMs: 1_000, keepTurnMs: 900 });
    const resting = `SELECT state FROM pg_stat_activity
      WHERE application_name = 'headgate keep' AND state LIKE 'idle%' AND clock_timestamp() - state_change > interval '300 ms'`;
    let rows: unknown[][] = [];
    await until(async () => (rows = await root.run(resting)).length > 0);
    assert.deepEqual(new Set(rows.flat()), new Set(['idle']));
    assert.equal(await count('rested'), 1_000 - limits.keepBatchRowsMax);
    assert.equal(await passed, true);
    assert.deepEqual(await kept(root, 'rested'), [[limits.keepBatchRowsMax, true, null]]);
  });

  test('keep by size removes the oldest rows until the table has about that size', async () => {
    await root.run(table('sized', '1 MB'));
    const rows = (name: string, from: number, bytes: number) =>
      root.run(`INSERT INTO ${name} SELECT jsonb_build_object('n', g, 'x', repeat(md5(g::text), ${bytes / 32})),
        now() - interval '1 hour' + g * interval '1 ms' FROM generate_series(${from + 1}, ${from + 1_000}) g`);
    for (let i = 0; i < 6; i++) await rows('sized', i * 1_000, 320);
    await root.run('ANALYZE sized');
    const size = async () =>
      (
        await root.run(
          `SELECT sum(28 + pg_column_size(data) + pg_column_size(arrived))::int, count(*)::int, max((data->>'n')::int) FROM sized`,
        )
      )[0];
    await pass();
    const [bytes, count = 0, newest] = (await size()) ?? [];
    assert.ok(Math.abs(Number(bytes) - 1_048_576) < 100_000, String(bytes));
    assert.ok(Number(count) < 5_000);
    assert.equal(newest, 6_000);
    await pass();
    assert.equal((await size())?.[1], count);
    // Of an empty one, and of one that has room, nothing goes.
    await root.run(table('roomy', '1 TB'));
    await pass();
    await fill('roomy', 100, '1 hour');
    await root.run('ANALYZE roomy');
    await pass();
    assert.equal((await root.run('SELECT count(*)::int FROM roomy'))[0]?.[0], 100);
    assert.match(String((await root.run('SHOW CREATE TABLE roomy'))[0]?.[1]), /keep = '1 TB'/);
  });

  test('keep scans the index of a table once, rather than from its beginning in each transaction', async () => {
    const rows = 6_000;
    await root.run(table('indexed', '1 minute'));
    await fill('indexed', rows - 2_001, '1 hour');
    // More of one time than a transaction removes, and the first time there is.
    await root.run(`INSERT INTO indexed SELECT 'true', now() - interval '2 hours' FROM generate_series(1, 2000);
      INSERT INTO indexed VALUES ('0', '-infinity'), ('1', now()), ('2', NULL); CREATE INDEX by_arrival ON indexed (arrived) WITH (fillfactor = 10)`);
    const blocks = async () => {
      await root.run('SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()');
      const [[n] = []] = await root.run(
        `SELECT (idx_blks_hit + idx_blks_read)::int FROM pg_statio_user_indexes WHERE indexrelname = 'by_arrival'`,
      );
      return Number(n);
    };
    const before = await blocks();
    await pass();
    assert.equal(await count('indexed'), 2);
    assert.deepEqual(await kept(root, 'indexed'), [[rows, true, null]]);
    let read = 0;
    await until(async () => (read = (await blocks()) - before) > 0);
    // A few for each transaction; from the beginning each time it is twice as much and more.
    assert.ok(read < 60 * Math.ceil(rows / limits.keepBatchRowsMax), String(read));
  });

  test('keep by number removes the oldest rows', async () => {
    await root.run(table('counted', '100 rows'));
    await fill('counted', 250, '1 hour');
    await root.run('ANALYZE counted');
    await pass();
    assert.deepEqual(await root.run('SELECT count(*)::int, max(data::int) FROM counted'), [[100, 100]]);
    await pass();
    assert.equal(await count('counted'), 100);
  });

  test("keep never runs an owner's code with Headgate's rights", async () => {
    await mallory.run(`CREATE FUNCTION gain() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN OLD; END $$`);
    await mallory.run(table('trapped', '1 minute'));
    await mallory.run(table('plain', '1 minute'));
    await root.run(table('parents', '1 minute', "INCLUDE HEADER 'x' AS id"));
    await root.run(
      `ALTER TABLE parents ALTER id TYPE int USING id::int, ADD UNIQUE (id); GRANT REFERENCES (id) ON parents TO mallory`,
    );
    await mallory.run('CREATE TRIGGER gain BEFORE DELETE ON trapped FOR EACH ROW EXECUTE FUNCTION gain()');
    await mallory.run('CREATE TABLE children (id int REFERENCES parents (id) ON DELETE CASCADE)');
    await mallory.run('CREATE TRIGGER gain BEFORE DELETE ON children FOR EACH ROW EXECUTE FUNCTION gain()');
    for (const name of ['trapped', 'plain', 'parents']) await fill(name, 5, '1 hour');
    await root.run('UPDATE parents SET id = data::int');
    await root.run('INSERT INTO children VALUES (1)');
    await pass();
    await pass();
    assert.deepEqual(await Promise.all(['trapped', 'plain', 'parents'].map(count)), [5, 0, 5]);
    assert.deepEqual(await root.run(`SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'`), [[false]]);
    const [[rows, , reason] = [], second] = await kept(mallory, 'trapped');
    assert.deepEqual([rows, second], [0, undefined]);
    assert.match(String(reason), /permission denied to alter role/);
    assert.deepEqual(await kept(mallory, 'parents'), []);
    assert.equal((await kept(root, 'parents')).length, 1);
    await assert.rejects(mallory.run('SELECT * FROM headgate.keep_log'), /permission denied/);
    await assert.rejects(mallory.run('BEGIN; LOCK TABLE headgate.kept'), /permission denied/);
    await mallory.run('ROLLBACK');
    await assert.rejects(mallory.run('SELECT FROM headgate.keeping FOR UPDATE'), /permission denied/);
    await assert.rejects(mallory.run(`ALTER TABLE parents SET (keep = '1 minute')`), /must be owner/);
  });

  test('keep runs planner support functions and foreign key checks as the owner', async () => {
    await mallory.run(`CREATE TABLE met (what text, who name); GRANT ALL ON met TO PUBLIC;
      CREATE FUNCTION meet(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.met VALUES (what, current_user); RETURN 1; END $$;
      CREATE FUNCTION later(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM public.meet(what);
        EXECUTE format('DECLARE %I CURSOR WITH HOLD FOR SELECT public.meet(%L)', what || random(), what || ' at COMMIT'); RETURN 1; END $$;
      CREATE FUNCTION pure(what text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT public.later(what)); END $$`);
    await mallory.run(table('planned', '1 minute'));
    await mallory.run(table('numbered', '1 rows', "INCLUDE HEADER 'x' AS id"));
    await mallory.run(
      'ALTER TABLE numbered ADD UNIQUE (id); CREATE TABLE looked (id text REFERENCES numbered (id))',
    );
    await root.run(table('referred', '1 minute', "INCLUDE HEADER 'x' AS id"));
    await root.run('ALTER TABLE referred ADD UNIQUE (id); GRANT REFERENCES ON referred TO mallory');
    await mallory.run('CREATE TABLE refers (id text REFERENCES referred (id))');
    for (const name of ['planned', 'numbered', 'referred']) {
      await fill(name, 5, '1 hour');
      await root.run(`UPDATE ${name === 'planned' ? 'referred' : name} SET id = data; ANALYZE ${name}`);
    }
    await mallory.run(`CREATE STATISTICS ON (pure('planned')) FROM planned; CREATE STATISTICS ON (pure('looked')) FROM looked;
      CREATE STATISTICS ON (pure('refers')) FROM refers`);
    await root.run('TRUNCATE met');
    await pass();
    assert.deepEqual(await root.run(`SELECT DISTINCT who FROM met`), [['mallory']]);
    assert.deepEqual(await Promise.all(['planned', 'numbered', 'referred'].map(count)), [0, 1, 5]);
    assert.match(String((await kept(root, 'referred'))[0]?.[2]), /code of role "mallory"/);
  });

  test("keep goes on with other tables after an owner's code spoils or ends the session", async () => {
    await mallory.run(`CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        CREATE TEMP TABLE IF NOT EXISTS pg_class (oid oid); PREPARE mine AS SELECT 1; PERFORM set_config('search_path', 'mal', false), set_config('statement_timeout', '0', false),
          set_config('headgate.said', '999999999999999999999999 x''; SELECT', true), set_config('standard_conforming_strings', 'off', false); RETURN NULL; END $$;
      CREATE FUNCTION leap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('transaction_timeout', '1', false), pg_sleep(1); RETURN NULL; END $$`);
    for (const name of ['left_behind', 'ended']) await mallory.run(table(name, '1 minute'));
    await mallory.run(
      'CREATE TRIGGER leave AFTER DELETE ON left_behind FOR EACH ROW EXECUTE FUNCTION leave()',
    );
    await mallory.run('CREATE TRIGGER leap AFTER DELETE ON ended FOR EACH STATEMENT EXECUTE FUNCTION leap()');
    await root.run(table('behind_it', '1 minute'));
    for (const name of ['left_behind', 'ended', 'behind_it']) await fill(name, 5, '1 hour');
    await mallory.run('ALTER TABLE left_behind ALTER arrived SET NOT NULL');
    await pass();
    assert.match(String((await kept(mallory, 'ended'))[0]?.[2]), /terminat|timeout/i);
    assert.deepEqual(await Promise.all(['ended', 'behind_it'].map(count)), [5, 0]);
    await mallory.run('DROP TABLE ended; DROP TRIGGER leave ON left_behind');
    await pass();
    assert.equal(await count('left_behind'), 0);
  });

  test('keep terminates code of an owner that does not end, and goes on with other tables', async () => {
    await mallory.run(table('endless', '1 minute'));
    await mallory.run(`CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$;
      CREATE TRIGGER stay BEFORE DELETE ON endless FOR EACH ROW EXECUTE FUNCTION stay()`);
    await root.run(table('patient', '1 minute'));
    for (const name of ['endless', 'patient']) await fill(name, 5, '1 hour');
    await pass({ keepStatementMs: 1_500, keepAnswerMs: 500 });
    assert.match(String((await kept(mallory, 'endless'))[0]?.[2]), /terminated/);
    assert.deepEqual(await Promise.all(['endless', 'patient'].map(count)), [5, 0]);
    assert.deepEqual(await root.run(`SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'`), []);
    await mallory.run('DROP TABLE endless');
  });

  test("keep runs no code with Headgate's rights when a schema is renamed meanwhile", async () => {
    await root.run('GRANT CREATE ON DATABASE postgres TO mallory');
    for (const schema of ['here', 'there'])
      await mallory.run(`CREATE SCHEMA ${schema}; ${table(`${schema}.it`, '1 minute')}`);
    await mallory.run(
      'CREATE TRIGGER gain BEFORE DELETE ON there.it FOR EACH STATEMENT EXECUTE FUNCTION gain()',
    );
    await mallory.run('CREATE INDEX ON here.it (arrived)');
    await fill('here.it', 300, '1 hour');
    await root.run(`CREATE SCHEMA lent AUTHORIZATION mallory; ${table('lent.it', '1 minute')}`);
    await fill('lent.it', 5, '1 hour');
    const passed = pass({ keepRestMs: 1_000, keepBatchMs: 9_000 });
    await until(
      async () =>
        Number(
          (
            await root.run(`SELECT count(*) FROM pg_stat_activity
      WHERE application_name = 'headgate keep' AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '100 ms'`)
          )[0]?.[0],
        ) > 0,
    );
    await mallory.run('BEGIN; ALTER SCHEMA here RENAME TO away; ALTER SCHEMA there RENAME TO here; COMMIT');
    await passed;
    assert.deepEqual(await root.run(`SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'`), [[false]]);
    assert.equal(await count('lent.it'), 5);
    assert.match(
      String((await root.run(`SELECT reason FROM headgate.kept WHERE schema_name = 'lent'`))[0]),
      /belongs to role "mallory"/,
    );
  });

  test("keep runs no code with the owner's rights in a schema that another role may rename", async () => {
    await root.run(`GRANT CREATE ON DATABASE postgres TO mallory; DROP SCHEMA IF EXISTS rented CASCADE`);
    await mallory.run(`CREATE SCHEMA rented; GRANT USAGE, CREATE ON SCHEMA rented TO bob; CREATE TABLE counted (who name); GRANT INSERT ON counted TO PUBLIC;
      CREATE FUNCTION counted() RETURNS int LANGUAGE sql AS 'INSERT INTO public.counted VALUES (current_user) RETURNING 1';
      CREATE FUNCTION counts(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT public.counted()); END';
      CREATE TABLE rented.trap (data JSONB, arrived timestamptz); CREATE INDEX ON rented.trap ((public.counts(1))); GRANT ALL ON rented.trap TO bob;
      TRUNCATE counted`);
    const bob = new Door(server.socketDir, 'bob');
    await root.run('ALTER ROLE bob LOGIN');
    await bob.client.connect();
    try {
      await bob.run(table('rented.mine', '1 day', 'PARTITION BY RANGE (arrived)'));
      await bob.run(
        `CREATE TABLE rented.over PARTITION OF rented.mine FOR VALUES FROM ('2025-06-01') TO ('2025-06-02')`,
      );
      await bob.run(`INSERT INTO rented.over VALUES ('1', '2025-06-01')`);
      const [[oid] = []] = await bob.run(`SELECT 'rented.over'::regclass::oid::text`);
      // What the name could mean by the time at which each is read.
      const leaf = { oid: String(oid), name: '"rented"."trap"' };
      for (const statement of [
        rowsWithin(leaf, '28', '1 MB', 1),
        rowsCutoff(leaf, 'arrived', '1'),
        remove(leaf, 'arrived', 'now', '-infinity', { indexed: true, lockable: true }, 10, null),
      ])
        await assert.rejects(bob.client.query(statement), { code: '22P02' }, statement);
      assert.equal(await count('counted'), 0);
      await pass();
      assert.equal(await count('rented.over'), 0);
      // No TRUNCATE, which takes whatever has the name.
      assert.deepEqual(await root.run(`SELECT pg_relation_size('rented.over') > 0`), [[true]]);
    } finally {
      await bob.client.end();
    }
  });

  test("keep runs a superuser's trigger, and processes partitions one by one", async () => {
    await root.run(`CREATE TABLE parts (data JSONB) INCLUDE TIMESTAMP AS arrived PARTITION BY RANGE (arrived)
      WITH (connector = 'webhook', keep = '1 day')`);
    await root.run(`CREATE TABLE parts_old PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ('2026-01-01')`);
    await root.run('CREATE TABLE parts_new PARTITION OF parts DEFAULT');
    await root.run(`CREATE TABLE gone (n int); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO public.gone VALUES (1); RETURN OLD; END $$;
      CREATE TRIGGER note AFTER DELETE ON parts_old FOR EACH ROW EXECUTE FUNCTION note()`);
    await root.run(
      `INSERT INTO parts VALUES ('1', '2025-06-01'), ('2', now() - interval '2 days'), ('3', now())`,
    );
    await pass();
    assert.deepEqual(await root.run('SELECT data FROM parts'), [[3]]);
    assert.equal(await count('gone'), 1);
    assert.deepEqual(await kept(root, 'parts'), [[2, true, null]]);
  });

  test('keep empties an expired partition at once unless that runs code or its rows are referenced', async () => {
    await root.run(`CREATE TABLE days (data JSONB) INCLUDE TIMESTAMP AS arrived PARTITION BY RANGE (arrived)
      WITH (connector = 'webhook', keep = '1 day')`);
    const partition = (name: string, from: string, to: string) =>
      root.run(`CREATE TABLE ${name} PARTITION OF days FOR VALUES FROM ('${from}') TO (${to})`);
    await partition('days_old', '2025-06-01', "'2025-06-02'");
    await partition('days_needed', '2025-06-02', "'2025-06-03'");
    await partition('days_since', '2025-06-03', 'MAXVALUE');
    await root.run(
      `CREATE UNIQUE INDEX one ON days_needed (arrived); CREATE TABLE needs (arrived timestamptz REFERENCES days_needed (arrived))`,
    );
    await root.run(`INSERT INTO days SELECT '1', timestamptz '2025-06-01' + i * interval '10 s' FROM generate_series(0, 8000) i;
      INSERT INTO days VALUES ('2', '2025-06-02'), ('3', '2025-06-04'), ('4', now())`);
    await root.run('ANALYZE days_old');
    await pass();
    assert.deepEqual(await root.run('SELECT data FROM days'), [[4]]);
    assert.deepEqual(
      await root.run(
        `SELECT pg_relation_size('days_old')::int, pg_relation_size('days_needed') > 0, pg_relation_size('days_since') > 0`,
      ),
      [[0, true, true]],
    );
    const [[rows, , reason] = [], ...others] = await kept(root, 'days');
    assert.ok(Number(rows) > 7_000 && reason === null && others.length === 0, JSON.stringify([rows, reason]));
    // While somebody reads it its rows go one by one.
    await root.run(`INSERT INTO days VALUES ('5', '2025-06-01')`);
    const reader = new Door(server.socketDir, 'root');
    await reader.client.connect();
    try {
      await reader.client.query('BEGIN; SELECT FROM days');
      await pass();
      await reader.client.query('COMMIT');
    } finally {
      await reader.client.end();
    }
    assert.deepEqual(await root.run('SELECT data FROM days'), [[4]]);
    assert.deepEqual(await root.run(`SELECT pg_relation_size('days_old') > 0`), [[true]]);
  });

  test('keep does not wait for a locked table, and reports once what it cannot do', async () => {
    await root.run(table('held', '1 minute'));
    await fill('held', 5, '1 hour');
    await mallory.client.query('SELECT 1');
    const holder = new Door(server.socketDir, 'root');
    await holder.client.connect();
    try {
      await holder.client.query('BEGIN; LOCK TABLE held');
      await pass();
      assert.match(String((await kept(root, 'held'))[0]?.[2]), /somebody holds a lock/);
      await holder.client.query('COMMIT');
    } finally {
      await holder.client.end();
    }
    await root.run(`CREATE TABLE untimed (data JSONB) WITH (connector = 'webhook');
      ALTER TABLE untimed SET (keep = '1 day'); ALTER TABLE held ALTER arrived TYPE timestamp`);
    await pass();
    await pass();
    for (const name of ['held', 'untimed']) {
      const found = (await kept(root, name)).filter(([, , why]) => !String(why).includes('a lock'));
      assert.deepEqual([found.length, found[0]?.[0]], [1, 0], name);
      assert.match(String(found[0]?.[2]), /INCLUDE TIMESTAMP/);
    }
    assert.equal(await count('held'), 5);
  });

  test('keep passes over rows that a worker has locked', async () => {
    for (const [name, door, more] of [
      ['jobs', root, ''],
      ['her_jobs', mallory, 'CREATE INDEX ON her_jobs (arrived)'],
    ] as const) {
      await door.run(`${table(name, '5 rows')}; ${more}`);
      await fill(name, 41, '1 hour');
      await root.run(`ANALYZE ${name}`);
      const worker = new Door(server.socketDir, 'root');
      await worker.client.connect();
      try {
        await worker.client.query(`BEGIN; SELECT FROM ${name} WHERE data IN ('41', '40') FOR UPDATE`);
        await pass();
        // The oldest are held, and stay.
        assert.deepEqual(await root.run(`SELECT array_agg(data::int ORDER BY data::int) FROM ${name}`), [
          [[1, 2, 3, 4, 5, 40, 41]],
        ]);
        await worker.client.query('COMMIT');
      } finally {
        await worker.client.end();
      }
      await root.run(`ANALYZE ${name}`);
      await pass();
      assert.equal(await count(name), 5);
    }
  });

  test('keep by age works for an owner without the right to lock rows', async () => {
    await mallory.run(`${table('fixed', '1 hour')}; REVOKE UPDATE ON fixed FROM mallory`);
    await fill('fixed', 5, '2 hours');
    await pass();
    assert.deepEqual([await count('fixed'), (await kept(mallory, 'fixed'))[0]?.[0]], [0, 5]);
  });

  test('keep with keep_if leaves the other rows, also in an expired partition', async () => {
    await root.run(`CREATE TABLE queue (data JSONB, done_at TIMESTAMPTZ) INCLUDE TIMESTAMP AS arrived PARTITION BY RANGE (arrived)
      WITH (connector = 'webhook', document = 'data', keep = '12 hours', keep_if = 'done_at IS NOT NULL')`);
    await root.run(`CREATE TABLE queue_old PARTITION OF queue FOR VALUES FROM (MINVALUE) TO ('2025-01-01')`);
    await root.run(
      `INSERT INTO queue SELECT to_jsonb(g), CASE WHEN g % 2 = 0 THEN now() END, '2024-12-31' FROM generate_series(1, 10) g`,
    );
    await pass();
    assert.deepEqual(await root.run('SELECT data::int FROM queue ORDER BY data::int'), [
      [1],
      [3],
      [5],
      [7],
      [9],
    ]);
    assert.match(
      String((await root.run('SHOW CREATE TABLE queue'))[0]?.[1]),
      /keep_if = 'done_at IS NOT NULL'/,
    );
    // The column goes: nothing is removed, and the owner is told.
    await root.run('UPDATE queue SET done_at = now(); ALTER TABLE queue RENAME done_at TO finished_at');
    await pass();
    assert.equal(await count('queue'), 5);
    assert.match(String((await kept(root, 'queue')).at(-1)?.[2]), /column "done_at" does not exist/);
    await root.run(`ALTER TABLE queue SET (keep_if = '')`);
    await pass();
    assert.equal(await count('queue'), 0);
  });

  test('keep_if that is no condition is refused by ALTER TABLE, and not run if the catalog has it', async () => {
    await mallory.run(
      `${table('hers_if', '1 hour')}; CREATE FUNCTION public.spy() RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
    );
    const set = (value: string) => mallory.run(`ALTER TABLE hers_if SET (keep_if = '${value}')`);
    await assert.rejects(set('public.spy()'), /it may not have \./);
    await assert.rejects(set('spy()'), /it may not call spy/);
    await assert.rejects(set('true); DROP TABLE hers_if; --'), /a parenthesis/);
    await assert.rejects(set('nothing IS NULL'), /column "nothing" does not exist/);
    await assert.rejects(set('data'), /must be type boolean/);
    await fill('hers_if', 3, '2 hours');
    // Past the SQL port: the catalog takes it, and it is not run.
    await mallory.client.query(
      `CALL headgate.alter_options('hers_if', 'hers_if', false, '{"keep_if": "public.spy()"}', NULL)`,
    );
    await pass();
    assert.equal(await count('hers_if'), 3);
    assert.match(String((await kept(mallory, 'hers_if')).at(-1)?.[2]), /keep_if is no condition on a row/);
  });

  test("keep_if runs no cast of another role in a superuser's session", async () => {
    await mallory.run(`CREATE TYPE "it""s" AS (n INT); CREATE TABLE ran (who TEXT); GRANT INSERT ON ran TO PUBLIC;
      CREATE FUNCTION public.told("it""s") RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.ran VALUES (current_user); RETURN 'x'; END $$;
      CREATE CAST ("it""s" AS text) WITH FUNCTION public.told("it""s") AS IMPLICIT`);
    await root.run(`CREATE TYPE state AS ENUM ('open', 'done');
      CREATE TABLE cast_if (data JSONB, "a""B" "it""s", state state) INCLUDE TIMESTAMP AS arrived
      WITH (connector = 'webhook', document = 'data', keep = '1 hour', keep_if = '"a""B" || state = ''xdone''')`);
    await root.run(`INSERT INTO cast_if VALUES ('1', '(1)', 'done', now() - interval '2 hours')`);
    await pass();
    assert.equal(await count('cast_if'), 1);
    assert.deepEqual(await root.run('SELECT * FROM ran'), []);
    assert.match(String((await kept(root, 'cast_if')).at(-1)?.[2]), /its casts could be code/);
    await root.run(`ALTER TABLE cast_if SET (keep_if = 'STATE = ''done''')`);
    await pass();
    assert.equal(await count('cast_if'), 0);
  });
});
