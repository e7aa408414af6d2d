/**
 * Citus, where somebody has it: `CITUS_BIN` is the folder of a PostgreSQL's programs that has the extension. A coordinator and two workers on this machine;
 * how it is built is in docs/operating/engines.md.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { within } from '../support/within.ts';
import { cutLinks } from './citus-links.ts';
import type { Condition } from './places.ts';
import type { Place, Post } from './trial.ts';

const { CITUS_BIN: bin = '' } = process.env;
export const hasCitus = existsSync(join(bin, 'postgres'));

interface Cluster {
  readonly coordinator: TcpServer;
  readonly workers: readonly TcpServer[];
}

const at = (server: TcpServer) => ({
  host: server.socketDir,
  port: server.port,
  user: 'root',
  database: 'postgres',
});

async function run(server: TcpServer, ...statements: readonly string[]): Promise<void> {
  const client = new Client(at(server));
  await client.connect();
  try {
    for (const sql of statements) await client.query(sql);
  } finally {
    await client.end();
  }
}

/** `reach`: the port by which the others reach a worker. */
async function openCluster(
  t: TestContext,
  reach: (worker: TcpServer) => number | Promise<number> = ({ port }) => port,
): Promise<Cluster> {
  const settings = [
    'shared_preload_libraries=citus',
    // So that more can fail.
    'citus.enable_unsafe_triggers=on',
    'wal_level=logical',
    'citus.node_conninfo=sslmode=disable',
  ];
  const servers = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const server = await startTcpServer(bin, settings);
      onEnd(t, 'server', () => server.close());
      await run(server, 'create extension citus');
      return server;
    }),
  );
  const [coordinator, ...workers] = servers;
  if (coordinator === undefined) throw new Error('no server');
  await run(coordinator, `select citus_set_coordinator_host('127.0.0.1', ${coordinator.port})`);
  for (const worker of workers)
    await run(coordinator, `select citus_add_node('127.0.0.1', ${await reach(worker)})`);
  return { coordinator, workers };
}

const placeOf = (server: TcpServer): Place => ({
  url: `postgresql://root@127.0.0.1:${server.port}/postgres`,
  direct: () => at(server),
});

/** Citus' own functions, which put another table in the place of one: what comes to it goes on. */
const changes: readonly [table: string, sql: string][] = [
  ['u', `SELECT undistribute_table('hooks.u')`],
  ['u', `SELECT citus_add_local_table_to_metadata('hooks.u')`],
  ['u', `SELECT create_distributed_table('hooks.u', 'id', shard_count => 2, colocate_with => 'none')`],
  ['u', `SELECT alter_distributed_table('hooks.u', shard_count => 8)`],
];

async function change(post: Post, direct: Client): Promise<string> {
  let id = 1_000_000;
  for (const [table, sql] of changes) {
    await direct.query(sql);
    await within(3_000, async () => {
      id += 1;
      assert.equal((await post(table, `{"id":${id},"n":1}`)).status, 200, `after ${sql}`);
    });
  }
  return 'distributed, taken back and distributed anew';
}

/** Beside a row that is refused each request is tried alone: a copy is still answered as the first one. */
async function copies(post: Post, client: Client): Promise<void> {
  await client.query(`CREATE SCHEMA copied; CREATE TABLE copied.t (id INT CHECK (id > 0), x INT)
    WITH (connector = 'webhook', distribute = 'id', shards = 4, dedupe = '$.id')`);
  const ids = Array.from({ length: 20 }, (_, i) => i + 1);
  const send = async (id: number, x = 0) => (await post('copied.t', `{"id":${id},"x":${x}}`)).status;
  await within(5_000, async () => assert.equal(await send(1), 200));
  await Promise.all(ids.map((id) => send(id)));
  const all = [...ids, ...ids.map((id) => id + 20), -1];
  const said = await Promise.all(all.map((id) => send(id)));
  assert.deepEqual(said, [...all.slice(0, -1).map(() => 200), 422]);
  assert.equal(await send(1, 1), 202, 'another body');
  const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM copied.t');
  assert.equal(rows[0]?.n, 40);
  await client.query('DROP SCHEMA copied CASCADE');
}

/** What stands behind CREATE TABLE or ALTER TABLE, and what is shown of it. */
const made: readonly [sql: string, shown: RegExp][] = [
  [
    `CREATE TABLE spread.a (id INT PRIMARY KEY, x TEXT) WITH (connector = 'webhook', distribute = 'id')`,
    /'id',\s+shards = '4'/,
  ],
  [`ALTER TABLE spread.a SET (shards = 3)`, /'id',\s+shards = '3'/],
  [`ALTER TABLE spread.a SET (distribute = 'reference')`, /'reference'/],
  [
    `ALTER TABLE spread.a SET (distribute = 'single', on_type_error = 'null')`,
    /'single',\s+on_type_error = 'null'/,
  ],
  [`ALTER TABLE spread.a SET (distribute = 'off')`, /'webhook',\s+on_type_error/],
  [
    `ALTER TABLE spread.a SET (distribute = 'id', shards = 1)`,
    /'id',\s+on_type_error = 'null',\s+shards = '1'/,
  ],
  [
    `CREATE TABLE spread.b (data JSONB, g BIGINT DEFAULT txid_current()) WITH (connector = 'webhook', distribute = 'g')`,
    /'g'/,
  ],
  [
    `CREATE TABLE spread.c (data JSONB) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook', distribute = 'at')`,
    /'at'/,
  ],
  [
    `CREATE TABLE spread.d (id INT, "single" INT) WITH (connector = 'webhook', distribute = '"single"')`,
    /'"single"'/,
  ],
  [`CREATE TABLE tenant.a (data JSONB) WITH (connector = 'webhook')`, /'schema'/],
  [`CREATE TABLE tenant.b (data JSONB) WITH (connector = 'webhook', distribute = 'off')`, /'webhook'\s+\)/],
];
const refused: readonly [columns: string, options: string, why: RegExp][] = [
  ['id INT PRIMARY KEY, x INT', `distribute = 'x'`, /"x" has to be part of the primary key/],
  ['id INT, x INT UNIQUE', `distribute = 'id'`, /"id" has to be part of the primary key/],
  ['id INT, x INT', `distribute = 'y'`, /"y", by which rows would be distributed, does not exist/],
  ['data JSONB, x INT', `document = 'data', distribute = 'x'`, /no request fills column "x"/],
  ['id INT, x INT GENERATED ALWAYS AS (id) STORED', `distribute = 'x'`, /"x" is generated/],
  ['data JSONB', `distribute = 'schema'`, /schema spread is not distributed/],
];

/** One of each class, and those that mean something to Headgate or to Citus. */
const states = (
  '01000 02000 03000 08000 08006 09000 0A000 0B000 0F000 0L000 0P000 0Z000 20000 21000 22000 22P02 22P04 23000 23502 23505 23514 24000 ' +
  '25000 25006 25P02 25P03 26000 27000 28000 2B000 2D000 2F000 34000 38000 39000 3B000 3D000 3F000 40000 40001 40003 40P01 42000 42501 ' +
  '42P01 44000 53000 53100 53300 54000 55000 55P03 57000 57014 57P01 58000 58030 72000 F0000 HV000 P0000 P0001 P0004 XX000 XX001 HG001 ZZ999'
).split(' ');
const hooks: Readonly<Record<string, (table: string) => string>> = {
  check: (table) => `ALTER TABLE ${table} ADD CHECK (poison.fail(c))`,
  domain: (table) =>
    `CREATE DOMAIN ${table}_word AS text CHECK (poison.fail(value)); ALTER TABLE ${table} ALTER c TYPE ${table}_word`,
  generated: (table) => `ALTER TABLE ${table} ADD made BOOLEAN GENERATED ALWAYS AS (poison.fail(c)) STORED`,
  before: (table) =>
    `CREATE TRIGGER t BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION poison.trigger()`,
  commit: (table) =>
    `CREATE CONSTRAINT TRIGGER t AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION poison.trigger()`,
};
const tables: Readonly<Record<string, string>> = {
  insert: '(id INT, c TEXT)',
  upsert: '(id INT PRIMARY KEY, c TEXT)',
  documents: '(data JSONB, part BIGINT DEFAULT txid_current(), c TEXT)',
};

/** Whatever a row fails with on another server, its sender alone is refused. */
async function poison(post: Post, client: Client): Promise<void> {
  await client.query(`CREATE SCHEMA poison`);
  await client.query(`CREATE FUNCTION poison.fail(v text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
      IF v IS NULL THEN RETURN true; END IF;
      RAISE EXCEPTION 'no' USING ERRCODE = v; END $$`);
  await client.query(`CREATE FUNCTION poison.trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM poison.fail(new.c); RETURN new; END $$`);
  const wrong: string[] = [];
  let ids = 0;
  for (const [way, columns] of Object.entries(tables))
    for (const [hook, make] of Object.entries(hooks)) {
      const table = `poison.${way}_${hook}`;
      const includes = way === 'documents' ? `INCLUDE HEADER 'c' AS c` : '';
      const by = way === 'documents' ? 'part' : 'id';
      const document = way === 'documents' ? `, document = 'data'` : '';
      await client.query(
        `CREATE TABLE ${table} ${columns} ${includes} WITH (connector = 'webhook'${document})`,
      );
      await client.query(make(table));
      await client.query(`ALTER TABLE ${table} SET (distribute = '${by}')`);
      await within(3_000, async () =>
        assert.equal((await post(table, `{"id":${++ids}}`)).status, 200, table),
      );
      const send = async (c: string | null, status: number) => {
        const body = c === null ? `{"id":${++ids}}` : `{"id":${++ids},"c":"${c}"}`;
        const said = await post(table, body, c === null ? {} : { c });
        if (said.status !== status) wrong.push(`${table}: ${c}: ${said.status}`);
      };
      // As many at a time as are told apart before their senders have waited for too long.
      for (let from = 0; from < states.length; from += 8)
        await Promise.all(
          states.slice(from, from + 8).flatMap((c) => [send(null, 200), send(c, 422), send(null, 200)]),
        );
      const { rows } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`);
      if (rows[0]?.n !== 2 * states.length + 1) wrong.push(`${table}: ${rows[0]?.n} rows`);
    }
  assert.deepEqual(wrong, []);
  await client.query('DROP SCHEMA poison CASCADE');
}

async function distribute(post: Post, client: Client): Promise<void> {
  await client.query('CREATE SCHEMA spread; CREATE SCHEMA tenant');
  await client.query(`SELECT citus_schema_distribute('tenant')`);
  await assert.rejects(
    client.query(`CREATE TABLE tenant.a (data JSONB) WITH (connector = 'webhook')`),
    /schema tenant is distributed and has no table/,
  );
  await client.query('CREATE TABLE tenant.first (id INT)');
  for (const [sql, shown] of made) {
    await client.query(sql);
    const [, table = ''] = /TABLE (\S+)/.exec(sql) ?? [];
    const { rows } = await client.query<Record<string, string>>(`SHOW CREATE TABLE ${table}`);
    assert.match(JSON.stringify(rows).replaceAll('\\n', ' ').replaceAll('\\"', '"'), shown, sql);
    await within(3_000, async () =>
      assert.equal((await post(table, '{"id":1,"single":2}')).status, 200, sql),
    );
  }
  for (const [columns, options, why] of refused)
    await assert.rejects(
      client.query(`CREATE TABLE spread.no (${columns}) WITH (connector = 'webhook', ${options})`),
      why,
    );
  await assert.rejects(client.query('ALTER TABLE tenant.b SET (shards = 2)'), /has no shards/);
  await client.query('DROP SCHEMA spread, tenant CASCADE');
}

export const citus: readonly Condition[] = hasCitus
  ? [
      {
        name: 'Citus coordinator, local tables',
        open: async (t) => placeOf((await openCluster(t)).coordinator),
      },
      {
        name: 'Citus coordinator, distributed and reference tables',
        open: async (t) => ({
          ...placeOf((await openCluster(t)).coordinator),
          prepare: [
            `SELECT create_distributed_table('hooks.ledger', NULL, colocate_with => 'none')`,
            `SELECT create_distributed_table('hooks.u', 'id', shard_count => 4, colocate_with => 'none')`,
            `SELECT create_distributed_table('hooks.d', 'id', shard_count => 4, colocate_with => 'none')`,
            `SELECT create_reference_table('hooks.t')`,
          ],
          more: async (post, direct, client) => {
            await distribute(post, client);
            await poison(post, client);
            await copies(post, client);
            return change(post, direct);
          },
        }),
      },
      {
        name: 'Citus, each answer of a worker cut off',
        open: async (t) => {
          const proxies: FaultyProxy[] = [];
          const { coordinator } = await openCluster(t, async ({ port }) => {
            const proxy = await FaultyProxy.open(
              { kind: 'tcp', host: '127.0.0.1', port, tls: false },
              'citus_internal',
            );
            onEnd(t, 'proxy', () => proxy.close());
            proxies.push(proxy);
            return proxy.port;
          });
          const more: Place['more'] = (post, direct, client) =>
            cutLinks(proxies[0] as FaultyProxy, post, client, direct);
          return { ...placeOf(coordinator), more };
        },
      },
      {
        name: 'Citus worker',
        open: async (t) => placeOf((await openCluster(t)).workers[0] as TcpServer),
        refused: /worker/,
      },
    ]
  : [];
