/**
 * Cuts a streamed body at line ends: takes chunks, returns whole lines, as many together as have arrived. Holds at
 * most one line; may refuse with `body_too_large`. Chunks belong to it from then on; what it returns belongs to its
 * caller, who may free the memory.
 */
import { freeBuffer } from '../kit/free-buffer.ts';
import { Gathered } from '../kit/gathered-bytes.ts';
import { Refused } from '../errors/refusals.ts';

export class LineSplitter {
  /** The number of the first line of the next block, from 1. */
  nextLine = 1;
  #held: Gathered;
  readonly #lineBytesMax: number;

  /** Chunks should be no longer than `lineBytesMax`, which is checked for lines that span more than one. */
  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax;
    this.#held = new Gathered(lineBytesMax);
  }

  /** Whole lines, the last with its line end; null: no line has ended. */
  push(chunk: Buffer): Lines | null {
    const last = chunk.lastIndexOf(10);
    this.#bound(last < 0 ? chunk.length : chunk.indexOf(10));
    if (last < 0) {
      this.#hold(chunk);
      return null;
    }
    // A view of the chunk would keep all of it in memory.
    const rest = Buffer.from(chunk.subarray(last + 1));
    this.#hold(chunk.subarray(0, last + 1));
    const lines = this.#take();
    if (lines.bytes.buffer !== chunk.buffer) freeBuffer(chunk);
    this.#bound(rest.length);
    this.#hold(rest);
    return lines;
  }

  /** The last line, if the body does not end with a line end. */
  end(): Lines | null {
    return this.#held.length === 0 ? null : this.#take();
  }

  #bound(more: number): void {
    if (this.#held.length + more <= this.#lineBytesMax) return;
    throw new Refused(
      'body_too_large',
      `line ${this.nextLine}: a line has at most ${this.#lineBytesMax} bytes`,
    );
  }

  #hold(bytes: Buffer): void {
    if (bytes.length > 0) this.#held.add(bytes);
  }

  #take(): Lines {
    const bytes = this.#held.done();
    this.#held = new Gathered(this.#lineBytesMax);
    const firstLine = this.nextLine;
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) this.nextLine++;
    return { bytes, firstLine };
  }
}

export interface Lines {
  readonly bytes: Buffer;
  /** From 1. */
  readonly firstLine: number;
}
