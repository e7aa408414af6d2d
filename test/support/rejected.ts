/** The reject room on a real server, with one webhook table, and requests to be refused. */
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import type { KeptRequest, RejectedRequest } from '../../src/types/journal.ts';
import type { Outcome } from '../../src/types/rows.ts';
import type { Target } from '../../src/types/target.ts';
import { limits } from '../../src/config/limits.ts';
import type { Limits } from '../../src/config/limits.ts';
import { refusal } from '../../src/errors/refusals.ts';
import type { RefusalCode } from '../../src/errors/refusals.ts';
import { Rejects } from '../../src/reject/rejected-requests.ts';
import { onEnd } from './cleanup.ts';
import { Spy } from './postgres.ts';
import type { TestServer } from './server.ts';
import { runOurs } from './webhook-tables.ts';
import { readSnapshot } from './webhook-targets.ts';

export interface RoomOptions {
  readonly rowsMax?: number;
  readonly days?: number;
  readonly limits?: Partial<Limits>;
  readonly retry?: (request: KeptRequest) => Promise<Outcome>;
  /** Connects to no server. */
  readonly nowhere?: boolean;
  /** Connects to this port on 127.0.0.1 instead. */
  readonly port?: number;
}

export interface RejectDeps {
  readonly rejects: Rejects;
  readonly spy: Spy;
  /** How many have been counted under that label. */
  readonly counted: (what: 'stored' | 'rate' | 'queue' | 'engine') => number;
  /** Resolves once that many have been counted, under any label. */
  readonly settled: (rows: number) => Promise<void>;
}

const generous = {
  rejectedBurst: 1_000_000,
  rejectedAuthenticBurst: 1_000_000,
  rejectedPerSecond: 1_000_000,
};

export function openRejects(t: TestContext, server: TestServer, options: RoomOptions = {}): RejectDeps {
  const spy = new Spy();
  const rejects = new Rejects({
    engine: {
      clientConfig: (database) => ({
        host: options.nowhere === true ? '/nowhere' : server.socketDir,
        user: 'root',
        database,
        ...(options.port !== undefined && { host: '127.0.0.1', port: options.port }),
      }),
    },
    retry: options.retry ?? (() => Promise.resolve({ kind: 'committed', rows: 1 })),
    stored: () => {},
    rowsMax: options.rowsMax ?? 1_000,
    days: options.days ?? 7,
    limits: { ...limits, ...generous, ...options.limits },
    observe: spy.observe,
    clock: () => performance.now(),
  });
  onEnd(t, 'rejects', () => rejects.close());
  const counted: RejectDeps['counted'] = (what) =>
    spy.seen.reduce((sum, it) => {
      if (it.kind === 'rejected.stored' && what === 'stored') return sum + it.rows;
      return it.kind === 'rejected.dropped' && it.why === what ? sum + it.rows : sum;
    }, 0);
  const all = () => counted('stored') + counted('rate') + counted('queue') + counted('engine');
  const settled = async (rows: number) => {
    while (all() < rows) {
      await spy.nextOf(['rejected.stored', 'rejected.dropped']);
    }
  };
  return { rejects, spy, counted, settled };
}

export async function connect(t: TestContext, server: TestServer): Promise<Client> {
  const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

/** Recreates the table; no refused requests exist then. */
export async function makeTable(client: Client, name: string, rest = ''): Promise<Target> {
  await client.query(`DROP TABLE IF EXISTS "${name}"`);
  await runOurs(client, `CREATE TABLE "${name}" (data jsonb)${rest} WITH (connector = 'webhook')`);
  const { tables } = await readSnapshot(client);
  const target = [...tables.values()].find(({ table }) => table === name);
  if (target === undefined) throw new Error(`${name} is not a webhook table`);
  return target;
}

export function refused(
  target: Target,
  over: Partial<RejectedRequest> & { code?: RefusalCode } = {},
): RejectedRequest {
  const { code = 'body_not_json', ...rest } = over;
  return {
    target,
    refusal: refusal(code),
    door: 'http',
    authenticated: true,
    method: 'POST',
    requestTarget: '/webhook/postgres/public/t',
    rawHeaders: ['X-Some', 'thing'],
    arrivedAtMs: Date.now(),
    remoteAddress: '127.0.0.1',
    body: Buffer.from('no json'),
    ...rest,
  };
}
