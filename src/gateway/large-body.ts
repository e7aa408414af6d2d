/**
 * A body of POST /v1/events that may be too large to be held whole, read in the pieces in which it arrives. Takes pieces, returns Rows in chunks, or the
 * whole body if it turns out to be small; refuses with `event_not_object` and as decode does. Holds at most `eventsLaneBytesMax` of a body, a chunk and
 * a line.
 */
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { Gathered } from '../kit/gathered-bytes.ts';
import { freeStore } from '../kit/free-buffer.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { beginsObject, firstByte, isObjectOverLines } from '../decode/event-text.ts';
import { LineSplitter } from '../decode/line-splitter.ts';
import type { Lines } from '../decode/line-splitter.ts';
import { noEvent, refuseNoEvents } from './line-refused.ts';
import { linesOf, objectOf } from './skipped-lines.ts';
import type { Skipped } from './skipped-lines.ts';

/** The next bytes, or null after the last ones. Throws Refused. */
type NextPiece = () => Promise<Buffer | null>;

/** A body that has arrived. */
export const noMore: NextPiece = () => Promise.resolve(null);

export class LargeBody {
  readonly #next: NextPiece;
  /** The part already read. */
  #head: Buffer;

  constructor(next: NextPiece, head: Buffer = Buffer.of()) {
    this.#next = next;
    this.#head = head;
  }

  /** The whole body if it is small; null: it is large, and `chunks` returns it. Throws Refused. */
  async small(): Promise<Buffer | null> {
    const { bytes, ended } = await this.#collect([], limits.eventsLaneBytesMax);
    // Blanks may come before the events, as many as there are.
    if (ended || firstByte(bytes) < bytes.length) refuseNoEvents(bytes);
    if (ended) return bytes;
    this.#head = bytes;
    return null;
  }

  /**
   * The rows of a large body, chunk by chunk. The consumer owns their memory, and may free it. `arrived`: called once, when the last byte has been read and
   * the sender waits; rows may follow.
   */
  async *chunks(target: Target, skipped: Skipped | null, arrived: () => void): AsyncGenerator<Rows> {
    let head = this.#head;
    this.#head = Buffer.of();
    let ended = false;
    let isEmpty = skipped === null;
    if (beginsObject(head)) {
      // One object over several lines must be held whole.
      ({ bytes: head, ended } = await this.#collect([head], limits.eventsLineBytesMax));
      if (ended) arrived();
      if (ended && isObjectOverLines(head)) {
        const rows = objectOf(target, head, skipped);
        if (rows !== null) yield rows;
        return;
      }
    }
    if (firstByte(head) < head.length) refuseNoEvents(head);
    const splitter = new LineSplitter(limits.eventsLineBytesMax);
    for (let chunk = head; ;) {
      const block = splitter.push(chunk);
      const rows = block === null ? null : rowsOf(target, block, skipped);
      if (rows !== null) {
        isEmpty = false;
        yield rows;
      }
      if (ended) break;
      ({ bytes: chunk, ended } = await this.#collect([], limits.eventsChunkBytesMax));
      if (ended) arrived();
    }
    const last = splitter.end();
    const rows = last === null ? null : rowsOf(target, last, skipped);
    if (rows !== null) yield rows;
    else if (isEmpty) throw new Refused('event_not_object', noEvent);
  }

  /** Reads on after `begun` until there are more than `bytesMax`, or the body ends. */
  async #collect(
    begun: readonly Buffer[],
    bytesMax: number,
  ): Promise<{ readonly bytes: Buffer; readonly ended: boolean }> {
    const gathered = new Gathered();
    for (const piece of begun) gathered.add(piece);
    while (gathered.length <= bytesMax) {
      const piece = await this.#next();
      if (piece === null) return { bytes: gathered.done(), ended: true };
      gathered.add(piece);
    }
    return { bytes: gathered.done(), ended: false };
  }
}

/** Consumes the block: its memory is reused by the rows, or freed. */
function rowsOf(target: Target, block: Lines, skipped: Skipped | null): Rows | null {
  const rows = linesOf(target, block, skipped);
  if (rows?.documents.bytes.buffer !== block.bytes.buffer) freeStore(block.bytes);
  return rows;
}
