/**
 * The last outcomes of this process in memory: a ring of `tailRingMax` places. Takes answered requests and batches, and refused requests that
 * were written down, which it matches with their outcomes; returns an outcome by its number. An outcome costs only one stored reference.
 */
import { limits } from '../config/limits.ts';
import { doctorPath } from '../observe/tail.ts';
import type { CountedAnswer } from '../reject/traffic.ts';
import type { StoredRefusal } from '../types/journal.ts';

export class RingBuffer {
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
