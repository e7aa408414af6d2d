/**
 * The new rows of one table for all who follow it. Takes sessions, gives batches in turn; whoever is too slow for what is held is
 * told so, and reads the table by itself up to where this is (`streams.ts`). Reads only while somebody waits, and holds nothing of
 * the database between two looks.
 *
 *   resting ──somebody waits──► looking ──rows──► held for the others ──nobody waits──► resting
 *                 ▲                │
 *                 └──── away ◄─────┘ (the database; a refusal that stays ends it, and its readers)
 */
import { setTimeout as pause } from 'node:timers/promises';
import { backoffMs } from '../kit/backoff.ts';
import { limits } from '../tables/limits.ts';
import { Refused, refusals } from '../tables/refusals.ts';
import type { Lent, SqlSessions } from './sql-sessions.ts';
import { gapTo, wholly } from './stream-place.ts';
import type { Place } from './stream-place.ts';
import { allColumns, Pager } from './stream-read.ts';
import type { TableNow } from './stream-read.ts';
import { TableReader } from './stream-table.ts';

export interface Batch {
  /** What its reader has read before, and has read with it. */
  readonly before: Place;
  readonly after: Place;
  /** As they are sent. */
  readonly frame: Buffer;
  readonly rows: number;
}

/** What a reader finds behind the batch that it had last. */
export type Found = Batch | 'nothing yet' | 'too late';

export interface FeedOptions {
  readonly database: string;
  readonly sessions: SqlSessions;
  readonly now: TableNow;
  readonly frame: (rows: readonly string[], after: Place) => Buffer;
}

export class Feed {
  readonly options: FeedOptions;
  readonly #reader: TableReader;
  readonly #ended = new AbortController();
  readonly #waiting = new Set<() => void>();
  /** The newest are held. The number of the first one that is. */
  readonly #held: Batch[] = [];
  #first = 0;
  #heldBytes = 0;
  #failure: unknown = null;
  #wake: () => void = () => {};

  constructor(options: FeedOptions) {
    const { oid, file, position } = options.now;
    this.options = options;
    this.#reader = new TableReader(options.now, wholly(oid, file, position), new Pager());
    void this.#run();
  }

  /** How far it has read. */
  get place(): Place {
    return this.#reader.place;
  }

  get table(): TableNow {
    return this.#reader.table;
  }

  renew(now: TableNow): void {
    this.#reader.renew(now);
  }

  /** Why it has ended; null: it goes on. */
  get failure(): unknown {
    return this.#failure;
  }

  /** The number of the batch to go on with for a reader that is at `place`; null: it has to read by itself. */
  join(place: Place): number | null {
    if (place.file === this.place.file && gapTo(place, this.place) === null)
      return this.#first + this.#held.length;
    const found = this.#held.findLastIndex(
      ({ before }) => before.file === place.file && gapTo(place, before) === null,
    );
    return found < 0 ? null : this.#first + found;
  }

  at(number: number): Found {
    if (number < this.#first) return 'too late';
    return this.#held[number - this.#first] ?? 'nothing yet';
  }

  /** Waits for news: the next batch, or its end. false: there were none for `ms`, or `signal` has come. */
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

  /** `failure`: what its readers are told. */
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
        const { sessions, database } = this.options;
        const whole = await sessions.lend(database, signal, (lent) => this.#look(lent));
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

  /** Whether somebody waits for more, within `ms`; null: however long that takes. false is the end, too. */
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

  /** false: nobody waits any more, and there may be more. */
  async #look(lent: Lent): Promise<boolean> {
    for await (const { rows, before, after, take } of this.#reader.look(lent, allColumns, false)) {
      take();
      if (rows.length > 0)
        this.#hold({ before, after, frame: this.options.frame(rows, after), rows: rows.length });
      if (!(await this.#wanted(limits.streamLookMs))) return false;
    }
    return true;
  }

  #hold(batch: Batch): void {
    this.#held.push(batch);
    this.#heldBytes += batch.frame.length;
    // One that is larger by itself is read by each reader when it has room for it.
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

/** Whether it may be over in a moment. */
export function passes(error: unknown): boolean {
  return error instanceof Refused && refusals[error.refusal.code].status === 503;
}
