/**
 * Connects the rooms that POST /v1/events passes through in front of RisingWave, and chooses between them and those of PostgreSQL by
 * what a database reports about itself. Takes engines, returns EventDeps; opens connections only when asked.
 */
import type { ClientConfig } from 'pg';
import { Lanes, nothingExpected } from '../batch/lanes.ts';
import { Products } from '../engine/server-product.ts';
import type { Product } from '../engine/server-product.ts';
import type { GatewayDeps } from '../gateway/door.ts';
import type { EventAnswer, EventDeps } from '../gateway/event-deps.ts';
import { LineRefused, lineOf, reasonOf } from '../gateway/line-refused.ts';
import { Skipped } from '../gateway/skipped-lines.ts';
import type { Closer } from '../kit/closer.ts';
import { RwCommit } from '../risingwave/commit.ts';
import { openRwRelations } from '../risingwave/relations.ts';
import { RwSessions } from '../risingwave/sessions.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { Rows } from '../types/rows.ts';
import { Refused } from '../errors/refusals.ts';
import { asOneEngine, codec, eventRooms, openEventParts } from './gateway-events.ts';
import { otherSqlRooms } from './wire-gateway.ts';
import type { NamedEngine } from './wire-gateway.ts';

export interface OtherOptions {
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly bounds: Limits;
}

export interface OtherRooms extends Pick<GatewayDeps, 'sql' | 'events'> {
  /** How many rows wait, for each table with waiting rows. */
  readonly depths: Lanes['depths'];
}

/** The rooms for the databases of EVENTS_API_<DB>_DSN. */
export function otherRooms(
  engines: readonly NamedEngine[],
  options: OtherOptions,
  closer: Closer,
): OtherRooms {
  const { observe, clock, bounds } = options;
  const one = asOneEngine(engines);
  const parts = openEventParts(one, observe, clock, closer, bounds);
  const clientConfig = (database: string) => one.engine.clientConfig(database);
  const products = new Products(clientConfig);
  const risingwave = risingWaveEvents(options, clientConfig, closer);
  return {
    sql: otherSqlRooms(engines, products),
    events: eventsByProduct(products, { postgresql: eventRooms(parts, closer), risingwave }),
    depths: () => [...parts.lanes.depths(), ...risingwave.lanes.depths()],
  };
}

/** The lookup of the table decides which product's rooms a request takes. */
function eventsByProduct(products: Products, ways: Readonly<Record<Product, EventDeps>>): EventDeps {
  const of = (database: string): EventDeps => ways[products.known(database)];
  return {
    codec,
    clock: ways.postgresql.clock,
    find: (database, name, onConflict, sinceMs) => {
      const product = products.of(database);
      return product instanceof Promise
        ? product.then((it) => ways[it].find(database, name, onConflict, sinceMs))
        : ways[product].find(database, name, onConflict, sinceMs);
    },
    forget: (database, name) => of(database).forget(database, name),
    admit: (target) => of(target.database).admit(target),
    submit: (rows) => of(rows.target.database).submit(rows),
    release: (database) => of(database).release(database),
    large: (target, request, body) => of(target.database).large(target, request, body),
    skipping: (target, request, body, small) => of(target.database).skipping(target, request, body, small),
    readable: (database) => of(database).readable(database),
  };
}

function risingWaveEvents(
  options: OtherOptions,
  clientConfig: (database: string) => ClientConfig,
  closer: Closer,
): EventDeps & { readonly lanes: Lanes } {
  const { observe, clock } = options;
  const sessions = new RwSessions(clientConfig);
  closer.add('RisingWave connections of the gateway', () => sessions.close());
  const commit = new RwCommit(sessions, limits.eventsDeadlineMs, { observe, clock });
  // An INSERT takes as long as a checkpoint, whatever its size.
  const bounds = {
    ...options.bounds,
    groupRowsMax: limits.risingwaveGroupRowsMax,
    groupTargetMs: limits.risingwaveGroupTargetMs,
  };
  const lanes = new Lanes(commit, { limits: bounds, clock });
  closer.add('RisingWave lanes of the gateway', () => lanes.close());
  const databases = new Map<string, ReturnType<typeof openRwRelations>>();
  const ask = async (
    database: string,
    sql: string,
    ms: number = limits.engineAnswerMs,
  ): Promise<readonly object[]> => {
    const answer = await sessions.run(database, sql, ms);
    if (answer.kind === 'done') return answer.result.rows;
    throw answer.error instanceof Refused ? answer.error : new Refused('engine_unavailable');
  };
  const relationsOf = (database: string) => {
    const known = databases.get(database);
    if (known !== undefined) return known;
    const query = (sql: string) => ask(database, sql);
    const relations = openRwRelations({ database, query, limits, clock });
    databases.set(database, relations);
    return relations;
  };
  const flushes = new Map<string, Flushes>();
  return {
    lanes,
    codec,
    clock,
    find: (database, name, onConflict, sinceMs) => relationsOf(database).find(name, onConflict, sinceMs),
    forget: (database, name) => databases.get(database)?.forget(name),
    admit: (target) => lanes.admit(target, nothingExpected, limits.eventsDeadlineMs),
    submit: (rows) => lanes.submit(rows),
    release: async (database) => {
      databases.delete(database);
      await sessions.release(database);
    },
    large: () => Promise.reject(new Refused('body_too_large', tooLarge)),
    skipping: async (target, _request, body, small) => {
      const skipped = new Skipped(limits.eventsSkippedMax);
      const rows = body.decodeSmall(target, small, skipped);
      return rows === null ? { rows: 0, skipped } : submitGood({ rows, skipped, commit, lanes });
    },
    readable: (database) => {
      const own = flushes.get(database) ?? new Flushes(() => ask(database, 'flush', limits.eventsDeadlineMs));
      flushes.set(database, own);
      return own.next().catch(() => {
        throw new Refused('commit_unknown', 'the rows are stored, and whether they can be read is not known');
      });
    },
  };
}

const tooLarge = `the body is larger than ${limits.eventsLaneBytesMax} bytes, which RisingWave cannot store all or nothing: send its lines in several requests`;

interface Good {
  readonly rows: Rows;
  readonly skipped: Skipped;
  readonly commit: Pick<RwCommit, 'badRows'>;
  readonly lanes: Lanes;
}

async function submitGood({ rows, skipped, commit, lanes }: Good): Promise<EventAnswer> {
  const bad = await commit.badRows(rows);
  if (bad === null) throw new Refused('engine_unavailable');
  for (const { row, refusal } of bad) skipped.add(lineOf(rows, row), reasonOf(refusal.message));
  const good = without(rows, new Set(bad.map(({ row }) => row)));
  if (good.count === 0) return { rows: 0, skipped };
  const outcome = await lanes.submit(good);
  if (outcome.kind === 'committed') return { rows: outcome.rows, skipped };
  if (outcome.kind === 'aborted' && outcome.row !== undefined)
    throw new LineRefused(outcome.refusal, lineOf(good, outcome.row));
  throw new Refused(outcome.refusal.code, outcome.refusal.message);
}

function without(rows: Rows, bad: ReadonlySet<number>): Rows {
  const { bytes, spans } = rows.documents;
  const kept = Array.from({ length: rows.count }, (_, row) => row).filter((row) => !bad.has(row));
  const places = kept.flatMap((row) =>
    spans === null ? [0, bytes.length] : [spans[2 * row] ?? 0, spans[2 * row + 1] ?? 0],
  );
  return {
    ...rows,
    documents: { bytes, spans: Uint32Array.from(places) },
    count: kept.length,
    lines: Uint32Array.from(kept, (row) => lineOf(rows, row)),
  };
}

/**
 * FLUSH makes readable what was stored before it began: a caller that arrives during one waits for the next, which it shares with
 * others.
 */
class Flushes {
  readonly #flush: () => Promise<unknown>;
  #running: Promise<unknown> = Promise.resolve();
  #waiting: Promise<void> | null = null;

  constructor(flush: () => Promise<unknown>) {
    this.#flush = flush;
  }

  next(): Promise<void> {
    this.#waiting ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#waiting = null;
        const flushed = this.#flush();
        this.#running = flushed;
        return flushed;
      })
      .then(() => undefined);
    return this.#waiting;
  }
}
