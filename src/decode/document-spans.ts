/**
 * Where the documents of one request begin and end in its bytes, and on which lines they were. No object is made for a document. May refuse
 * with `body_too_large`.
 */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';

/** A list of numbers without an object for each. */
class Numbers {
  #values: Uint32Array;
  length = 0;

  constructor(capacity: number) {
    this.#values = new Uint32Array(capacity);
  }

  push(value: number): void {
    if (this.length === this.#values.length) {
      const larger = new Uint32Array(Math.max(64, this.length * 2));
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.length++] = value;
  }

  /** Without unused space, if there is much of it. */
  done(): Uint32Array {
    const { length } = this;
    return length * 2 < this.#values.length
      ? this.#values.slice(0, length)
      : this.#values.subarray(0, length);
  }
}

/** Where documents begin and end, and on which lines they were. */
export class Spans {
  count = 0;
  readonly #places: Numbers;
  #lines: Numbers | null = null;

  constructor(expected: number) {
    this.#places = new Numbers(expected * 2);
  }

  /** `line` counts from 1. */
  add(start: number, end: number, line: number): void {
    if (this.count === limits.batchRowsMax)
      throw new Refused('body_too_large', `the batch has more than ${limits.batchRowsMax} rows`);
    this.#places.push(start);
    this.#places.push(end);
    if (this.#lines === null && line !== this.count + 1) {
      this.#lines = new Numbers(this.count * 2 + 16);
      for (let i = 1; i <= this.count; i++) this.#lines.push(i);
    }
    this.#lines?.push(line);
    this.count++;
  }

  places(): Uint32Array {
    return this.#places.done();
  }

  /** null: row i is line i + 1. */
  lines(): Uint32Array | null {
    return this.#lines?.done() ?? null;
  }
}
