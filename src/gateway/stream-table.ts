/**
 * The new rows of one table, for a reader that reads them in turn: the events gateway for all readers of a stream (stream-feed.ts), `headgate
 * listen` for itself. Takes a borrowed session for each look, returns pages; refuses as stream-read.ts does. Holds nothing of the database between
 * two looks.
 *
 * A look reads the end of the table's file, where most new rows are; then, rarely, a piece of the rest, where rows appear once space is reused.
 * The place (stream-position.ts) records how far each part was read, so that a row is new once wherever it lies.
 */
import { performance } from 'node:perf_hooks';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { BorrowedConnection } from './sql-sessions.ts';
import { allBelow, hasEnded } from '../kit/position.ts';
import type { Ended } from '../kit/position.ts';
import { addressOf, advanced, cheapestPair, gapTo, readEverywhere, wholly } from './stream-position.ts';
import type { RowAddress, StreamPosition } from './stream-position.ts';
import { byOid, tableNow } from './stream-read.ts';
import type { Page, Pager, TableNow } from './stream-read.ts';

/** What its reader had read before, and has read with it. */
export interface TablePage extends Page {
  readonly before: StreamPosition;
  readonly after: StreamPosition;
  /** What has been read up to and including the row of this number. */
  readonly behind: (index: number) => StreamPosition;
  /** Marks the page as read: the next page is another one. */
  readonly take: () => void;
}

export class TableReader {
  readonly #pager: Pager;
  #place: StreamPosition;
  #table: TableNow;
  /** The part of the file from here on was read by the latest look. */
  #tail: RowAddress;
  /** Looks in order; the first is the latest one at which no transaction that is still open had begun. The last is the latest that came to its end. */
  #looks: TableNow[];
  /** Of which transactions the rest is being read now, and when its next piece is due. */
  #sweepUntil: Ended = allBelow(0n);
  #sweepAtMs = 0;

  constructor(now: TableNow, place: StreamPosition, pager: Pager) {
    this.#table = now;
    this.#place = place;
    this.#looks = [now];
    this.#tail = tailOf(now);
    this.#pager = pager;
  }

  /** How far it has read. */
  get place(): StreamPosition {
    return this.#place;
  }

  get table(): TableNow {
    return this.#table;
  }

  /** Updates the state of the table. After a rewrite its rows have new addresses: whatever may not have been read is read again. */
  renew(now: TableNow): void {
    this.#table = now;
    if (now.file === this.#place.file) return;
    this.#place = wholly(now.oid, now.file, readEverywhere(this.#place));
    this.#looks = [now];
    this.#tail = tailOf(now);
  }

  /**
   * Each page must be taken before the next one. `whole`: all parts of the file, one after the other. A reader that has enough stops, and
   * continues with the next look.
   */
  async *look(
    borrowed: BorrowedConnection,
    columns: string,
    whole: boolean,
  ): AsyncGenerator<TablePage, void, undefined> {
    const now = await tableNow(borrowed, byOid(this.#place.oid), this.#looks.at(-1)?.ended);
    // Its rows are read in the session of another role by now, which asks for its size, too.
    if (now.owner !== (borrowed.ofOwner?.owner ?? null)) {
      this.renew({ ...now, blocks: this.#table.blocks });
      throw new Refused('table_changed');
    }
    this.renew(now);
    const { oid, file, ended } = now;
    this.#tail = this.#tailFor(now);
    const goal = whole ? wholly(oid, file, ended) : advanced(this.#place, this.#tail, Infinity, ended);
    for (let page = await this.#read(borrowed, columns, goal); page !== null;) {
      yield page;
      page = await this.#read(borrowed, columns, goal);
    }
    this.#remember(now);
    const began = performance.now();
    if (began < this.#sweepAtMs) return;
    const piece = await this.#read(borrowed, columns, this.#sweepGoal(ended));
    const tookMs = performance.now() - began;
    this.#sweepAtMs = began + tookMs + tookMs * limits.streamRestTimes;
    if (piece !== null) yield piece;
  }

  /** null: nothing is left to read. */
  async #read(
    borrowed: BorrowedConnection,
    columns: string,
    goal: StreamPosition,
  ): Promise<TablePage | null> {
    const before = this.#place;
    const gap = gapTo(before, goal);
    if (gap === null) return null;
    const page = await this.#pager.read(borrowed, this.#table, gap, columns);
    const upTo = (to: RowAddress): StreamPosition => advanced(before, gap.from, to, gap.until);
    const after = upTo(page.to);
    return {
      ...page,
      before,
      after,
      behind: (index) => upTo((page.at[index] ?? -1) + 1),
      take: () => {
        // After a rewrite that was noticed meanwhile, what was read of the old file says nothing about the new one.
        if (this.#place === before) this.#place = after;
      },
    };
  }

  /**
   * A transaction appends its rows behind the end that the file had before it began, however long it takes to commit: a look begins where the file ended
   * before the first of those that have ended since the last one.
   */
  #tailFor(now: TableNow): RowAddress {
    const { xid, open } = this.#looks.at(-1)?.ended ?? now.ended;
    const first = open.find((it) => hasEnded(now.ended, it)) ?? xid;
    const before = this.#looks.findLast(({ next }) => next <= first) ?? this.#looks[0] ?? now;
    return Math.min(tailOf(before), tailOf(now));
  }

  /** Of many looks every second one between the first and the last few is forgotten: a look before it serves for it. */
  #remember(now: TableNow): void {
    this.#looks.push(now);
    const needless = this.#looks.findLastIndex(({ next }) => next <= now.oldest);
    if (needless > 0) this.#looks.splice(0, needless);
    const { length } = this.#looks;
    if (length <= limits.streamLooksMax) return;
    this.#looks = this.#looks.filter((_, at) => at % 2 === 0 || at >= length - limits.streamLooksMax / 4);
  }

  /** A piece that shortens the place, or lies before the end. */
  #sweepGoal(ended: Ended): StreamPosition {
    const place = this.#place;
    const pair = place.parts.length > limits.streamPartsMax ? cheapestPair(place, this.#tail) : null;
    if (pair !== null) return advanced(place, pair.from, pair.to, ended);
    const goal = advanced(place, 0, this.#tail, this.#sweepUntil);
    if (gapTo(place, goal) === null) this.#sweepUntil = ended;
    return goal;
  }
}

/** The start of the part at the end of the file that is read often. */
function tailOf({ blocks }: TableNow): RowAddress {
  return addressOf(Math.max(0, blocks - limits.streamTailBlocks));
}
