/**
 * Connects the rooms that POST /v1/events passes through: relations of the catalog, the decode room, lanes and the
 * commit room. Takes an engine (Headgate's own, or several presented as one), returns EventDeps; opens connections only
 * when asked.
 */
import type { PoolClient, QueryResult } from 'pg';
import { Lanes, nothingExpected } from '../batch/lanes.ts';
import { openRelations } from '../catalog/relations.ts';
import { Commit } from '../commit/commit.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import type { CommitEngine } from '../commit/commit-pools.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import type { OwnerLogins } from '../engine/owner-logins.ts';
import { factsOf } from '../commit/session-properties.ts';
import { askOn } from '../commit/transaction-status.ts';
import { failedHere, isInDoubt, verdictOf } from '../commit/error-cause.ts';
import { isVersionMissing, misfitRefusal, rowRefusal } from '../commit/refusal-messages.ts';
import { partMessages, streamStatements } from '../commit/stream-statements.ts';
import { decodeGoodLines, decodeLines, decodeObject } from '../decode/batches.ts';
import { scanJson } from '../decode/json-scan.ts';
import { LineSplitter } from '../decode/line-splitter.ts';
import type { Engine } from '../engine/engine.ts';
import type { GatewayRole } from '../engine/gateway-role.ts';
import { notConnected } from '../engine/connection-refusal.ts';
import { isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import { streamEvents } from '../gateway/events-stream.ts';
import { within } from '../kit/timeout.ts';
import type { Column } from '../types/shape.ts';
import type { EventCodec, EventDeps, EventStreamDeps, FailedRow, OnConflict } from '../gateway/event-deps.ts';
import type { NamedEngine } from './wire-gateway.ts';
import { engineOf } from './wire-gateway.ts';
import type { Closer } from '../kit/closer.ts';
import { resources } from '../kit/cores.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';

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

/** For a gateway in front of other databases, or with another role: what it uses instead of Headgate's own lanes. */
export function openEventParts(
  { engine, ready }: Pick<EventParts, 'engine' | 'ready'>,
  observe: Observe,
  clock: () => number,
  closer: Closer,
  bounds: Limits = limits,
): EventParts {
  // Its senders wait longer than those of webhooks, all equally long, and no transaction sets a timeout of its own.
  const waits = {
    ackDeadlineMs: bounds.eventsDeadlineMs,
    commitStatementTimeoutMs:
      bounds.eventsDeadlineMs - (bounds.ackDeadlineMs - bounds.commitStatementTimeoutMs),
  };
  const pools = new CommitPools(engine, bounds, undefined, observe, waits.commitStatementTimeoutMs);
  closer.add('commit connections of the gateway', () => pools.close());
  const commit = new Commit({ pools, limits: { ...bounds, ...waits }, observe, clock });
  const lanes = new Lanes(commit, { limits: bounds, clock });
  closer.add('lanes of the gateway', () => lanes.close());
  return { engine, ready, pools, lanes, clock };
}

/** Presents several engines of one database each as one engine of several databases. */
export function asOneEngine(engines: readonly NamedEngine[]): Pick<EventParts, 'engine' | 'ready'> {
  return {
    engine: {
      clientConfig: (database) => {
        const { engine } = engineOf(engines, database);
        return engine.clientConfig(engine.defaultDatabase);
      },
      logsIn: false,
    },
    // The names come from the gateway's own settings.
    ready: () => Promise.resolve(),
  };
}

/** Headgate's own engine, with the gateway's role. */
export function asRole(
  engine: Engine,
  role: GatewayRole,
  logins: OwnerLogins,
): Pick<EventParts, 'engine' | 'ready'> {
  return {
    engine: {
      clientConfig: (database) => role.clientConfig(database),
      doubt: () => engine.doubt?.(),
      logins,
      logsIn: true,
    },
    ready: (database) => role.ready(database),
  };
}

const ways = { error: 'insert', update: 'upsert', ignore: 'ignore' } as const satisfies Record<
  OnConflict,
  string
>;

export function eventRooms(parts: EventParts, closer: Closer): EventDeps {
  const { engine, pools, lanes, clock } = parts;
  // Separate from the lanes' connections: one of these is held for as long as a body takes to arrive.
  const streams = new CommitPools(engine, {
    commitConnectionsMax: limits.eventsStreamsMax,
    commitStatementTimeoutMs: limits.eventsDeadlineMs,
  });
  closer.add('connections of large bodies', () => streams.close());
  const databases = new Map<string, ReturnType<typeof openRelations>>();
  const release = async (database: string): Promise<void> => {
    databases.delete(database);
    // Do not wait for a body that is still arriving; its connection holds the database as any other session does.
    const released = Promise.all([streams.release(database), pools.release(database)]);
    await within(limits.engineFarewellMs, released, undefined);
  };
  const relationsOf = (database: string) => {
    const known = databases.get(database);
    if (known !== undefined) return known;
    // What is forgotten about a database can be looked up again.
    for (const [oldest] of databases) if (databases.size >= limits.databasesMax) databases.delete(oldest);
    const asked = { database, query: ask(parts, database), logins: engine.logsIn };
    const relations = openRelations({ ...asked, limits, clock });
    databases.set(database, relations);
    return relations;
  };
  const refuseLookup = async (database: string, error: unknown): Promise<never> => {
    if (error instanceof Refused) {
      // Not kept: strangers may name any number of databases.
      if (['database_unknown', 'database_closed'].includes(error.refusal.code)) await release(database);
      throw error;
    }
    if (isConnectionLost(error) || sqlstateOf(error) !== null) throw new Refused('engine_unavailable');
    throw error;
  };
  const forget: EventDeps['forget'] = (database, name) => databases.get(database)?.forget(name);
  const apart: EventStreamDeps = {
    forget,
    streams: new Semaphore(limits.eventsStreamsMax),
    transaction: {
      turns: new Semaphore(Math.max(1, Math.floor(resources().cores / 2))),
      connect: (target) => streams.connectFor(target).catch(refuseLogin),
      sql: (target, client) => streamStatements(target, factsOf(client), streams.isShared(client)),
      messages: partMessages,
      explain,
      verdict: verdictOf,
      isInDoubt: (row) => isInDoubt({ ...failedHere(row.sqlstate, row.message), ...row, atCommit: true }),
      fate: async (client, target, xid, leftMs) => {
        const fate = await askOn(client, { ...target, xid }, { leftMs }).catch(() => null);
        return fate === 'ask again' ? null : fate;
      },
      clock,
    },
  };
  return {
    clock,
    find: (database, name, onConflict, sinceMs) => {
      const found = relationsOf(database).find(name, ways[onConflict ?? 'error'], sinceMs);
      return found instanceof Promise
        ? found.catch((error: unknown) => refuseLookup(database, error))
        : found;
    },
    forget,
    admit: (target) => lanes.admit(target, nothingExpected, limits.eventsDeadlineMs),
    submit: (rows) => lanes.submit(rows),
    release,
    codec,
    large: (target, request, body) => streamEvents(apart, target, request, body),
    skipping: (target, request, body, small) => streamEvents(apart, target, request, body.again(small)),
    // A committed row can be read at once.
    readable: () => Promise.resolve(),
  };
}

function refuseLogin(error: unknown): never {
  throw error instanceof LoginRefused ? new Refused('table_unusable', error.message) : error;
}

/** Each query is a transaction of its own. */
function ask({ ready, pools }: Pick<EventParts, 'ready' | 'pools'>, database: string) {
  return async (sql: (path: string) => string): Promise<readonly object[]> => {
    await ready(database);
    const client: PoolClient = await pools.connect(database).catch((error: unknown) => {
      throw sqlstateOf(error) === null ? error : notConnected(error);
    });
    try {
      // Several statements in one: a pooler sends them to one session.
      const results: unknown = await client.query(sql(factsOf(client).path));
      client.release();
      return (results as QueryResult<object>[]).at(-1)?.rows ?? [];
    } catch (error) {
      client.release(isConnectionLost(error));
      throw error;
    }
  };
}

export const codec: EventCodec = {
  opening: (text) => {
    const problem = scanJson(text, { depthMax: limits.jsonDepthMax });
    if (problem === null) return 'whole';
    return problem.offset !== null && problem.offset >= text.length ? 'open' : 'broken';
  },
  object: decodeObject,
  lines: decodeLines,
  goodLines: decodeGoodLines,
  splitter: (lineBytesMax) => new LineSplitter(lineBytesMax),
};

function explain(row: FailedRow, misfit: Column | null): Refusal {
  const failed = { ...failedHere(row.sqlstate, row.message), ...row };
  if (misfit === null && isVersionMissing(row)) return refusal('version_missing');
  return misfit === null ? rowRefusal(failed) : misfitRefusal({ row: 0, column: misfit, failed });
}
