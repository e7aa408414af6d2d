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
import { startTcpServer } from '../support/tls-server.ts';
import type { TcpServer } from '../support/tls-server.ts';
import { within } from '../support/within.ts';
import type { Condition } from './places.ts';
import type { Place } from './trial.ts';

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

async function openCluster(t: TestContext): Promise<Cluster> {
  const settings = [
    'shared_preload_libraries=citus',
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
  for (const { port } of workers) await run(coordinator, `select citus_add_node('127.0.0.1', ${port})`);
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

async function change(
  post: (table: string, body: string) => Promise<number>,
  direct: Client,
): Promise<string> {
  let id = 1_000_000;
  for (const [table, sql] of changes) {
    await direct.query(sql);
    await within(3_000, async () => {
      id += 1;
      assert.equal(await post(table, `{"id":${id},"n":1}`), 200, `after ${sql}`);
    });
  }
  return 'distributed, taken back and distributed anew';
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
          more: change,
        }),
      },
      {
        name: 'Citus worker',
        open: async (t) => placeOf((await openCluster(t)).workers[0] as TcpServer),
        refused: /worker/,
      },
    ]
  : [];
