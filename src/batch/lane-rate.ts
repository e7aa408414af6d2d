/**
 * How fast one table commits; pure. Takes how long its groups took; returns how many rows the next one should have, and how long a row would wait.
 *
 * A group that takes longer than `groupTargetMs` makes the next ones smaller in proportion; one that shows that
 * twice as many rows would take less makes them twice as large. The wait of a row is taken to have grown only when two
 * consecutive groups say so: a hiccup (of a disk, of a lock) makes a few groups smaller, and refuses nobody.
 */
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Target } from '../types/target.ts';

/** Of a table of which nothing is known yet. In RisingWave a checkpoint takes the same time whatever it holds. */
export function paceOf({ into }: Target, bounds: Pick<Limits, 'groupRowsMax' | 'groupTargetMs'>): Pace {
  if (into === undefined) return new Pace(bounds);
  const { risingwaveGroupRowsMax: groupRowsMax, risingwaveGroupTargetMs: groupTargetMs } = limits;
  return new Pace({ groupRowsMax, groupTargetMs });
}

export class Pace {
  readonly #limits: Pick<Limits, 'groupRowsMax' | 'groupTargetMs'>;
  #groupRows: number;
  #groupMs = 0;
  /** The minimum time of a group, according to the previous one. */
  #least = 0;

  constructor(limits: Pick<Limits, 'groupRowsMax' | 'groupTargetMs'>) {
    this.#limits = limits;
    this.#groupRows = limits.groupRowsMax;
  }

  /** The most rows that a group should have. */
  get groupRows(): number {
    return this.#groupRows;
  }

  /** The time that a group takes, at most `groupTargetMs`. */
  get groupMs(): number {
    return Math.min(this.#groupMs, this.#limits.groupTargetMs);
  }

  /** How long a row with `rowsBefore` rows before it waits until it is committed. */
  waitMs(rowsBefore: number): number {
    return (Math.floor(rowsBefore / this.#groupRows) + 1) * this.#groupMs;
  }

  /** A group of so many rows has ended, whatever its outcome. */
  record(rows: number, ms: number): void {
    const { groupRowsMax, groupTargetMs } = this.#limits;
    const before = this.#groupRows;
    if (ms > groupTargetMs)
      this.#groupRows = Math.min(before, Math.max(1, Math.floor((rows * groupTargetMs) / ms)));
    // How much of the time its rows took, and how much any group takes, is not known.
    else if (ms * Math.max(1, before / rows) * 2 < groupTargetMs)
      this.#groupRows = Math.min(groupRowsMax, before * 2);
    const ratio = this.#groupRows / rows;
    const [least, most] = [ms * Math.min(1, ratio), ms * Math.max(1, ratio)];
    const expected = Math.min(most, (this.#groupMs * this.#groupRows) / before);
    // Longer than expected, twice.
    this.#groupMs = Math.max(expected, Math.min(least, this.#least));
    this.#least = least;
  }
}
