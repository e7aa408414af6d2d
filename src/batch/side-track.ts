/**
 * The side track: requests that are large and have no order to keep are committed beside the small ones of their table,
 * which would otherwise wait for as long as a million rows take; and only a few of them at one time over all tables, so
 * that connections, disk and processors are left for the small ones. Takes nothing but Rows; refuses and touches nothing.
 */
import type { Rows } from '../flow.ts';
import type { Limits } from '../limits.ts';

/** Rows of a table with a key replace each other in order, and those of a chain follow those before them. */
export function goesAside(
  { target, chain, removes, count, bytes }: Rows,
  { groupRowsMax, groupBytesMax }: Pick<Limits, 'groupRowsMax' | 'groupBytesMax'>,
): boolean {
  const isLarge = count > groupRowsMax || bytes > groupBytesMax;
  return isLarge && chain === null && removes === null && target.shape.key.length === 0;
}

/** Lets so many through at one time, the others in the order in which they came. */
export class Passes {
  #left: number;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number) {
    this.#left = max;
  }

  /** Resolves with what ends it, to be called once. */
  async take(): Promise<() => void> {
    if (this.#left > 0) this.#left -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next === undefined) this.#left += 1;
      else next();
    };
  }
}
