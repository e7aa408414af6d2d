import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Client } from 'pg';
import type { QueryResult } from 'pg';
import { someVersion } from '../../test/support/sample.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { summary } from '../../test/support/webhook-targets.ts';
import { limits } from '../config/limits.ts';
import { KnownRelations } from '../relations/known-relations.ts';
import { PostgresLookup } from './relations.ts';
import type { Query } from './relations.ts';
import type { WriteMode } from './relations.ts';

function relationsOn(bin: string): void {
  let server: TestServer;
  let client: Client;
  let now = 0;
  let asked = 0;
  /** What the server gives a client: SET below. */
  const path = 'app, public';

  const query: Query = async (sql) => {
    asked++;
    const results = (await client.query<object>(sql(path))) as unknown as QueryResult<object>[];
    return results.at(-1)?.rows ?? [];
  };
  const open = (bounds: { relationsMax?: number } = {}) =>
    new KnownRelations(new PostgresLookup('postgres', query, false), {
      limits: { ...limits, ...bounds },
      clock: () => now,
    });

  before(async () => {
    server = await startServer(bin);
    client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
    await client.connect();
    await client.query(`CREATE SCHEMA app; CREATE SCHEMA "Odd"; SET search_path TO app, public;
      CREATE TYPE app.mood AS ENUM ('ok');
      CREATE TABLE public.orders (id int PRIMARY KEY, m app.mood, at timestamptz DEFAULT now(), g int GENERATED ALWAYS AS (1) STORED);
      CREATE TABLE "Odd"."Na.me" (x int);
      CREATE TABLE logged (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text);
      CREATE TABLE parted (k text, d date, v json, PRIMARY KEY (d, k)) PARTITION BY RANGE (d);
      CREATE VIEW seen AS SELECT id AS n, m, id + 1 AS next FROM public.orders;
      CREATE VIEW summed AS SELECT count(*) AS n FROM public.orders;
      CREATE MATERIALIZED VIEW kept AS SELECT 1 AS n; CREATE SEQUENCE counter; CREATE TEMP TABLE passing (x int);
      CREATE TABLE bare (); CREATE SCHEMA headgate; CREATE TABLE headgate.secret (x int)`);
  });
  after(async () => {
    await client.end();
    await server.close();
  });

  const found: readonly (readonly [string, WriteMode, string, string])[] = [
    [
      'orders',
      'insert',
      'public.orders',
      'insert (id integer, m app.mood, at timestamp with time zone = now()) key (id)',
    ],
    [
      'ORDERS',
      'upsert',
      'public.orders',
      'upsert (id integer, m app.mood, at timestamp with time zone = now()) key (id)',
    ],
    [
      ' "public" . orders',
      'ignore',
      'public.orders',
      'ignore (id integer, m app.mood, at timestamp with time zone = now()) key (id)',
    ],
    ['"Odd"."Na.me"', 'insert', 'Odd.Na.me', 'insert (x integer)'],
    ['logged', 'insert', 'app.logged', 'insert (what text)'],
    ['app.parted', 'upsert', 'app.parted', 'upsert (k text, d date, v json) key (d, k)'],
    ['seen', 'insert', 'app.seen', 'insert (n integer, m app.mood)'],
  ];
  for (const [name, way, table, expected] of found) {
    test(`the gateway finds relation ${name} for ${way}`, async () => {
      const target = await open().find(name, way);
      assert.equal(`${target.schema}.${target.table}`, table);
      assert.equal(summary(target), expected);
      assert.equal(
        (await client.query<{ search_path: string }>('SHOW search_path')).rows[0]?.search_path,
        'app, public',
      );
    });
  }

  const refused: readonly (readonly [string, WriteMode, string])[] = [
    ['nosuch', 'insert', 'relation_not_found'],
    ['"ORDERS"', 'insert', 'relation_not_found'],
    ['', 'insert', 'relation_not_found'],
    ['a.b.c.d', 'insert', 'relation_not_found'],
    ['elsewhere.public.orders', 'insert', 'relation_not_found'],
    ['orders; DROP TABLE orders', 'insert', 'relation_not_found'],
    ['1259', 'insert', 'relation_not_found'],
    ['a\0b', 'insert', 'relation_not_found'],
    ['\ud800', 'insert', 'relation_not_found'],
    ['pg_class', 'insert', 'relation_not_found'],
    ['information_schema.sql_features', 'insert', 'relation_not_found'],
    ['headgate.secret', 'insert', 'relation_not_found'],
    ['passing', 'insert', 'relation_not_found'],
    ['summed', 'insert', 'relation_not_writable'],
    ['kept', 'insert', 'relation_not_writable'],
    ['counter', 'insert', 'relation_not_writable'],
    ['bare', 'insert', 'relation_not_writable'],
    ['seen', 'upsert', 'key_missing'],
    ['logged', 'ignore', 'key_missing'],
    ['"Odd"."Na.me"', 'upsert', 'key_missing'],
  ];
  for (const [name, way, code] of refused) {
    test(`the gateway refuses relation ${JSON.stringify(name)} for ${way} with ${code}`, async () => {
      await assert.rejects(
        async () => open().find(name, way),
        (error: Error & { refusal?: { code: string } }) => {
          assert.equal(error.refusal?.code, code, error.message);
          return true;
        },
      );
    });
  }

  test('the gateway remembers found relations briefly and in a bounded number, and looks up missing ones again', async () => {
    const relations = open({ relationsMax: 2 });
    const asks = async (run: () => unknown): Promise<number> => {
      const start = asked;
      await run();
      return asked - start;
    };
    const first = await relations.find('orders', 'upsert');
    assert.equal(await asks(() => relations.find('orders', 'insert')), 0);
    assert.equal(await relations.find('orders', 'upsert'), first);
    relations.forget('orders');
    assert.equal(await asks(() => relations.find('orders', 'upsert')), 1);
    now += limits.relationAgeMs;
    const again = await relations.find('orders', 'upsert');
    now += limits.relationAgeMs;
    assert.equal(await relations.find('orders', 'upsert'), again, 'what did not change is the same object');
    await client.query('ALTER TABLE public.orders ADD extra int');
    now += limits.relationAgeMs;
    const later = await relations.find('orders', 'upsert');
    assert.notEqual(later.shape.version, again.shape.version);
    assert.equal(later.shape.columns.length, 4);
    await assert.rejects(async () => relations.find('later', 'insert'));
    await client.query('CREATE TABLE public.later (x int)');
    await relations.find('later', 'insert');
    await relations.find('logged', 'insert');
    assert.equal(await asks(() => relations.find('later', 'insert')), 0);
    assert.equal(await asks(() => relations.find('orders', 'insert')), 1, 'the oldest has made room');
  });

  test('concurrent lookups of a relation by the gateway share one query, and relations not found are looked up again', async () => {
    const relations = open();
    const start = asked;
    await Promise.all(Array.from({ length: 50 }, async () => relations.find('orders', 'insert')));
    assert.equal(asked - start, 1);
    const missed = Promise.resolve(relations.find('soon', 'insert'));
    const created = client.query('CREATE TABLE public.soon (x int)');
    const late = relations.find('soon', 'insert');
    await assert.rejects(missed);
    await created;
    assert.equal((await late).table, 'soon');
  });

  test('the gateway refuses a relation that its role may not write, and finds it after the grant', async () => {
    await client.query('CREATE ROLE clerk; CREATE TABLE public.ledger (a int, b int)');
    await client.query('SET ROLE clerk');
    await assert.rejects(async () => open().find('ledger', 'insert'), /may not be written by the role/);
    const grant = async (sql: string) => client.query(`RESET ROLE; ${sql}; SET ROLE clerk`);
    const missing = async (writeMode: 'insert' | 'upsert', says: RegExp) =>
      assert.rejects(async () => open().find('ledger', writeMode), says);
    await grant('GRANT INSERT (a) ON public.ledger TO clerk');
    await missing('insert', /is missing: GRANT INSERT ON TABLE public\.ledger TO "clerk"$/);
    await grant('GRANT INSERT (b) ON public.ledger TO clerk');
    assert.equal((await open().find('ledger', 'insert')).table, 'ledger');
    await grant('ALTER TABLE public.ledger ADD PRIMARY KEY (a)');
    await missing('upsert', /GRANT UPDATE, SELECT ON TABLE public\.ledger TO "clerk"$/);
    await grant('GRANT UPDATE (b), SELECT (a, b) ON public.ledger TO clerk');
    assert.equal((await open().find('ledger', 'upsert')).table, 'ledger');
    await grant('CREATE SCHEMA closed; CREATE TABLE closed.t (a int)');
    await assert.rejects(async () => open().find('closed.t', 'insert'), {
      refusal: {
        code: 'relation_not_writable',
        message: '"closed.t" is in a schema that the role that the gateway logs in as may not use',
      },
    });
    await client.query('RESET ROLE');
  });

  test("an engine error during the gateway's lookup of a table is not reported as a missing table", async () => {
    const refused = () => Promise.reject(Object.assign(new Error('too many connections'), { code: '53300' }));
    const lookup = new PostgresLookup('postgres', refused, false);
    const broken = new KnownRelations(lookup, { limits, clock: () => 0 });
    await assert.rejects(async () => broken.find('orders', 'insert'), /too many connections/);
  });
}

for (const [version, bin] of someVersion())
  suite(`the gateway finds relations on PostgreSQL ${version}`, () => relationsOn(bin));
