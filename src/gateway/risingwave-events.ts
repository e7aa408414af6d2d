/**
 * Stores events in RisingWave, which has no transactions: a request is one INSERT, through lanes. Takes connections' settings; refuses with
 * `body_too_large`, `commit_unknown`, `engine_unavailable`, and as the commit there does; opens connections only when asked.
 */
import type { ClientConfig } from 'pg';
import { Lanes } from '../batch/lanes.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { Closer } from '../kit/closer.ts';
import type { StageContext } from '../observe/context.ts';
import { RwCommit } from '../risingwave/commit.ts';
import { RisingWaveLookup } from '../risingwave/relations.ts';
import type { RwRelations } from '../risingwave/relations.ts';
import { KnownRelations } from '../relations/known-relations.ts';
import { RwSessions } from '../risingwave/sessions.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { EventAnswer, EventRequest, EventStore, OnConflict } from './event-store.ts';
import { LineRefused, lineOf, reasonOf } from './line-refused.ts';
import { decodeGood, Skipped } from './skipped-lines.ts';

export class RisingWaveEvents implements EventStore {
  readonly clock: () => number;
  readonly lanes: Lanes;
  readonly #sessions: RwSessions;
  readonly #commit: RwCommit;
  readonly #databases = new Map<string, RwRelations>();
  readonly #flushes = new Map<string, Flushes>();

  /** Closed by `closer`. */
  constructor(clientConfig: (database: string) => ClientConfig, context: StageContext, closer: Closer) {
    const { observe, clock } = context;
    this.clock = clock;
    this.#sessions = new RwSessions(clientConfig);
    closer.add('RisingWave connections of the gateway', () => this.#sessions.close());
    this.#commit = new RwCommit(this.#sessions, limits.eventsDeadlineMs, { observe, clock });
    // An INSERT takes as long as a checkpoint, whatever its size.
    const bounds = {
      ...context.limits,
      groupRowsMax: limits.risingwaveGroupRowsMax,
      groupTargetMs: limits.risingwaveGroupTargetMs,
    };
    this.lanes = new Lanes(this.#commit, { limits: bounds, clock });
    closer.add('RisingWave lanes of the gateway', () => this.lanes.close());
  }

  find(
    database: string,
    name: string,
    onConflict: OnConflict | null,
    sinceMs?: number,
  ): Target | Promise<Target> {
    return this.#relationsOf(database).find(name, onConflict, sinceMs);
  }

  forget(database: string, name: string): void {
    this.#databases.get(database)?.forget(name);
  }

  async release(database: string): Promise<void> {
    this.#databases.delete(database);
    await this.#sessions.release(database);
  }

  large(): Promise<EventAnswer> {
    return Promise.reject(new Refused('body_too_large', tooLarge));
  }

  async skipping(
    target: Target,
    _request: EventRequest,
    body: Buffer,
    untilMs: number,
  ): Promise<EventAnswer> {
    const skipped = new Skipped(limits.eventsSkippedMax);
    const rows = decodeGood(target, body, skipped);
    return rows === null ? { rows: 0, skipped } : this.#submitGood(rows, skipped, untilMs);
  }

  readable(database: string): Promise<void> {
    const flush = () => this.#ask(database, 'flush', limits.eventsDeadlineMs);
    const own = this.#flushes.get(database) ?? new Flushes(flush);
    this.#flushes.set(database, own);
    return own.next().catch(() => {
      throw new Refused('commit_unknown', 'the rows are stored, and whether they can be read is not known');
    });
  }

  async #submitGood(rows: Rows, skipped: Skipped, untilMs: number): Promise<EventAnswer> {
    const bad = await this.#commit.badRows(rows, untilMs - this.clock());
    if (bad === null) throw new Refused('engine_unavailable');
    for (const { row, refusal } of bad) skipped.add(lineOf(rows, row), reasonOf(refusal.message));
    const good = without(rows, new Set(bad.map(({ row }) => row)));
    if (good.count === 0) return { rows: 0, skipped };
    const outcome = await this.lanes.submit({ ...good, ackTimeoutMs: untilMs - this.clock() });
    if (outcome.kind === 'committed') return { rows: outcome.rows, skipped };
    if (outcome.kind === 'aborted' && outcome.row !== undefined)
      throw new LineRefused(outcome.refusal, lineOf(good, outcome.row));
    throw new Refused(outcome.refusal.code, outcome.refusal.message);
  }

  #relationsOf(database: string): RwRelations {
    const known = this.#databases.get(database);
    if (known !== undefined) return known;
    const query = (sql: string) => this.#ask(database, sql);
    const lookup = new RisingWaveLookup(database, query);
    const relations = new KnownRelations(lookup, { limits, clock: this.clock });
    this.#databases.set(database, relations);
    return relations;
  }

  async #ask(database: string, sql: string, ms: number = limits.engineAnswerMs): Promise<readonly object[]> {
    const answer = await this.#sessions.run(database, sql, ms);
    if (answer.kind === 'done') return answer.result.rows;
    throw answer.error instanceof Refused ? answer.error : new Refused('engine_unavailable');
  }
}

const tooLarge = `the body is larger than ${limits.eventsLaneBytesMax} bytes, which RisingWave cannot store all or nothing: send its lines in several requests`;

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
