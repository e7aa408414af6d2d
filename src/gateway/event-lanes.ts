/**
 * The lanes and connections of the gateway's own that events take into PostgreSQL: as the gateway's role on Headgate's own engine (engine-databases.ts), or for
 * several engines presented as one (external-databases.ts). Takes an engine; returns its lanes, which `closer` closes. Opens connections only when asked.
 */
import type { QueryResult } from 'pg';
import { Lanes } from '../batch/lanes.ts';
import { Commit } from '../commit/commit.ts';
import { connectionOf } from '../commit/commit-connection.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import type { CommitEngine } from '../commit/commit-pools.ts';
import { notConnected } from '../engine/connection-failure.ts';
import { isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import type { Closer } from '../kit/closer.ts';
import type { StageContext } from '../observe/context.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { Query } from './relations.ts';

/** What connections to the gateway's databases are made from. `logsIn`: see CodeChoice.asClient. */
export type GatewayEngine = CommitEngine & { readonly logsIn: boolean | null };

export interface EventParts {
  readonly engine: GatewayEngine;
  /** Resolves if the database exists and its role may work in it; throws Refused. */
  readonly ready: (database: string) => Promise<void>;
  readonly pools: CommitPools;
  readonly lanes: Lanes;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

/** Lanes, connections and a Commit beside those of webhooks. */
export function openEventParts(
  { engine, ready }: Pick<EventParts, 'engine' | 'ready'>,
  { observe, clock, limits: bounds }: StageContext,
  closer: Closer,
  tracer: Pick<Tracer, 'commit'> | null = null,
): EventParts {
  // Its senders wait longer than those of webhooks, all equally long, and no transaction sets a timeout of its own.
  const waits = {
    ackDeadlineMs: bounds.eventsDeadlineMs,
    commitStatementTimeoutMs:
      bounds.eventsDeadlineMs - (bounds.ackDeadlineMs - bounds.commitStatementTimeoutMs),
  };
  const pools = new CommitPools(engine, bounds, undefined, observe, waits.commitStatementTimeoutMs);
  closer.add('commit connections of the gateway', () => pools.close());
  const commit = new Commit({ pools, limits: { ...bounds, ...waits }, observe, clock }, null, tracer);
  const lanes = new Lanes(commit, { limits: bounds, clock });
  closer.add('lanes of the gateway', () => lanes.close());
  return { engine, ready, pools, lanes, clock };
}

/** What the catalog of a database is asked with; each query is a transaction of its own. Rejects with the engine's error, or Refused. */
export function askIn({ ready, pools }: Pick<EventParts, 'ready' | 'pools'>, database: string): Query {
  return async (sql) => {
    await ready(database);
    const client = await pools.connect(database).catch((error: unknown) => {
      throw sqlstateOf(error) === null ? error : notConnected(error);
    });
    try {
      // Several statements in one: a pooler sends them to one session.
      const results: unknown = await client.query(sql(connectionOf(client).facts.path));
      client.release();
      return (results as QueryResult<object>[]).at(-1)?.rows ?? [];
    } catch (error) {
      client.release(isConnectionLost(error));
      throw error;
    }
  };
}
