/**
 * The new rows of one table for all readers that follow it. Takes sessions, returns batches in order; a reader too slow for the
 * batches held is told so, and reads the table itself until it has caught up (`streams.ts`). Reads only while a reader waits, and
 * holds nothing of the database between two looks.
 *
 *   resting ──reader waits──► looking ──rows──► held for the others ──no reader waits──► resting
 *      ▲                         │
 *      └────────── away ◄────────┘ (the database; a permanent refusal ends the feed and its readers)
 */
import { setTimeout as pause } from 'node:timers/promises';
import { backoffMs } from '../kit/backoff.ts';
import { limits } from '../config/limits.ts';
import { Refused, refusals } from '../errors/refusals.ts';
import type { BorrowedConnection, SqlSessions } from './sql-sessions.ts';
import { gapTo, wholly } from './stream-position.ts';
import type { StreamPosition } from './stream-position.ts';
import { allColumns, Pager } from './stream-read.ts';
import type { TableNow } from './stream-read.ts';
import { TableReader } from './stream-table.ts';

export interface FeedBatch {
  /** What its reader had read before, and has read with it. */
  readonly before: StreamPosition;
  readonly after: StreamPosition;
  /** In the form in which they are sent. */
  readonly frame: Buffer;
  readonly rows: number;
}

/** What follows the last batch of a reader. */
export type FeedResult = FeedBatch | 'nothing yet' | 'too late';

/** Rows as bytes. `behind`: the position after one of them; `after`: after all of them. */
export type Frame = (
  rows: readonly string[],
  behind: (row: number) => StreamPosition,
  after: StreamPosition,
) => Buffer;

export class Feed {
  readonly database: string;
  readonly frame: Frame;
  readonly #sessions: SqlSessions;
  readonly #reader: TableReader;
  readonly #ended = new AbortController();
  readonly #waiting = new Set<() => void>();
  /** Only the newest batches are held. `#first` is the number of the oldest of them. */
  readonly #held: FeedBatch[] = [];
  #first = 0;
  #heldBytes = 0;
  #failure: unknown = null;
  #wake: () => void = () => {};

  constructor(database: string, sessions: SqlSessions, now: TableNow, frame: Frame) {
    this.database = database;
    this.frame = frame;
    this.#sessions = sessions;
    this.#reader = new TableReader(now, wholly(now.oid, now.file, now.ended), new Pager());
    void this.#run();
  }

  /** How far it has read. */
  get place(): StreamPosition {
    return this.#reader.place;
  }

  get table(): TableNow {
    return this.#reader.table;
  }

  renew(now: TableNow): void {
    this.#reader.renew(now);
  }

  /** Why it has ended; null: it has not. */
  get failure(): unknown {
    return this.#failure;
  }

  /** The number of the next batch for a reader at `place`; null: the reader must read the table itself. */
  join(place: StreamPosition): number | null {
    if (place.file === this.place.file && gapTo(place, this.place) === null)
      return this.#first + this.#held.length;
    const found = this.#held.findLastIndex(
      ({ before }) => before.file === place.file && gapTo(place, before) === null,
    );
    return found < 0 ? null : this.#first + found;
  }

  at(number: number): FeedResult {
    if (number < this.#first) return 'too late';
    return this.#held[number - this.#first] ?? 'nothing yet';
  }

  /** Waits for the next batch, or the end. false: nothing came within `ms`, or `signal` was aborted. */
  more(ms: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      if (signal.aborted || this.#ended.signal.aborted) return resolve(false);
      const settle = (news: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(told);
        signal.removeEventListener('abort', left);
        resolve(news);
      };
      const told = (): void => settle(true);
      const left = (): void => settle(false);
      const timer = setTimeout(left, ms);
      this.#waiting.add(told);
      signal.addEventListener('abort', left, { once: true });
      this.#wake();
    });
  }

  /** `failure`: the error given to its readers. */
  end(failure: unknown): void {
    this.#failure ??= failure;
    this.#ended.abort();
    this.#wake();
    this.#tell();
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    for (let failures = 0; !signal.aborted;) {
      if (!(await this.#wanted(null))) continue;
      try {
        const [sessions, database] = [this.#sessions, this.database];
        const whole = await sessions.lend(database, signal, (borrowed) => this.#look(borrowed), this.table);
        failures = 0;
        if (!whole) continue;
      } catch (error) {
        if (!passes(error)) return this.end(error);
        failures += 1;
      }
      const restMs =
        failures === 0
          ? limits.streamLookMs
          : backoffMs(failures, limits.streamLookMs, limits.streamRetryMs, Math.random);
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Whether a reader waits for more within `ms`; null: waits without limit. false also if the feed has ended. */
  async #wanted(ms: number | null): Promise<boolean> {
    const { signal } = this.#ended;
    if (this.#waiting.size === 0 && !signal.aborted) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== null) timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
    }
    return this.#waiting.size > 0 && !signal.aborted;
  }

  /** false: no reader waits any more, and more rows may remain. */
  async #look(borrowed: BorrowedConnection): Promise<boolean> {
    for await (const { rows, before, behind, after, take } of this.#reader.look(
      borrowed,
      allColumns,
      false,
    )) {
      take();
      if (rows.length > 0)
        this.#hold({ before, after, frame: this.frame(rows, behind, after), rows: rows.length });
      if (!(await this.#wanted(limits.streamLookMs))) return false;
    }
    return true;
  }

  #hold(batch: FeedBatch): void {
    this.#held.push(batch);
    this.#heldBytes += batch.frame.length;
    // A batch larger than the limit is not held: each reader reads those rows itself once there is memory.
    while (this.#heldBytes > limits.streamHeldBytesMax) {
      this.#heldBytes -= this.#held.shift()?.frame.length ?? 0;
      this.#first += 1;
    }
    this.#tell();
  }

  #tell(): void {
    for (const done of this.#waiting) done();
  }
}

/** Whether the error is temporary. */
export function passes(error: unknown): boolean {
  return error instanceof Refused && refusals[error.refusal.code].status === 503;
}
