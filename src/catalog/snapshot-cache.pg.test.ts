/**
 * Reading only what has changed gives the same result as reading everything, after each of many statements on the tables and on what they consist of.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Client } from 'pg';
import type { ClientBase } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { Door, webhook } from '../../test/support/ddl-door.ts';
import { described, pictureOf, update, watcherOf } from '../../test/support/picture.ts';
import type { QueryHooks } from '../../test/support/picture.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from './migrate.ts';
import type { CatalogRow } from './catalog-rows.ts';
import { pollAndWatch, pollVersions, versionsOf, watchedStates } from './version-poll.ts';

const others = 9;
const none = { snapshot: '', fingerprint: '' };

suite('a catalog snapshot that rereads changed tables only is complete', () => {
  let server: TestServer;
  let root: Door;
  let reader: Door;
  /** What was asked over the reader's connection. */
  const asked: string[] = [];
  const readsAll = () => {
    const lists = asked.splice(0).map((text) => /table_versions\('\{([\d,]+)/.exec(text)?.[1] ?? '');
    return (
      lists
        .join(',')
        .split(',')
        .filter((oid) => oid !== '').length >= others
    );
  };

  before(async () => {
    server = await startServer(process.env['HEADGATE_TEST_BIN']);
    [root, reader] = ['root', 'root'].map((user) => new Door(server.socketDir, user)) as [Door, Door];
    for (const door of [root, reader]) await door.client.connect();
    await migrate(root.client, readMigrations());
    // So that what changes is less than half.
    for (let i = 0; i < others; i++) await root.run(webhook(`another_${i}`));
    const { client } = reader;
    const query = client.query.bind(client) as (given: unknown, ...rest: unknown[]) => unknown;
    Object.assign(client, {
      query: (given: string | { text: string }, ...rest: unknown[]) => {
        asked.push(typeof given === 'string' ? given : given.text);
        return query(given, ...rest);
      },
    });
  });
  after(async () => {
    for (const door of [root, reader]) await door.client.end();
    await server.close();
  });

  const sessionOf = async (t: TestContext) => {
    const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
    onEnd(t, 'session', () => client.end());
    return client;
  };

  test('an incremental catalog snapshot equals a complete one', async (t) => {
    for (const name of ['a', 'b', 'c', 'd']) await root.run(webhook(name));
    await root.run(`CREATE ROLE alice LOGIN; CREATE ROLE carol; GRANT CREATE ON SCHEMA public TO alice;
      CREATE TYPE mood AS ENUM ('x'); CREATE DOMAIN score AS int DEFAULT 1; CREATE SCHEMA other;
      CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`);
    const [some, all] = [pictureOf({}), pictureOf({ catalogTablesMax: 7 })];
    await update(some, reader.client);
    assert.equal(some.tables.snapshot.tables.size, others + 4);
    readsAll();
    const own = await sessionOf(t);
    const versions = async () =>
      (await root.client.query('SELECT * FROM headgate.table_versions() AS v ORDER BY 1')).rows;
    const steps = [
      webhook('e'),
      "CREATE SECRET s WITH (backend = 'meta') AS 'one'",
      "ALTER TABLE a VALIDATE SECRET s AS a = 'b'",
      "ALTER SECRET s AS 'two'",
      'ALTER TABLE a RENAME TO a2',
      'ALTER TABLE a2 RENAME data TO body',
      'ALTER TABLE b ADD m mood, ADD n score, ADD id int',
      'ALTER TYPE mood RENAME TO temper',
      'ALTER DOMAIN score SET DEFAULT 2',
      'ALTER TABLE b ADD PRIMARY KEY (id)',
      'ALTER TABLE b DROP CONSTRAINT b_pkey',
      'CREATE TRIGGER noted BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION noted()',
      'ALTER TABLE c ADD CHECK (data IS NOT NULL)',
      'CREATE INDEX ON c ((data ->> $$x$$))',
      'ALTER TABLE c DISABLE TRIGGER noted',
      'ALTER TABLE c ENABLE ROW LEVEL SECURITY',
      'GRANT SELECT ON c TO carol',
      "ALTER TABLE c ALTER data SET DEFAULT '{}'",
      'DROP INDEX c_expr_idx',
      'DROP TRIGGER noted ON c',
      'ALTER TABLE c OWNER TO alice',
      'ALTER ROLE alice RENAME TO alicia',
      'GRANT carol TO alicia',
      'ALTER ROLE alicia SUPERUSER',
      'ALTER ROLE alicia NOSUPERUSER',
      `CREATE TABLE p (data jsonb, id int) PARTITION BY RANGE (id) WITH (connector = 'webhook')`,
      'CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9)',
      'ALTER TABLE p1 OWNER TO alicia',
      'ALTER TABLE p DETACH PARTITION p1',
      'ALTER TABLE d SET SCHEMA other',
      'ALTER SCHEMA other RENAME TO another',
      "ALTER TABLE another.d ANSWER UNCHECKED WHEN headers->>'a' = 'b' STATUS 204",
      `CREATE SECRET rw WITH (backend = 'meta') AS 'postgresql://root:one@rw:4566/dev'`,
      `CREATE TABLE i (data JSONB) WITH (connector = 'webhook', into = 'rw')`,
      `ALTER SECRET rw AS 'postgresql://root:two@rw:4566/dev'`,
      'ALTER TABLE i OWNER TO carol',
      'GRANT root TO carol',
      'REVOKE root FROM carol',
      'DROP TABLE i',
      // What cannot be used, and can be again; what is too large to be read, and is not any more.
      'ALTER TABLE e ALTER data TYPE int USING NULL',
      'ALTER TABLE e ALTER data TYPE jsonb USING NULL',
      `ALTER TABLE e ADD large text, ALTER large SET DEFAULT '${'x'.repeat(2_300_000)}'`,
      'ALTER TABLE e DROP large',
      'DROP TABLE e',
      'DROP TABLE b, p',
      'ALTER TABLE a2 DROP VALIDATE',
    ];
    for (const step of steps) {
      const told = step.slice(0, 100);
      const [{ watch: watching }, before] = [await pollAndWatch(own, none), await versions()];
      assert(watching !== null);
      assert.deepEqual(await watchedStates(own, watching.parts), watching.states, told);
      await root.run(step);
      // What the session is told of is all that PostgreSQL's rows tell of.
      if (!isDeepStrictEqual(await versions(), before))
        assert.notDeepEqual(await watchedStates(own, watching.parts), watching.states, told);
      const kept = some.tables.snapshot.tables.get('public\0c');
      await update(some, reader.client);
      assert.deepEqual([...some.tables.doubts], [], told);
      assert.ok(!readsAll(), told);
      all.begin();
      await update(all, root.client);
      assert.deepEqual(described(some.tables.snapshot), described(all.tables.snapshot), told);
      if (step.includes('large text'))
        assert.match(some.tables.snapshot.unusable.get('public\0e') ?? '', /too much/);
      if (/^\w+ TABLE [abep]/.test(step))
        assert.equal(some.tables.snapshot.tables.get('public\0c'), kept, told);
    }
    // A later Headgate replaces views while this one runs.
    const { rows } = await root.client.query<{ text: string }>(
      `SELECT pg_get_viewdef('headgate.catalog_rows'::regclass) AS text`,
    );
    const [text = ''] = (rows[0]?.text ?? '').split(';');
    await root.client.query(
      `CREATE OR REPLACE VIEW headgate.catalog_rows AS SELECT r.*, 1 AS later FROM (${text}) AS r WHERE r.table_name <> 'c'`,
    );
    all.begin();
    await update(all, root.client);
    assert.equal(all.tables.snapshot.tables.size, some.tables.snapshot.tables.size - 1);
    await root.client.query(
      `CREATE OR REPLACE VIEW headgate.catalog_rows AS SELECT r.*, 1 AS later FROM (${text}) AS r`,
    );
    assert.deepEqual(
      [...some.tables.snapshot.tables.keys()].filter((key) => !key.includes('another_')).toSorted(),
      ['another\0d', 'public\0a2', 'public\0c'],
    );
  });

  test('a catalog snapshot rereads changed and doubtful tables at each look, and all tables periodically', async () => {
    let nowMs = 0;
    const picture = pictureOf({ catalogWholeMs: 1_000 }, () => nowMs);
    await update(picture, reader.client);
    assert.ok(readsAll());
    assert.equal(await update(picture, reader.client), null);
    assert.equal(await update(picture, reader.client), null);
    // Of a function nobody tells.
    await root.run('CREATE FUNCTION one() RETURNS int LANGUAGE sql AS $$SELECT 1$$');
    await root.run("CREATE TABLE typed (n int DEFAULT one()) WITH (connector = 'webhook')");
    await update(picture, reader.client);
    const typed = () => picture.tables.snapshot.tables.get('public\0typed');
    await root.run('ALTER FUNCTION one RENAME TO two');
    assert.equal(await update(picture, reader.client), null);
    picture.doubt(typed()?.oid ?? 0);
    assert.ok((await update(picture, reader.client)) !== null);
    assert.match(JSON.stringify(typed()?.shape), /two\(\)/);
    await root.run('ALTER FUNCTION two RENAME TO three');
    assert.ok(!readsAll());
    nowMs = 2_000;
    assert.ok((await update(picture, reader.client)) !== null);
    assert.ok(readsAll());
    assert.match(JSON.stringify(typed()?.shape), /three\(\)/);
    nowMs = 2_500;
    assert.equal(await update(picture, reader.client), null);
    picture.begin();
    await update(picture, reader.client);
    assert.ok(readsAll(), 'another connection');
  });

  test('the catalog row of a table dropped unnoticed just before a look is gone after the next look', async () => {
    await root.run('ALTER EVENT TRIGGER headgate_drop DISABLE');
    const left = async () =>
      (
        await root.run(
          'SELECT FROM headgate.webhook_table w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation)',
        )
      ).length;
    const dropping = {
      query: async (given: string | { text: string }) => {
        const answer = await reader.client.query(given as string);
        if (typeof given === 'object' && given.text.includes('headgate.settle'))
          await root.run('DROP TABLE gone');
        return answer;
      },
    } as unknown as ClientBase;
    try {
      const picture = pictureOf({ catalogWholeMs: 1_000 });
      await update(picture, reader.client);
      await root.run(webhook('gone'));
      await update(picture, dropping);
      assert.equal(await left(), 1);
      await update(picture, reader.client);
      assert.equal(await left(), 0);
      // Also where it goes before there is anything to compare with.
      await root.run(webhook('gone'));
      const first = pictureOf({ catalogWholeMs: 1_000 });
      await root.run('DROP TABLE gone');
      await update(first, reader.client);
      assert.equal(await left(), 0);
      await update(first, reader.client);
      assert.equal(await update(first, reader.client), null);
    } finally {
      await root.run('ALTER EVENT TRIGGER headgate_drop ENABLE');
    }
  });

  test("tables and partitions created while the catalog's watch is being prepared are watched too", async (t) => {
    await root.run(
      `CREATE TABLE parted (data jsonb, id int) PARTITION BY RANGE (id) WITH (connector = 'webhook')`,
    );
    await root.run('CREATE TABLE part (data jsonb, id int)');
    const attach = 'ALTER TABLE parted ATTACH PARTITION part FOR VALUES FROM (0) TO (9)';
    for (const at of [0, 1, 2])
      for (const [came, change] of [
        [webhook(`late_${at}`), `ALTER TABLE late_${at} RENAME data TO body`],
        [attach, 'ALTER TABLE part ADD CHECK (id <> 5)'],
      ] as const) {
        const own = await sessionOf(t);
        let count = 0;
        const query = own.query.bind(own) as (text: string) => Promise<unknown>;
        const slowly = async (text: string) => {
          const answer = await query(text);
          if (count++ === at) await root.run(came);
          return answer;
        };
        const { watch: watching } = await pollAndWatch({ query: slowly } as unknown as ClientBase, none);
        assert(watching !== null);
        await root.run(change);
        assert.notDeepEqual(await watchedStates(own, watching.parts), watching.states, `${change}, ${at}`);
        if (came === attach) await root.run('ALTER TABLE parted DETACH PARTITION part');
      }
    await root.run('DROP TABLE parted, part');
  });

  /** Called once, when `isDue` says so of a query. */
  const once = (isDue: (text: string) => boolean, run: () => Promise<unknown>) => {
    let isDone = false;
    return async (text: string) => {
      if (isDone || !isDue(text)) return;
      isDone = true;
      await run();
    };
  };
  const isReading = (text: string) => /table_versions\('\{\d/.test(text);

  test('a table changed between a catalog look and its reading does not stay in doubt', async (t) => {
    await root.run(webhook('twice'));
    const hooks: QueryHooks = {};
    const { watcher, settled, table } = await watcherOf(t, () => sessionOf(t), hooks);
    hooks.before = once(isReading, () => root.run('ALTER TABLE twice RENAME one TO two'));
    await root.run('ALTER TABLE twice RENAME data TO one');
    await settled();
    assert.equal(table('twice')?.shape.columns[0]?.name, 'two');
    await settled();
    // A commit has found what no version says.
    watcher.picture.doubt(table('twice')?.oid ?? 0);
    await settled();
    assert.deepEqual([...watcher.picture.tables.doubts], []);
  });

  test('a table dropped during its reading is gone from the catalog after the next look', async (t) => {
    await root.run(webhook('short_lived'));
    const hooks: QueryHooks = {};
    const { watcher, settled, table } = await watcherOf(t, () => sessionOf(t), hooks);
    let drop = async () => {
      await root.run('DROP TABLE short_lived');
      await watcher.ask();
    };
    hooks.after = async (text) => {
      if (!isReading(text)) return;
      const now = drop;
      drop = () => Promise.resolve();
      await now();
    };
    await root.run('ALTER TABLE short_lived RENAME data TO one');
    for (let i = 0; i < 3; i++) await settled();
    assert.equal(table('short_lived'), undefined);
    assert.deepEqual([...watcher.picture.tables.doubts], []);
  });

  test('the first catalog look forgets a table dropped since an earlier process stored its row', async () => {
    await root.run(webhook('gone_by_now'));
    const earlier = pictureOf({});
    await update(earlier, reader.client);
    const rows = [...earlier.tables.snapshot.sources.values()].map((row) => JSON.parse(row) as CatalogRow);
    await root.run('DROP TABLE gone_by_now');
    const key = 'public\0gone_by_now';
    for (const when of ['before the look', 'behind it'] as const) {
      const later = pictureOf({});
      if (when === 'before the look') {
        assert.ok(later.remember(rows));
        assert.ok(later.tables.snapshot.tables.has(key));
      }
      later.compare(await pollVersions(reader.client, later.mark));
      assert.equal(later.remember(rows), false);
      await later.read(reader.client);
      assert.equal(later.tables.snapshot.tables.get(key), undefined, when);
      assert.equal(later.tables.snapshot.tables.size, earlier.tables.snapshot.tables.size - 1);
    }
  });

  test('a partition attached between a catalog look and its reading, or just before the look, is watched', async (t) => {
    await root.run('CREATE ROLE dave; CREATE TABLE late_part (data jsonb, n int)');
    for (const when of ['watched', 'looked'] as const) {
      await root.run(
        `CREATE TABLE late_parted (data jsonb, id int) PARTITION BY RANGE (id) WITH (connector = 'webhook')`,
      );
      const hooks: QueryHooks = {};
      const { watcher, settled, table } = await watcherOf(t, () => sessionOf(t), hooks);
      const isDue = when === 'looked' ? isReading : (text: string) => text.includes('headgate.look(');
      hooks.before = once(isDue, () =>
        root.run('ALTER TABLE late_parted ATTACH PARTITION late_part FOR VALUES FROM (0) TO (9)'),
      );
      await root.run('ALTER TABLE late_parted RENAME id TO n');
      await settled();
      await settled();
      await root.run('ALTER TABLE late_part OWNER TO dave');
      await settled();
      const oids = [table('late_parted')?.oid ?? 0];
      const versions = await versionsOf(root.client, { oids, names: [] });
      assert.ok(watcher.picture.isAsRead(oids, versions), when);
      await root.run('DROP TABLE late_parted; CREATE TABLE late_part (data jsonb, n int)');
    }
    await root.run('DROP TABLE late_part; DROP ROLE dave');
  });

  test('a catalog row read during a temporary rename is read again', async () => {
    await root.run(`CREATE ROLE erin; ${webhook('owned')}; ALTER TABLE owned OWNER TO erin`);
    const picture = pictureOf({});
    await update(picture, reader.client);
    await root.run('ALTER TABLE owned ADD more int');
    const meanwhile = once(isReading, () => root.run('ALTER ROLE erin RENAME TO frank'));
    const client = {
      query: async (given: string | { text: string }) => {
        await meanwhile(typeof given === 'string' ? given : given.text);
        return reader.client.query(given as string);
      },
    } as unknown as ClientBase;
    await update(picture, client);
    const owner = () => picture.tables.snapshot.tables.get('public\0owned')?.code.ownerName;
    assert.equal(owner(), 'frank');
    await root.run('ALTER ROLE frank RENAME TO erin');
    await update(picture, reader.client);
    assert.equal(owner(), 'erin');
    assert.deepEqual([...picture.tables.doubts], []);
    await root.run('DROP TABLE owned; DROP ROLE erin');
  });

  test('a catalog look uses indexes only, even with a plan prepared before tables existed', async () => {
    await root.client.query('CREATE DATABASE planned');
    const own = new Client({ host: server.socketDir, user: 'root', database: 'planned' });
    await own.connect();
    try {
      await migrate(own, readMigrations());
      const versions = async () => [...((await pollVersions(own, none))?.versions?.entries() ?? [])];
      assert.equal((await versions()).length, 1);
      await own.query(`DO $$ BEGIN FOR i IN 1 .. 200 LOOP
        EXECUTE format('CREATE SCHEMA s_%s; CREATE TABLE s_%1$s.t (id int PRIMARY KEY, c information_schema.yes_or_no, d text DEFAULT $d$x$d$)', i);
        INSERT INTO headgate.webhook_table (relation, payload, options, includes) VALUES (('s_' || i || '.t')::regclass, 'd', '{}', '[]');
      END LOOP; END $$`);
      await own.query('BEGIN');
      const scans = async () =>
        (
          await own.query<{
            scans: number;
          }>(`SELECT pg_stat_get_xact_numscans(c.name::regclass)::int AS scans FROM unnest(
            '{pg_class,pg_attribute,pg_attrdef,pg_type,pg_namespace,pg_index}'::text[]) AS c (name)`)
        ).rows;
      const earlier = await scans();
      const before = await versions();
      assert.equal(before.length, 201);
      assert.deepEqual(await scans(), earlier);
      // Types of PostgreSQL's own.
      await own.query(`ALTER DOMAIN information_schema.yes_or_no SET DEFAULT 'NO'`);
      const after = await versions();
      for (const [i, [oid, version]] of after.entries())
        if (oid !== 0) assert.notEqual(version, before[i]?.[1]);
      await own.query('ROLLBACK');
    } finally {
      await own.end();
    }
  });

  test('a catalog look at some tables agrees with a look at all, and matches names exactly', async () => {
    const long = 'n'.repeat(63);
    for (const name of ['seen', long, 'Quoted']) await root.run(webhook(`"${name}"`));
    await root.run('CREATE TABLE ordinary (id int)');
    const { rows: all } = await root.client.query<{ name: string; relation: number; version: string }>(
      `SELECT c.relname AS name, v.* FROM headgate.table_versions() v JOIN pg_class c ON c.oid = v.relation`,
    );
    const of = (name: string) => all.filter((row) => row.name === name);
    const seen = of('seen')[0]?.relation ?? 0;
    const found = async (oids: number[], tables: string[]) => {
      const names = tables.map((table) => ({ schema: 'public', table }));
      return [...(await versionsOf(root.client, { oids, names }))].toSorted(([a], [b]) => a - b);
    };
    assert.deepEqual(
      await found([seen, 1], [long, 'Quoted', 'quoted', `${long}n`, 'ordinary', 'seen', `'); --`]),
      ['seen', long, 'Quoted'].flatMap((name) => of(name).map((row) => [row.relation, row.version])),
    );
    assert.deepEqual(await found([], ['ordinary', 'nowhere']), []);
    await root.run('ALTER TABLE seen ADD COLUMN more int');
    const [[oid, version] = []] = await found([seen], []);
    assert.equal(oid, seen);
    assert.notEqual(version, of('seen')[0]?.version);
  });
});
