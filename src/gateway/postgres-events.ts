/**
 * Stores events in PostgreSQL: through lanes, or, if a body is large, in a transaction of its own. Takes the lanes of an engine (event-lanes.ts); refuses
 * as catalog, lanes and commit do; opens connections only when asked.
 */
import type { PoolClient, QueryResult } from 'pg';
import { nothingExpected } from '../batch/lanes.ts';
import { KnownRelations } from '../relations/known-relations.ts';
import { PostgresLookup } from './relations.ts';
import type { Relations } from './relations.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import { connectionOf } from '../commit/commit-connection.ts';
import { notConnected } from '../engine/connection-refusal.ts';
import { isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import type { EventBody } from './event-body.ts';
import { streamEvents } from './events-transaction.ts';
import type { LargeBodies } from './events-transaction.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { within } from '../kit/promises.ts';
import type { EventAnswer, EventRequest, EventStore, OnConflict } from './event-store.ts';
import type { EventParts } from './event-lanes.ts';
import type { Closer } from '../kit/closer.ts';
import { resources } from '../kit/cores.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';

const ways = { error: 'insert', update: 'upsert', ignore: 'ignore' } as const satisfies Record<
  OnConflict,
  string
>;

export class PostgresEvents implements EventStore {
  readonly clock: () => number;
  readonly #parts: EventParts;
  readonly #large: LargeBodies;
  readonly #databases = new Map<string, Relations>();

  /** Closed by `closer`. */
  constructor(parts: EventParts, closer: Closer) {
    const { engine, clock } = parts;
    this.clock = clock;
    this.#parts = parts;
    // Separate from the lanes' connections: one of these is held for as long as a body takes to arrive.
    const pools = new CommitPools(engine, {
      commitConnectionsMax: limits.eventsStreamsMax,
      commitStatementTimeoutMs: limits.eventsDeadlineMs,
    });
    closer.add('connections of large bodies', () => pools.close());
    this.#large = {
      pools,
      slots: new Semaphore(limits.eventsStreamsMax),
      slotsOfTokens: new Semaphore(limits.eventsStreamsOfTokensMax),
      turns: new Semaphore(Math.max(1, Math.floor(resources().cores / 2))),
      clock,
      forget: (database, name) => this.forget(database, name),
    };
  }

  find(
    database: string,
    name: string,
    onConflict: OnConflict | null,
    sinceMs?: number,
  ): Target | Promise<Target> {
    const found = this.#relationsOf(database).find(name, ways[onConflict ?? 'error'], sinceMs);
    return found instanceof Promise
      ? found.catch((error: unknown) => this.#refuseLookup(database, error))
      : found;
  }

  forget(database: string, name: string): void {
    this.#databases.get(database)?.forget(name);
  }

  admit(target: Target): void {
    this.#parts.lanes.admit(target, nothingExpected, limits.eventsDeadlineMs);
  }

  submit(rows: Rows): Promise<Outcome> {
    return this.#parts.lanes.submit(rows);
  }

  async release(database: string): Promise<void> {
    this.#databases.delete(database);
    // Do not wait for a body that is still arriving; its connection holds the database as any other session does.
    const pools = [this.#large.pools, this.#parts.pools];
    const released = Promise.all(pools.map((it) => it.release(database)));
    await within(limits.engineFarewellMs, released, undefined);
  }

  large(target: Target, request: EventRequest, body: EventBody): Promise<EventAnswer> {
    return streamEvents(this.#large, target, request, body);
  }

  skipping(target: Target, request: EventRequest, body: EventBody, small: Buffer): Promise<EventAnswer> {
    return streamEvents(this.#large, target, request, body.again(small));
  }

  /** A committed row can be read at once. */
  readable(): Promise<void> {
    return Promise.resolve();
  }

  #relationsOf(database: string): Relations {
    const databases = this.#databases;
    const known = databases.get(database);
    if (known !== undefined) return known;
    // What is forgotten about a database can be looked up again.
    for (const [oldest] of databases) if (databases.size >= limits.databasesMax) databases.delete(oldest);
    const lookup = new PostgresLookup(database, ask(this.#parts, database), this.#parts.engine.logsIn);
    const relations = new KnownRelations(lookup, { limits, clock: this.clock });
    databases.set(database, relations);
    return relations;
  }

  async #refuseLookup(database: string, error: unknown): Promise<never> {
    if (error instanceof Refused) {
      // Not kept: strangers may name any number of databases.
      if (['database_unknown', 'database_closed'].includes(error.refusal.code)) await this.release(database);
      throw error;
    }
    if (isConnectionLost(error) || sqlstateOf(error) !== null) throw new Refused('engine_unavailable');
    throw error;
  }
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
      const results: unknown = await client.query(sql(connectionOf(client).facts.path));
      client.release();
      return (results as QueryResult<object>[]).at(-1)?.rows ?? [];
    } catch (error) {
      client.release(isConnectionLost(error));
      throw error;
    }
  };
}
