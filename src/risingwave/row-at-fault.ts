/**
 * Which rows of a refused INSERT are at fault. RisingWave identifies none: its errors have neither position nor detail, and there are
 * no savepoints. So the same values are sent with `VALUES`, which parses them and stores nothing, in halves until the rows at fault are
 * isolated. Takes rows, returns those that are refused; touches nothing but the query function. Bounded by `groupProbesMax` queries.
 */
import { limits } from '../config/limits.ts';
import type { Rows } from '../types/rows.ts';
import type { BadRow, Encoded } from './encode.ts';
import { misfitOf, typedValues } from './encode.ts';
import { printType } from './types.ts';

/** null: RisingWave accepted it; a text: its message; `undefined`: it returned nothing that can be relied on. */
export type Probe = (sql: string) => Promise<string | null | undefined>;

/** The position of a row. */
export interface RequestRow {
  readonly rows: Rows;
  readonly row: number;
}

export class RowSearch {
  readonly #probe: Probe;
  readonly #columns: Encoded['columns'];
  readonly #found: (RequestRow & BadRow)[] = [];
  #left: number = limits.groupProbesMax;
  #trusted = false;

  constructor(probe: Probe, columns: Encoded['columns']) {
    this.#probe = probe;
    this.#columns = columns;
  }

  /**
   * The rows at fault: all of them, or one of each request, and if there are very many, only some. null: none was
   * found, but it is not certain that there is none. `of`: whether one row of a request is enough.
   */
  async bad(
    places: readonly RequestRow[],
    of: 'all' | 'one each',
  ): Promise<readonly (RequestRow & BadRow)[] | null> {
    const ended = await this.#search(places, of);
    return ended || this.#found.length > 0 ? this.#found : null;
  }

  /** Whether the search was completed. */
  async #search(all: readonly RequestRow[], of: 'all' | 'one each'): Promise<boolean> {
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

  async #alone(place: RequestRow): Promise<boolean> {
    if (!(await this.#isTrusted())) return false;
    for (const [i, value] of typedValues(place.rows, place.row, this.#columns).entries()) {
      const said = await this.#ask([`(${value})`]);
      const column = this.#columns[i];
      if (said === undefined) return false;
      if (said === null || column === undefined) continue;
      this.#found.push({ ...place, refusal: misfitOf(column, said) });
      return true;
    }
    // Each value on its own was accepted: the failure was temporary.
    return false;
  }

  /** If not even NULLs are accepted, RisingWave fails, and no row is at fault. */
  async #isTrusted(): Promise<boolean> {
    this.#trusted ||=
      (await this.#ask([`(${this.#columns.map(({ type }) => `NULL::${printType(type)}`).join(',')})`])) ===
      null;
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
