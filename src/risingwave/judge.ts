/**
 * Which rows of a refused INSERT are at fault. RisingWave names none: neither position nor detail is in its errors, and there are no
 * savepoints. So the same values are asked for by `VALUES`, which reads them and stores nothing, in halves until the rows at fault stand
 * alone. Takes rows, gives those that are refused; touches nothing but the function that asks. Bounded by `groupProbesMax` questions.
 */
import { limits } from '../tables/limits.ts';
import type { Rows } from '../tables/flow.ts';
import type { BadRow, Encoded } from './encode.ts';
import { misfitOf, typedValues } from './encode.ts';
import { printType } from './types.ts';

/** null: RisingWave read it; a text: what it said; `undefined`: it said nothing that can be believed. */
export type Probe = (sql: string) => Promise<string | null | undefined>;

/** Where a row stands. */
export interface Place {
  readonly rows: Rows;
  readonly row: number;
}

export class Judge {
  readonly #probe: Probe;
  readonly #columns: Encoded['columns'];
  readonly #found: (Place & BadRow)[] = [];
  #left: number = limits.groupProbesMax;
  #trusted = false;

  constructor(probe: Probe, columns: Encoded['columns']) {
    this.#probe = probe;
    this.#columns = columns;
  }

  /**
   * Rows at fault: all, or one of each request, and of very many only some. null: none was found, and that there is none is not known.
   * `of`: whether one of a request is enough.
   */
  async bad(places: readonly Place[], of: 'all' | 'one each'): Promise<readonly (Place & BadRow)[] | null> {
    const ended = await this.#search(places, of);
    return ended || this.#found.length > 0 ? this.#found : null;
  }

  /** Whether it came to its end. */
  async #search(all: readonly Place[], of: 'all' | 'one each'): Promise<boolean> {
    const places = of === 'all' ? all : all.filter(({ rows }) => !this.#found.some((it) => it.rows === rows));
    const [first] = places;
    if (first === undefined) return true;
    const tuples = places.map(({ rows, row }) => `(${typedValues(rows, row, this.#columns).join(',')})`);
    const said = await this.#ask(tuples);
    if (said === undefined || said === null) return said === null;
    if (places.length === 1) return this.#alone(first);
    const middle = places.length >> 1;
    return (await this.#search(places.slice(0, middle), of)) && this.#search(places.slice(middle), of);
  }

  async #alone(place: Place): Promise<boolean> {
    if (!(await this.#isTrusted())) return false;
    for (const [i, value] of typedValues(place.rows, place.row, this.#columns).entries()) {
      const said = await this.#ask([`(${value})`]);
      const column = this.#columns[i];
      if (said === undefined) return false;
      if (said === null || column === undefined) continue;
      this.#found.push({ ...place, refusal: misfitOf(column, said) });
      return true;
    }
    // Each value by itself could be read: something passed meanwhile.
    return false;
  }

  /** Where no values at all are read, it is RisingWave that fails, and no row. */
  async #isTrusted(): Promise<boolean> {
    this.#trusted ||=
      (await this.#ask([
        `(${this.#columns.map(({ type }) => (type.kind === 'map' ? 'NULL' : `NULL::${printType(type)}`)).join(',')})`,
      ])) === null;
    return this.#trusted;
  }

  #ask(tuples: readonly string[]): ReturnType<Probe> {
    this.#left -= 1;
    return this.#left < 0 ? Promise.resolve(undefined) : this.#probe(`values ${tuples.join(',')}`);
  }
}

/** The innermost cause of a report, in one line, e.g. `invalid digit found in string`. */
export function causeOf(report: string): string {
  const lines = report.split('\n').map((line) => line.trim());
  const numbered = lines.findLast((line) => /^\d+: /.test(line))?.replace(/^\d+: /, '');
  const single = lines[lines.indexOf('Caused by:') + 1];
  const cause = (numbered ?? (lines.includes('Caused by:') ? single : lines[0]) ?? '').replaceAll(
    /\s+/g,
    ' ',
  );
  const points = Array.from(cause.slice(0, 2 * limits.reasonCharsMax));
  return points.length > limits.reasonCharsMax
    ? `${points.slice(0, limits.reasonCharsMax).join('')}…`
    : cause;
}
