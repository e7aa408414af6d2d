/**
 * The last outcomes of this process. Takes observations, passes lines to watchers: first the remembered ones, then new
 * ones in batches. While nobody watches, an outcome costs only one stored reference.
 */
import { randomBytes } from 'node:crypto';
import { limits } from '../config/limits.ts';
import type { Recall, TailBatch, TailLine, TailSource } from '../observe/tail.ts';
import type { Observation, Observe } from '../observe/observations.ts';
import { byArrival, isBeyond, matchesLine } from './request-filter.ts';

type Outcome = Extract<Observation, { kind: 'request.answered' | 'batch.answered' }>;

export class Ring implements TailSource {
  readonly #clock: () => number;
  readonly #outcomes: (Outcome | undefined)[] = Array.from({ length: limits.tailRingMax });
  readonly #times = new Float64Array(limits.tailRingMax);
  /** The number of outcomes so far; modulo the length, it is the place of the next one. */
  #count = 0;
  /** The first outcome not yet passed on. */
  #told = 0;
  readonly #watchers = new Set<(batch: TailBatch) => void>();
  #timer: NodeJS.Timeout | null = null;

  /** Called with the name of what is no longer remembered. */
  readonly #forget: (held: string) => void;
  /** What the event of a held request is called; null: not known. */
  readonly #eventOf: (held: string) => string | null;
  /** Other processes, now and before, have other names. */
  readonly #mine = randomBytes(6).toString('base64url');

  /** `clock`: ms since 1970. */
  constructor(
    clock: () => number,
    forget: (held: string) => void = () => {},
    eventOf: (held: string) => string | null = () => null,
  ) {
    this.#clock = clock;
    this.#forget = forget;
    this.#eventOf = eventOf;
  }

  readonly observe: Observe = (observation) => {
    if (observation.kind !== 'request.answered' && observation.kind !== 'batch.answered') return;
    const place = this.#count % limits.tailRingMax;
    const before = this.#outcomes[place];
    if (before !== undefined && 'held' in before && before.held !== undefined) this.#forget(before.held);
    this.#outcomes[place] = observation;
    this.#times[place] = this.#clock();
    this.#count += 1;
    if (this.#watchers.size > 0) this.#timer ??= setTimeout(() => this.#flush(), limits.tailFlushMs);
  };

  watch(told: (batch: TailBatch) => void): () => void {
    // Outcomes that wait for the other watchers reach this one among the remembered ones.
    this.#flush();
    this.#watchers.add(told);
    told({ lines: this.#lines(this.#count - limits.tailRecentMax, this.#count), skipped: 0 });
    return () => void this.#watchers.delete(told);
  }

  async recall({ filter, from, newer, max }: Recall): Promise<readonly TailLine[]> {
    const lines = this.#lines(0, this.#count).map((line) => this.#named(line));
    const found = lines.filter(
      (line) => matchesLine(line, filter) && (from === null || isBeyond(line, from, newer)),
    );
    found.sort(byArrival);
    return newer ? found.slice(-max) : found.slice(0, max);
  }

  #named(line: TailLine): TailLine {
    const event = line.held === undefined ? null : this.#eventOf(line.held);
    return event === null ? line : { ...line, event };
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const from = this.#told;
    this.#told = this.#count;
    if (this.#watchers.size === 0 || from === this.#count) return;
    const until = Math.min(this.#count, from + limits.tailSourceLinesMax);
    const lines = this.#lines(from, until);
    const batch = { lines, skipped: this.#count - from - lines.length };
    for (const told of this.#watchers) told(batch);
  }

  #lines(from: number, until: number): TailLine[] {
    const lines: TailLine[] = [];
    for (let i = Math.max(0, from, this.#count - limits.tailRingMax); i < until; i++) {
      const outcome = this.#outcomes[i % limits.tailRingMax];
      if (outcome === undefined) continue;
      const id = `${this.#mine}.${i}`;
      lines.push(lineOf(outcome, id, this.#times[i % limits.tailRingMax] ?? 0));
    }
    return lines;
  }
}

function lineOf(outcome: Outcome, id: string, atMs: number): TailLine {
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
