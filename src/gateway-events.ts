/**
 * Joins the rooms that POST /v1/events goes through: relations of the catalog, the decode room, lanes and the commit
 * room. Takes an engine (Headgate's own, or several behind one), gives EventRooms; opens connections only when asked.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import { Lanes } from './batch/lanes.ts';
import { Relations } from './catalog/relations.ts';
import { createCommit } from './commit/commit.ts';
import { CommitPools } from './commit/commit-pools.ts';
import { misfitRefusal, rowRefusal } from './commit/reasons.ts';
import { confirmStatement, probeStatement, relationName, storeStatement } from './commit/statements.ts';
import { decodeGoodLines, decodeLines, decodeObject } from './decode/batches.ts';
import { scanJson } from './decode/json-scan.ts';
import { LineSplitter } from './decode/line-splitter.ts';
import type { Engine } from './engine/engine.ts';
import { isConnectionLost, sqlstateOf } from './engine/sqlstate.ts';
import type { Column } from './flow.ts';
import { Budget } from './gateway/budget.ts';
import type { EventCodec, EventRooms, FailedRow, OnConflict } from './gateway/event-rooms.ts';
import type { NamedEngine } from './gateway-rooms.ts';
import { engineOf } from './gateway-rooms.ts';
import type { Closer } from './kit/closer.ts';
import { resources } from './kit/cores.ts';
import { Slots } from './kit/slots.ts';
import { limits } from './limits.ts';
import type { Observe } from './observations.ts';
import { Refused } from './refusals.ts';
import type { Refusal } from './refusals.ts';

export interface EventParts {
  readonly engine: Engine;
  readonly pools: CommitPools;
  readonly lanes: Lanes;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

/** What a gateway in front of other databases has in place of Headgate's own lanes. */
export function openEventParts(
  engines: readonly NamedEngine[],
  observe: Observe,
  clock: () => number,
  closer: Closer,
): EventParts {
  const engine = asOneEngine(engines);
  const pools = new CommitPools(engine, limits);
  closer.add('commit connections of the gateway', () => pools.close());
  const commit = createCommit({ pools, limits, observe, clock });
  const lanes = new Lanes({ commit, limits, clock, endOfTurn: setImmediate });
  closer.add('lanes of the gateway', () => lanes.close());
  return { engine, pools, lanes, clock };
}

/** Several engines of one database each as one engine of several databases. */
function asOneEngine(engines: readonly NamedEngine[]): Engine {
  return {
    kind: 'postgres',
    defaultDatabase: engineOf(engines, undefined).name,
    clientConfig: (database) => {
      const { engine } = engineOf(engines, database);
      return engine.clientConfig(engine.defaultDatabase);
    },
    endpoint: () => engineOf(engines, undefined).engine.endpoint(),
    get serverVersion() {
      return engineOf(engines, undefined).engine.serverVersion;
    },
    get unavailable() {
      return engines.find(({ engine }) => engine.unavailable !== null)?.engine.unavailable ?? null;
    },
    close: () => Promise.resolve(),
  };
}

const ways = { error: 'insert', update: 'upsert', ignore: 'ignore' } as const satisfies Record<
  OnConflict,
  string
>;

export function eventRooms({ engine, pools, lanes, clock }: EventParts, closer: Closer): EventRooms {
  // Apart from the lanes' connections: one of these is held as long as a body takes to arrive.
  const streams = new CommitPools(engine, {
    commitConnectionsMax: limits.eventsStreamsMax,
    commitStatementTimeoutMs: limits.eventsDeadlineMs,
  });
  closer.add('connections of large bodies', () => streams.close());
  const databases = new Map<string, Relations>();
  const release = async (database: string): Promise<void> => {
    databases.delete(database);
    // A body that is still arriving is not waited for; its connection keeps the database as any other session does.
    const late = new AbortController();
    const gone = delay(limits.engineFarewellMs, undefined, { signal: late.signal }).catch(() => {});
    await Promise.race([streams.release(database), gone]);
    late.abort();
  };
  const relationsOf = (database: string): Relations => {
    const known = databases.get(database);
    if (known !== undefined) return known;
    // What is remembered of a database can be asked for again.
    for (const [oldest] of databases) if (databases.size >= limits.databasesMax) databases.delete(oldest);
    const relations = new Relations({ database, query: ask(pools, database), limits, clock });
    databases.set(database, relations);
    return relations;
  };
  const refuseLookup = async (database: string, error: unknown): Promise<never> => {
    if (sqlstateOf(error) === '3D000') {
      // Not remembered: strangers may name any number of databases.
      await Promise.all([release(database), pools.release(database)]);
      throw new Refused('database_unknown');
    }
    if (error instanceof Refused) throw error;
    if (isConnectionLost(error) || sqlstateOf(error) !== null) throw new Refused('engine_unavailable');
    throw error;
  };
  return {
    find: (database, name, onConflict) => {
      const found = relationsOf(database).find(name, ways[onConflict]);
      return found instanceof Promise
        ? found.catch((error: unknown) => refuseLookup(database, error))
        : found;
    },
    forget: (database, name) => databases.get(database)?.forget(name),
    admit: (target) => lanes.admit(target, limits.eventsDeadlineMs),
    submit: (rows) => lanes.submit(rows),
    release,
    codec,
    streams: new Budget(limits.eventsStreamsMax),
    transaction: {
      turns: new Slots(Math.max(1, Math.floor(resources().cores / 2))),
      connect: (database) => streams.connect(database),
      store: (target) => storeStatement(target),
      confirm: (target) => ({
        text: confirmStatement,
        values: [relationName(target), String(target.oid), target.shape.mark],
      }),
      probe: (column) => probeStatement([column]),
      explain,
      clock,
    },
  };
}

/** Each question is a transaction of its own. */
function ask(pools: CommitPools, database: string) {
  return async (sql: string, values: readonly unknown[]): Promise<readonly object[]> => {
    const client: PoolClient = await pools.connect(database);
    try {
      const { rows } = await client.query<Record<string, unknown>>(sql, [...values]);
      client.release();
      return rows;
    } catch (error) {
      client.release(isConnectionLost(error));
      throw error;
    }
  };
}

const codec: EventCodec = {
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
  const failed = { kind: 'failed', completed: 0, placed: false, where: '', ...row } as const;
  return misfit === null ? rowRefusal(failed) : misfitRefusal({ row: 0, column: misfit, failed });
}
