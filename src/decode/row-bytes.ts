/**
 * The documents of one request while they are made: bytes that grow up to a bound. May refuse with `body_too_large`: INCLUDE columns are repeated in every row of a batch.
 */
import { allocLarge, freeBuffer } from '../kit/free-buffer.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';

const backslash = 0x5c;
/** What is escaped in a JSON document's text, with the letter after the backslash: a document holds no other controls. */
const escapeLetters = new Uint8Array(256);
for (const [char, letter] of ['""', '\\\\', '\nn', '\rr', '\tt'])
  escapeLetters[char!.charCodeAt(0)] = letter!.charCodeAt(0);
/** Escaped text may be twice as long: space for this much is reserved at one time. */
const escapedAtOnceBytes = 64 * 1024;

export class RowBytes {
  length = 0;
  #bytes: Buffer;
  readonly #bytesMax: number;

  /** `sourceBytes`: the length of the source; `more`: how much longer the rows are expected to be. */
  constructor(sourceBytes: number, more: number) {
    this.#bytesMax = sourceBytes + limits.decodeGrowthBytesMax;
    this.#bytes = allocLarge(Math.min(sourceBytes + more, this.#bytesMax));
  }

  copy(source: Buffer, start: number, end: number): void {
    this.#reserve(end - start);
    source.copy(this.#bytes, this.length, start, end);
    this.length += end - start;
  }

  write(bytes: Buffer): void {
    this.copy(bytes, 0, bytes.length);
  }

  /** Characters of one byte each. */
  ascii(text: string): void {
    this.#reserve(text.length);
    this.length += this.#bytes.write(text, this.length, 'latin1');
  }

  hex(source: Buffer, start: number, end: number): void {
    for (let at = start; at < end; at += escapedAtOnceBytes)
      this.ascii(source.toString('hex', at, Math.min(end, at + escapedAtOnceBytes)));
  }

  /** The text of a JSON document as the inside of a JSON string. */
  escaped(source: Buffer, start: number, end: number): void {
    for (let at = start; at < end; at += escapedAtOnceBytes) {
      const until = Math.min(end, at + escapedAtOnceBytes);
      this.#reserve(2 * (until - at));
      const bytes = this.#bytes;
      let { length } = this;
      for (let i = at; i < until; i++) {
        const code = source[i]!;
        const letter = escapeLetters[code]!;
        if (letter !== 0) bytes[length++] = backslash;
        bytes[length++] = letter === 0 ? code : letter;
      }
      this.length = length;
    }
  }

  byte(code: number): void {
    this.#reserve(1);
    this.#bytes[this.length++] = code;
  }

  done(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Frees the bytes: the rows are refused. */
  drop(): void {
    freeBuffer(this.#bytes);
  }

  #reserve(more: number): void {
    const needed = this.length + more;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#bytesMax)
      throw new Refused(
        'body_too_large',
        `the rows of this request are more than ${limits.decodeGrowthBytesMax} bytes larger than its body`,
      );
    const larger = allocLarge(Math.min(this.#bytesMax, Math.max(needed, this.#bytes.length * 2)));
    this.#bytes.copy(larger, 0, 0, this.length);
    freeBuffer(this.#bytes);
    this.#bytes = larger;
  }
}

/** Which rows leave which columns as they are. Rows that leave the same columns share one list. */
export class KeptColumns {
  readonly #rows = new Map<number, readonly string[]>();
  readonly #lists = new Map<string, readonly string[]>();

  add(row: number, columns: readonly string[]): void {
    const key = columns.join('\0');
    const list = this.#lists.get(key) ?? columns;
    this.#lists.set(key, list);
    this.#rows.set(row, list);
  }

  done(): ReadonlyMap<number, readonly string[]> | null {
    return this.#rows.size === 0 ? null : this.#rows;
  }
}
