/**
 * What happens to a request of POST /v1/events, as one sentence:
 *
 *   find the table → is there room in its lane? → read the body → decode → the lane's receipt → its answer
 *
 * Normal is a body of up to `eventsLaneBytesMax`, which takes the path of webhooks, together with others (storeSmall). A larger body (large-body.ts) takes a
 * separate path, as does, with on_error=skip, one of which the engine has refused rows: on PostgreSQL, a transaction of its own (events-transaction.ts).
 * Takes requests; answers how many rows are committed, or throws Refused, or LineRefused if the line at fault is known.
 *
 * The store is PostgresEvents, below; only a gateway in front of other databases has RisingWave's beside it (external-databases.ts). Senders of events wait
 * for `eventsDeadlineMs` (30 s): for the gateway's own Commit that is the usual deadline (event-lanes.ts), and for that of the webhooks, which takes events
 * on an external engine (engine-databases.ts), it is more than the usual `ackDeadlineMs` (2.5 s), so that groups of events share no transaction there.
 */
import { nothingExpected } from '../batch/lanes.ts';
import type { Lanes } from '../batch/lanes.ts';
import { decodeEvents } from '../decode/lines.ts';
import { isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import { Refused } from '../errors/refusals.ts';
import type { Closer } from '../kit/closer.ts';
import { within } from '../kit/promises.ts';
import { KnownRelations } from '../relations/known-relations.ts';
import type { RequestSpan } from '../types/request.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { alteredTable, concernsCatalog, storeLarge, tableAfterRefusal } from './altered-table.ts';
import type { PostedEvents } from './altered-table.ts';
import { askIn } from './event-lanes.ts';
import type { EventParts } from './event-lanes.ts';
import type { EventAnswer, EventRequest, EventStore, EventStores, OnConflict } from './event-store.ts';
import { LargeBodies } from './events-transaction.ts';
import type { GatewayExchange } from './exchange.ts';
import { LargeBody, noMore } from './large-body.ts';
import { asLineRefused, isOfRow, refuseNoEvents, refusedBy } from './line-refused.ts';
import { PostgresLookup } from './relations.ts';
import type { Relations } from './relations.ts';
import { decodeGood, Skipped } from './skipped-lines.ts';

const bytesMax = limits.eventsBodyBytesMax;
const bounds = { bytesMax, tooLarge: `the body is larger than ${bytesMax} bytes` };

/** Normally all of it runs in one turn up to the lane: the store and the table are known, and the body is there. Rejects with Refused or LineRefused. */
export async function storeEvents(
  exchange: GatewayExchange,
  asked: EventRequest,
  stores: EventStores,
): Promise<void> {
  const { scope } = exchange;
  const isSmall = exchange.isSmall(limits.eventsLaneBytesMax);
  const known = stores.of(asked.database);
  const store = known instanceof Promise ? await known : known;
  const request: EventRequest = scope === null ? asked : { ...asked, isOfToken: true };
  const posted: PostedEvents = { store, request, scope, arrivedAtMs: store.clock() };
  const { database, name, onConflict } = request;
  const found = scope === null ? store.find(database, name, onConflict) : scope.find(store, request);
  const target = found instanceof Promise ? await found : found;
  exchange.place = target;
  store.lanes.admit(target, nothingExpected, limits.eventsDeadlineMs);
  const read = isSmall ? exchange.body(bounds) : null;
  const body = read instanceof Promise ? await read : read;
  // If a token becomes invalid while a body arrives, nothing of it is stored.
  if (body !== null && scope !== null) await scope.renew();
  const answer =
    body === null
      ? await storePieces(posted, target, exchange)
      : await storeSmall(posted, target, refuseNoEvents(body), exchange.span);
  if (request.flush) await store.readable(database);
  exchange.answerJson(eventsJson(answer), answer.rows);
}

/** How often one request follows a table that is being changed meanwhile. */
const attemptsMax = 3;

/** A body that is held whole; normally at the first attempt. `span` null: its request is not traced. */
async function storeSmall(
  posted: PostedEvents,
  target: Target,
  body: Buffer,
  span: RequestSpan | null,
): Promise<EventAnswer> {
  const { store, request } = posted;
  const untilMs = store.clock() + limits.eventsDeadlineMs;
  for (let attempt = 1, table = target; ; attempt++) {
    const isLast = attempt === attemptsMax;
    const skipped = request.skips ? new Skipped(limits.eventsSkippedMax) : null;
    let failure: unknown = null;
    let rows: Rows | null = null;
    try {
      rows = skipped === null ? decodeEvents(table, body) : decodeGood(table, body, skipped);
    } catch (error) {
      failure = asLineRefused(error);
    }
    // No line is refused because of what was known before the request.
    const isOfCatalog = failure === null ? (skipped?.count ?? 0) > 0 : concernsCatalog(failure);
    const altered = isOfCatalog ? await alteredTable(posted, table, isLast) : null;
    if (altered !== null) {
      table = altered;
      continue;
    }
    if (failure !== null) throw failure;
    if (rows === null || rows.count === 0) return { rows: 0, skipped };
    if (attempt > 1) rows = inTime(rows, untilMs - store.clock());
    const outcome = await (span === null ? store.lanes.submit(rows) : submitTraced(store, rows, span));
    if (outcome.kind === 'committed') return { rows: outcome.rows, skipped, stale: outcome.stale };
    const now = await tableAfterRefusal(posted, table, outcome, isLast);
    if (now !== null) table = now;
    else if (skipped !== null && isOfRow(outcome.refusal))
      return store.skipping(table, request, body, untilMs);
    else throw refusedBy(outcome, rows);
  }
}

/** Rows of which a part of the time was used. Throws Refused. */
function inTime(rows: Rows, leftMs: number): Rows {
  if (leftMs <= 0) throw new Refused('deadline');
  return { ...rows, ackTimeoutMs: leftMs };
}

async function submitTraced(store: EventStore, rows: Rows, span: RequestSpan): Promise<Outcome> {
  span.queuedMs = store.clock();
  const outcome = await store.lanes.submit({ ...rows, traceparent: span.traceparent });
  if (outcome.kind === 'committed') span.committedMs = store.clock();
  return outcome;
}

/** A body that may be large, or longer than it appears; if it turns out to be small, it goes the normal way. */
async function storePieces(
  posted: PostedEvents,
  target: Target,
  exchange: GatewayExchange,
): Promise<EventAnswer> {
  const { scope } = posted;
  const next = exchange.pieces(bounds);
  const body = new LargeBody(scope === null ? next : scope.renewing(next));
  const small = await body.small();
  return small === null ? storeLarge(posted, target, body) : storeSmall(posted, target, small, exchange.span);
}

function eventsJson({ rows, skipped, stale }: EventAnswer): string {
  if (skipped === null && stale === undefined) return `{"rows":${rows}}`;
  const left = skipped === null ? {} : { skipped: skipped.lines, skippedTotal: skipped.count };
  return JSON.stringify({ rows, stale, ...left });
}

const ways = { error: 'insert', update: 'upsert', ignore: 'ignore' } as const satisfies Record<
  OnConflict,
  string
>;

export class PostgresEvents implements EventStore, EventStores {
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

  /** All databases of Headgate's own engine. */
  of(): this {
    return this;
  }

  /** At once if the table was found during the last `relationAgeMs`, as it normally was; otherwise PostgreSQL's catalog is asked. */
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

  async large(
    target: Target,
    request: EventRequest,
    body: LargeBody,
    untilMs = Infinity,
  ): Promise<EventAnswer> {
    try {
      return await this.#large.store(target, request, body, untilMs);
    } catch (error) {
      if (error instanceof Refused && error.refusal.code === 'table_changed')
        this.forget(request.database, request.name);
      throw error;
    }
  }

  skipping(target: Target, request: EventRequest, body: Buffer, untilMs: number): Promise<EventAnswer> {
    return this.large(target, request, new LargeBody(noMore, body), untilMs);
  }

  /** A committed row can be read at once. */
  readable(): Promise<void> {
    return Promise.resolve();
  }
}
