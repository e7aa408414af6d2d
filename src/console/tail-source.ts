/**
 * Tells watchers the last outcomes of this process. Takes observations, passes lines to watchers: first the remembered ones (ring-buffer.ts), then
 * new ones in batches. A refused request is passed on with the id under which it was written down, for which it and those after it wait a moment.
 * While nobody watches, nothing is done for an outcome but to remember it.
 */
import { isWorthKeeping } from '../errors/refusals.ts';
import { randomBytes } from 'node:crypto';
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import type { Recall, TailBatch, TailLine, TailSource } from '../observe/tail.ts';
import type { StoredRefusal } from '../types/journal.ts';
import { byArrival, isBeyond, matchesLine } from './request-filter.ts';
import { RingBuffer } from './ring-buffer.ts';
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
