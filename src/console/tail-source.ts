/**
 * Tells watchers the last outcomes of this process. Takes observations, passes lines to watchers: first the remembered ones, then
 * new ones in batches. A refused request is passed on with the id under which it was written down, for which it and those after it wait a moment.
 * While nobody watches, nothing is done for an outcome but to remember it.
 */
import { isWorthKeeping } from '../errors/refusals.ts';
import { randomBytes } from 'node:crypto';
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import { doctorPath } from '../observe/tail.ts';
import type { Recall, TailBatch, TailLine, TailSource } from '../observe/tail.ts';
import type { StoredRefusal } from '../types/journal.ts';
import { byArrival, isBeyond, matchesLine } from './request-filter.ts';
import type { CountedAnswer } from '../reject/traffic.ts';

export class OutcomeTail implements TailSource {
  readonly #clock: () => number;
  readonly #ring: RingBuffer;
  /** The first outcome not yet passed on. */
  #told = 0;
  readonly #watchers = new Set<(batch: TailBatch) => void>();
  #timer: NodeJS.Timeout | null = null;
  /** What the event of a held request is called; null: not known. */
  readonly #eventOf: (held: string) => string | null;
  /** Other processes, now and before, have other names. */
  readonly #mine = randomBytes(6).toString('base64url');
  /** Whether refused requests are written down at all. */
  readonly #keeps: boolean;

  /** `clock`: ms since 1970; `forget`: called with the name of what is no longer remembered. */
  constructor(
    clock: () => number,
    keeps: boolean,
    forget: (held: string) => void = () => {},
    eventOf: (held: string) => string | null = () => null,
  ) {
    this.#clock = clock;
    this.#ring = new RingBuffer(clock, forget);
    this.#keeps = keeps;
    this.#eventOf = eventOf;
  }

  readonly #add = (outcome: CountedAnswer): void => {
    this.#ring.add(outcome);
    if (this.#watchers.size > 0) this.#timer ??= setTimeout(() => this.#flush(), limits.tailFlushMs);
  };

  readonly readers: Readers = { 'request.answered': this.#add, 'batch.answered': this.#add };

  /** Refused requests have been written down. */
  readonly stored = (rows: readonly StoredRefusal[]): void => this.#ring.stored(rows);

  watch(told: (batch: TailBatch) => void): () => void {
    // Outcomes that wait for the other watchers reach this one among the remembered ones.
    this.#flush();
    this.#watchers.add(told);
    told({ lines: this.#lines(this.#told - limits.tailRecentMax, this.#told), skipped: 0 });
    this.#flush();
    return () => void this.#watchers.delete(told);
  }

  async recall({ filter, from, max }: Recall): Promise<readonly TailLine[]> {
    const lines = this.#lines(0, this.#ring.count).map((line) => this.#named(line));
    const found = lines.filter(
      (line) => matchesLine(line, filter) && (from === null || isBeyond(line, from)),
    );
    found.sort(byArrival);
    return found.slice(0, max);
  }

  #named(line: TailLine): TailLine {
    const event = line.held === undefined ? null : this.#eventOf(line.held);
    return event === null ? line : { ...line, event };
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const from = this.#told;
    const end = this.#known();
    this.#told = end;
    if (this.#watchers.size === 0) return;
    if (end < this.#ring.count) this.#timer = setTimeout(() => this.#flush(), limits.tailFlushMs);
    if (from === end) return;
    const until = Math.min(end, from + limits.tailSourceLinesMax);
    const lines = this.#lines(from, until);
    const batch = { lines, skipped: end - from - lines.length };
    for (const told of this.#watchers) told(batch);
  }

  /** Up to where it is known of each outcome whether it was written down. */
  #known(): number {
    const ring = this.#ring;
    if (!this.#keeps) return ring.count;
    const since = this.#clock() - limits.tailKeptMs;
    for (let i = Math.max(this.#told, ring.first); i < ring.count; i++) {
      const { outcome, atMs, refusal } = ring.at(i);
      if (refusal === undefined && atMs > since && isKept(outcome)) return i;
    }
    return ring.count;
  }

  #lines(from: number, until: number): TailLine[] {
    const lines: TailLine[] = [];
    for (let i = Math.max(from, this.#ring.first); i < until; i++) {
      const { outcome, atMs, refusal } = this.#ring.at(i);
      if (outcome === undefined) continue;
      const line = lineOf(outcome, `${this.#mine}.${i}`, atMs);
      lines.push(refusal === undefined ? line : { ...line, refusal });
    }
    return lines;
  }
}

/** Whether it is written down, unless there are too many. */
function isKept(outcome: CountedAnswer | undefined): boolean {
  if (outcome?.table?.oid === undefined) return false;
  const { code } = outcome;
  if (code === 'committed' || code === 'handshake' || code === 'spooled') return false;
  return isWorthKeeping(code);
}

function lineOf(outcome: CountedAnswer, id: string, atMs: number): TailLine {
  const { database, schema, table } = outcome.table ?? { database: '', schema: '', table: '' };
  const { code, rows, seconds } = outcome;
  const { oid, sender } = outcome.table ?? {};
  const named = oid === undefined ? { database, schema, table } : { database, schema, table, oid };
  const whose = sender === undefined || sender.id === null ? {} : { sender: sender.id };
  const arrivedAtMs = ('arrivedAtMs' in outcome && outcome.arrivedAtMs) || Math.round(atMs - seconds * 1_000);
  const took = { rows, ms: Math.round(seconds * 100_000) / 100 };
  const said = { id, atMs, arrivedAtMs, ...named, ...whose, code, ...took };
  if (outcome.kind === 'batch.answered')
    return { ...said, door: 'websocket', status: 0, bytes: null, address: '' };
  const { status, bytes = null, remoteAddress = '', held, path } = outcome;
  const way = path === undefined ? {} : { path };
  const line: TailLine = { ...said, ...way, door: 'http', status, bytes, address: remoteAddress };
  return held === undefined ? line : { ...line, held };
}

/**
 * The last outcomes of this process in memory: a ring of `tailRingMax` places. Takes answered requests and batches, and refused requests that
 * were written down, which it matches with their outcomes; returns an outcome by its number. An outcome costs only one stored reference.
 */
class RingBuffer {
  readonly #clock: () => number;
  /** Called with the name of what is no longer remembered. */
  readonly #forget: (held: string) => void;
  readonly #outcomes: (CountedAnswer | undefined)[] = Array.from({ length: limits.tailRingMax });
  readonly #times = new Float64Array(limits.tailRingMax);
  /** The ids of those that were written down. */
  readonly #refusals: (string | undefined)[] = Array.from({ length: limits.tailRingMax });
  /** Written down before the answer, and when: the outcome is still to come. One that does not come in time was forgotten before. */
  #early: { readonly row: StoredRefusal; readonly atMs: number }[] = [];
  /** The number of outcomes so far; modulo the length, it is the place of the next one. */
  #count = 0;

  /** `clock`: ms since 1970. */
  constructor(clock: () => number, forget: (held: string) => void) {
    this.#clock = clock;
    this.#forget = forget;
  }

  get count(): number {
    return this.#count;
  }

  /** The number of the oldest outcome that is remembered. */
  get first(): number {
    return Math.max(0, this.#count - limits.tailRingMax);
  }

  /** `refusal`: the id under which it was written down. */
  at(number: number): {
    readonly outcome: CountedAnswer | undefined;
    readonly atMs: number;
    readonly refusal: string | undefined;
  } {
    const place = number % limits.tailRingMax;
    return {
      outcome: this.#outcomes[place],
      atMs: this.#times[place] ?? 0,
      refusal: this.#refusals[place],
    };
  }

  add(outcome: CountedAnswer): void {
    if (outcome.table === null && 'path' in outcome && outcome.path === doctorPath) return;
    const place = this.#count % limits.tailRingMax;
    const before = this.#outcomes[place];
    if (before !== undefined && 'held' in before && before.held !== undefined) this.#forget(before.held);
    this.#outcomes[place] = outcome;
    this.#times[place] = this.#clock();
    this.#refusals[place] =
      this.#early.length === 0 || outcome.code === 'committed' ? undefined : this.#takeEarly(outcome);
    this.#count += 1;
  }

  /** Refused requests have been written down. */
  stored(rows: readonly StoredRefusal[]): void {
    for (const row of rows) {
      const place = this.#placeOf(row);
      if (place !== null) this.#refusals[place] = row.id;
      else this.#early = [...this.#early, { row, atMs: this.#clock() }].slice(-limits.tailEarlyMax);
    }
  }

  #placeOf(row: StoredRefusal): number | null {
    for (let i = this.#count - 1; i >= this.first; i--) {
      const place = i % limits.tailRingMax;
      if (this.#refusals[place] === undefined && isOf(row, this.#outcomes[place])) return place;
    }
    return null;
  }

  #takeEarly(outcome: CountedAnswer): string | undefined {
    const since = this.#clock() - limits.tailKeptMs;
    const inTime = this.#early.filter(({ atMs }) => atMs > since);
    const found = inTime.find(({ row }) => isOf(row, outcome));
    this.#early = inTime.filter((it) => it !== found);
    return found?.row.id;
  }
}

/** A batch has neither the address nor the time of its request. */
function isOf(
  { database, oid, code, arrivedAtMs, remoteAddress }: StoredRefusal,
  outcome: CountedAnswer | undefined,
) {
  if (outcome === undefined || outcome.code !== code) return false;
  const { table } = outcome;
  if (table?.oid !== oid || table.database !== database) return false;
  if (outcome.kind === 'batch.answered') return true;
  return outcome.arrivedAtMs === arrivedAtMs && outcome.remoteAddress === remoteAddress;
}
