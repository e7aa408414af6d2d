/**
 * Stores events in PostgreSQL: through lanes, or, if a body is large, in a transaction of its own (events-transaction.ts). Takes the lanes of an engine
 * (event-lanes.ts); refuses as catalog, lanes and commit do; opens connections only when asked.
 */
import type { Lanes } from '../batch/lanes.ts';
import { KnownRelations } from '../relations/known-relations.ts';
import { PostgresLookup } from './relations.ts';
import type { Relations } from './relations.ts';
import { isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import { noMore, LargeBody } from './large-body.ts';
import { LargeBodies } from './events-transaction.ts';
import type { Target } from '../types/target.ts';
import { within } from '../kit/promises.ts';
import type { EventAnswer, EventRequest, EventStore, OnConflict } from './event-store.ts';
import { askIn } from './event-lanes.ts';
import type { EventParts } from './event-lanes.ts';
import type { Closer } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';

const ways = { error: 'insert', update: 'upsert', ignore: 'ignore' } as const satisfies Record<
  OnConflict,
  string
>;

export class PostgresEvents implements EventStore {
  readonly clock: () => number;
  readonly lanes: Lanes;
  readonly #parts: EventParts;
  readonly #large: LargeBodies;
  readonly #databases = new Map<string, Relations>();

  /** Closed by `closer`. */
  constructor(parts: EventParts, closer: Closer) {
    this.clock = parts.clock;
    this.lanes = parts.lanes;
    this.#parts = parts;
    this.#large = new LargeBodies(parts.engine, parts.clock, closer);
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

  #relationsOf(database: string): Relations {
    const databases = this.#databases;
    const known = databases.get(database);
    if (known !== undefined) return known;
    // What is forgotten about a database can be looked up again.
    for (const [oldest] of databases) if (databases.size >= limits.databasesMax) databases.delete(oldest);
    const lookup = new PostgresLookup(database, askIn(this.#parts, database), this.#parts.engine.logsIn);
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

  forget(database: string, name: string): void {
    this.#databases.get(database)?.forget(name);
  }

  async release(database: string): Promise<void> {
    this.#databases.delete(database);
    // Do not wait for a body that is still arriving; its connection holds the database as any other session does.
    const pools = [this.#large.pools, this.#parts.pools];
    const released = Promise.all(pools.map((it) => it.release(database)));
    await within(limits.engineFarewellMs, released, undefined);
  }

  async large(target: Target, request: EventRequest, body: LargeBody): Promise<EventAnswer> {
    try {
      return await this.#large.store(target, request, body);
    } catch (error) {
      if (error instanceof Refused && error.refusal.code === 'table_changed')
        this.forget(request.database, request.name);
      throw error;
    }
  }

  skipping(target: Target, request: EventRequest, body: Buffer): Promise<EventAnswer> {
    return this.large(target, request, new LargeBody(noMore, body));
  }

  /** A committed row can be read at once. */
  readable(): Promise<void> {
    return Promise.resolve();
  }
}
