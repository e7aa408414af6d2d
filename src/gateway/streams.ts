/**
 * Who follows which table. Takes a name and a position, returns the rows after it, framed for sending, without end: each at least
 * once, and none left out. Refuses with `relation_not_found`, `relation_not_streamed`, `position_lost`, `malformed_query`,
 * `overloaded`, `draining`, `engine_unavailable` and the engine's errors. Uses its own sessions.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { allBelow, distanceMax } from '../kit/position.ts';
import { Semaphores } from '../kit/semaphore.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { answerTo } from './answers.ts';
import type { Budget } from './memory-budget.ts';
import type { BorrowedConnection, SqlSessions } from './sql-sessions.ts';
import { Feed, passes } from './stream-feed.ts';
import type { Frame } from './stream-feed.ts';
import { placesEvery } from './stream-formats.ts';
import type { StreamForm } from './stream-formats.ts';
import { advanced, furthestXid, gapTo, parsePlace, readEverywhere, wholly } from './stream-position.ts';
import type { RowAddress, StreamPosition } from './stream-position.ts';
import { allColumns, byName, byOid, Pager, tableNow } from './stream-read.ts';
import type { TableNow } from './stream-read.ts';

export interface StreamRequest {
  readonly database: string;
  /** As written in SQL. */
  readonly name: string;
  /** The id of an event; `0`: from the beginning; null: from now on. */
  readonly after: string | null;
  readonly form: StreamForm;
  /** How many rows have one id at most; null: those of a batch. */
  readonly step: number | null;
  /** Whether a table that was found may be read; throws Refused. Absent: every one. */
  readonly admit?: (oid: number) => void;
}

/** The next piece of a stream. */
export interface StreamChunk {
  readonly frame: Buffer;
  readonly rows: number;
}

interface FollowedTable {
  readonly feed: Feed;
  readers: number;
  /** Of these, those of tokens. */
  ofTokens: number;
}

export class EventStreams {
  readonly #sessions: SqlSessions;
  readonly #memory: Budget;
  /** By oid, form, step and database. */
  readonly #feeds = new Map<string, FollowedTable>();
  /** By the owner in whose session they read; null: the reader's own. */
  readonly #catchingUp = new Semaphores<number | null>(limits.streamCatchUpsMax);
  readonly #open = new Set<AbortController>();
  readonly #ofTokens = new Set<AbortController>();
  #bytesOfTokens = 0;
  #draining = false;

  /** `memory`: what all results together may hold. */
  constructor(sessions: SqlSessions, memory: Budget) {
    this.#sessions = sessions;
    this.#memory = memory;
  }

  get open(): number {
    return this.#open.size;
  }

  /**
   * The pieces end when `gone` says that the reader has left, with a drain, or with a refusal, which they report. The caller must
   * read to the end, or return.
   */
  async follow(
    request: StreamRequest,
    gone: AbortSignal,
  ): Promise<AsyncGenerator<StreamChunk, void, undefined>> {
    const after = request.after === null ? null : placeOf(request.after);
    const named = byName(request.name);
    if (this.#draining) throw new Refused('draining');
    if (this.#open.size >= limits.streamsMax) throw new Refused('overloaded', 'too many streams are open');
    const isOfToken = request.admit !== undefined;
    if (isOfToken && this.#ofTokens.size >= limits.streamsOfTokensMax)
      throw new Refused('overloaded', 'too many streams of tokens are open');
    const ending = new AbortController();
    const end = (): void => ending.abort();
    this.#open.add(ending);
    if (isOfToken) this.#ofTokens.add(ending);
    try {
      gone.addEventListener('abort', end, { once: true });
      if (gone.aborted) end();
      const now = await this.#now(request.database, ending.signal, named, request.admit);
      const place = after === null ? wholly(now.oid, now.file, now.ended) : resumed(after, now);
      const followed = this.#feed(request, now);
      followed.readers += 1;
      if (isOfToken) followed.ofTokens += 1;
      return this.#pieces(followed, request.form, place, ending, () =>
        gone.removeEventListener('abort', end),
      );
    } catch (error) {
      this.#leave(ending);
      throw error;
    }
  }

  /** What the reader's own session does not ask, because it may wait for the owner, is asked in the owner's: if there can be none, the answer says why. */
  async #now(
    database: string,
    signal: AbortSignal,
    which: string,
    admit?: (oid: number) => void,
  ): Promise<TableNow> {
    const now = await this.#sessions.lend(database, signal, (borrowed) => tableNow(borrowed, which));
    admit?.(now.oid);
    if (now.owner === null) return now;
    const { oid, owner } = now;
    const ask = (borrowed: BorrowedConnection) => tableNow(borrowed, byOid(oid));
    return { ...(await this.#sessions.lend(database, signal, ask, now)), owner };
  }

  #leave(ending: AbortController): void {
    this.#open.delete(ending);
    this.#ofTokens.delete(ending);
  }

  /** Ends all streams, asking their clients to reconnect. */
  drain(): void {
    this.#draining = true;
    for (const ending of this.#open) ending.abort();
  }

  /** Releases a database, so that it can be dropped or renamed: its readers reconnect. */
  async release(database: string): Promise<void> {
    for (const [key, { feed }] of this.#feeds) {
      if (feed.database !== database) continue;
      feed.end(new Refused('database_unknown'));
      this.#feeds.delete(key);
    }
    await this.#sessions.release(database);
  }

  close(): Promise<void> {
    this.drain();
    for (const { feed } of this.#feeds.values()) feed.end(new Refused('draining'));
    return this.#sessions.close();
  }

  /** Readers of different forms do not share a feed: it holds rows as they are sent. */
  #feed({ database, form: { type, rows }, step, admit }: StreamRequest, now: TableNow): FollowedTable {
    const key = `${now.oid} ${type} ${step ?? 0} ${database}`;
    const known = this.#feeds.get(key);
    if (known !== undefined && known.feed.failure === null) return known;
    if (this.#feeds.size >= limits.streamTablesMax)
      throw new Refused('overloaded', 'streams follow too many tables');
    const isForTokens = ({ readers, ofTokens }: FollowedTable): boolean => readers === ofTokens;
    const ofTokens = [...this.#feeds.values()].filter(isForTokens).length;
    if (admit !== undefined && ofTokens >= limits.streamTablesOfTokensMax)
      throw new Refused('overloaded', 'streams of tokens follow too many tables');
    const frame: Frame = (texts, behind, after) =>
      Buffer.from(rows(texts, placesEvery(step, texts.length, behind, after)));
    const feed = new Feed(database, this.#sessions, now, frame);
    const made = { feed, readers: 0, ofTokens: 0 };
    this.#feeds.set(key, made);
    return made;
  }

  async *#pieces(
    followed: FollowedTable,
    form: StreamForm,
    from: StreamPosition,
    ending: AbortController,
    settle: () => void,
  ): AsyncGenerator<StreamChunk, void, undefined> {
    const { feed } = followed;
    const { signal } = ending;
    const pager = new Pager();
    let place = from;
    try {
      yield piece(form.begin(place));
      let saidMs = performance.now();
      for (let number = feed.join(place); !signal.aborted;) {
        if (feed.failure !== null) throw feed.failure;
        const found = number === null ? 'too late' : feed.at(number);
        let rows: StreamChunk | null = null;
        if (found === 'nothing yet') {
          place = feed.place;
          await feed.more(limits.streamKeepAliveMs, signal);
        } else if (found === 'too late') {
          ({ place, rows } = await this.#page(feed, place, pager, signal));
          number = feed.join(place);
        } else {
          number = (number ?? 0) + 1;
          place = found.after;
          rows = found;
        }
        const silentMs = performance.now() - saidMs;
        if (rows === null && silentMs < limits.streamKeepAliveMs) continue;
        yield* this.#inItsRoom(rows ?? piece(form.silence(place)), this.#ofTokens.has(ending));
        saidMs = performance.now();
      }
      // A reader that has left does not receive it.
      yield piece(form.comeAgain);
    } catch (error) {
      const answer = answerTo(error);
      if (answer === null) throw error;
      yield piece(passes(error) ? form.comeAgain : form.refused(answer.text));
    } finally {
      settle();
      if (this.#ofTokens.has(ending)) followed.ofTokens -= 1;
      this.#leave(ending);
      followed.readers -= 1;
      if (followed.readers === 0) this.#forget(followed);
    }
  }

  /** A large piece counts against the memory until its reader has read it. */
  *#inItsRoom(next: StreamChunk, isOfToken: boolean): Generator<StreamChunk, void, undefined> {
    const { length } = next.frame;
    if (length <= limits.streamLargeBytes) return yield next;
    const ofTokens = isOfToken ? length : 0;
    const isOver = isOfToken && this.#bytesOfTokens + length > limits.streamsOfTokensBytesMax;
    if (isOver || !this.#memory.take(length)) throw new Refused('results_full');
    this.#bytesOfTokens += ofTokens;
    try {
      yield next;
    } finally {
      this.#bytesOfTokens -= ofTokens;
      this.#memory.give(length);
    }
  }

  /** One page of what a reader is behind the others. */
  async #page(
    feed: Feed,
    from: StreamPosition,
    pager: Pager,
    signal: AbortSignal,
  ): Promise<{ readonly place: StreamPosition; readonly rows: StreamChunk | null }> {
    // After a rewrite, the table's rows are in another file.
    const place =
      from.file === feed.place.file ? from : wholly(from.oid, feed.place.file, readEverywhere(from));
    const gap = gapTo(place, feed.place);
    if (gap === null) return { place, rows: null };
    const read = () =>
      this.#sessions.lend(
        feed.database,
        signal,
        (borrowed) => pager.read(borrowed, feed.table, gap, allColumns),
        feed.table,
      );
    try {
      const { rows, at, to } = await this.#catchingUp.run(feed.table.owner, limits.streamPageMs, read);
      const upTo = (end: RowAddress): StreamPosition => advanced(place, gap.from, end, gap.until);
      const after = upTo(to);
      if (rows.length === 0) return { place: after, rows: null };
      const frame = feed.frame(rows, (row) => upTo((at[row] ?? -1) + 1), after);
      return { place: after, rows: { frame, rows: rows.length } };
    } catch (error) {
      if (!passes(error)) throw error;
      if (error instanceof Refused && error.refusal.code === 'table_changed') await this.#renew(feed, signal);
      else await pause(limits.streamAgainMs, undefined, { signal }).catch(() => undefined);
      return { place, rows: null };
    }
  }

  /** A feed on which no reader waits at its end is not updated otherwise. */
  async #renew(feed: Feed, signal: AbortSignal): Promise<void> {
    const { database, place } = feed;
    feed.renew(await this.#now(database, signal, byOid(place.oid)));
  }

  #forget(followed: FollowedTable): void {
    followed.feed.end(null);
    for (const [key, it] of this.#feeds) if (it === followed) this.#feeds.delete(key);
  }
}

/** Throws Refused. */
function placeOf(text: string): StreamPosition {
  if (text === '0') return wholly(0, 0, allBelow(0n));
  const place = parsePlace(text);
  if (place === null)
    throw new Refused('malformed_query', 'the position is none that an event has had as its id');
  return place;
}

/** The place from which a returning reader continues; throws Refused. */
function resumed(after: StreamPosition, { oid, file, next }: TableNow): StreamPosition {
  if (after.oid === 0) return wholly(oid, file, allBelow(0n));
  const least = readEverywhere(after);
  const tooOld = least.xid > 0n && next - least.xid > distanceMax;
  if (after.oid !== oid || furthestXid(after) > next || tooOld) throw new Refused('position_lost');
  return after.file === file ? after : wholly(oid, file, least);
}

const piece = (text: string): StreamChunk => ({ frame: Buffer.from(text), rows: 0 });
