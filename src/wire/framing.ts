/**
 * The lowest layer of the SQL door: cuts one direction of a connection into messages without copying it.
 *
 * Takes chunks as they arrive and a reader that says, per message, how much of it must be seen; returns slices to send
 * on, in order. Messages that need not be looked at leave as one slice with their neighbours, and a large one leaves
 * piece by piece: only what must be held is held. Refuses a length below four with `ProtocolViolation`.
 */

/** What to do with a message that was seen: null sends it unchanged, bytes are sent in its place. */
export type FrameRewrite = Buffer | null;

/** Returned by `begin` for a message that may pass without being looked at. */
export const unread = -1;

export interface FrameReader {
  /**
   * Called once per message, when its header is known. Returns how many bytes of the body must be seen before anything
   * of the message is sent on (at most `bodyLength`), or `unread`.
   */
  begin(type: number, bodyLength: number): number;
  /**
   * Called with the bytes that `begin` requested. Only a message that was seen as a whole may be replaced. A promise
   * holds this message and everything after it; it must not reject.
   */
  message(type: number, body: Buffer): FrameRewrite | Promise<FrameRewrite>;
}

/** The peer does not speak the protocol; the connection cannot be used any further. */
export class ProtocolViolation extends Error {
  override readonly name = 'ProtocolViolation';
}

const headerBytes = 5;

/** A message that waits for its verdict, and what follows it in the same chunk. */
interface HeldMessage {
  readonly verdict: Promise<FrameRewrite>;
  readonly original: Buffer;
  /** Bytes of the message's body that have not arrived yet, if the verdict leaves the message unchanged. */
  readonly remaining: number;
  readonly rest: Buffer;
}

export class Framer {
  readonly #reader: FrameReader;
  readonly #emit: (bytes: Buffer) => void;
  /** Bytes that have not arrived yet of a message whose beginning has been sent on. */
  #skip = 0;
  /** The pieces of a message that is not yet complete enough to decide, and their length. */
  #pieces: Buffer[] = [];
  #gathered = 0;
  /** The length that `#pieces` must reach: first the header, then what the reader wants to see. */
  #need = headerBytes;
  #begun = false;
  #held = false;

  constructor(reader: FrameReader, emit: (bytes: Buffer) => void) {
    this.#reader = reader;
    this.#emit = emit;
  }

  /** No message has been received in part: what is sent now is between two messages. */
  get atBoundary(): boolean {
    return this.#skip === 0 && this.#gathered === 0 && !this.#held;
  }

  /** Like `atBoundary`, for the bytes that have been sent on: pieces that are still held back do not count. */
  get emittedWhole(): boolean {
    return this.#skip === 0;
  }

  /**
   * Returns null if the chunk was accepted, or a promise if a message in it waits for its verdict: the caller must not
   * push anything more until it is settled. The promise rejects with what a plain call throws.
   */
  push(chunk: Buffer): Promise<void> | null {
    if (this.#held) throw new Error('a chunk was pushed while a message is held');
    const held = this.#walk(chunk);
    return held === null ? null : this.#waitFor(held);
  }

  async #waitFor(first: HeldMessage): Promise<void> {
    let held: HeldMessage | null = first;
    while (held !== null) {
      this.#held = true;
      const verdict: FrameRewrite = await held.verdict;
      this.#held = false;
      this.#emit(verdict ?? held.original);
      this.#skip = held.remaining;
      held = held.rest.length === 0 ? null : this.#walk(held.rest);
    }
  }

  #walk(chunk: Buffer): HeldMessage | null {
    const end = chunk.length;
    let at = Math.min(this.#skip, end);
    this.#skip -= at;
    let start = 0;
    if (this.#gathered > 0 && at < end) {
      if (at > start) this.#emit(chunk.subarray(start, at));
      const held = this.#gather(chunk, at);
      if (typeof held !== 'number') return held;
      at = held;
      start = this.#passFrom;
    }
    while (at < end) {
      if (end - at < headerBytes) break;
      const type = chunk[at]!;
      const bodyLength = bodyLengthOf(chunk, at);
      const bodyAt = at + headerBytes;
      const want = this.#reader.begin(type, bodyLength);
      if (want > end - bodyAt) {
        this.#begun = true;
        this.#need = headerBytes + want;
        break;
      }
      const verdict =
        want === unread ? null : this.#reader.message(type, chunk.subarray(bodyAt, bodyAt + want));
      const next = bodyAt + bodyLength;
      if (verdict !== null) {
        if (at > start) this.#emit(chunk.subarray(start, at));
        if (verdict instanceof Promise) {
          const original = chunk.subarray(at, Math.min(next, end));
          const rest = chunk.subarray(Math.min(next, end));
          return { verdict, original, remaining: Math.max(0, next - end), rest };
        }
        this.#emit(verdict);
        start = next;
      }
      at = next;
    }
    if (at > end) {
      this.#skip = at - end;
      at = end;
    }
    if (at > start) this.#emit(start === 0 && at === end ? chunk : chunk.subarray(start, at));
    if (at < end) this.#keep(chunk.subarray(at));
    return null;
  }

  /** Where the bytes that may pass begin, after `#gather` has used the beginning of the chunk. */
  #passFrom = 0;

  /** Completes the message that earlier chunks have begun; returns the offset after it, or what holds it. */
  #gather(chunk: Buffer, from: number): number | HeldMessage {
    let at = from;
    while (at < chunk.length) {
      const take = Math.min(this.#need - this.#gathered, chunk.length - at);
      this.#keep(chunk.subarray(at, at + take));
      at += take;
      if (this.#gathered < this.#need) break;
      if (!this.#begun && this.#beginGathered() && this.#gathered < this.#need) continue;
      const whole = Buffer.concat(this.#pieces, this.#gathered);
      const bodyLength = bodyLengthOf(whole, 0);
      const verdict = this.#begun ? this.#reader.message(whole[0]!, whole.subarray(headerBytes)) : null;
      const remaining = bodyLength + headerBytes - whole.length;
      this.#forget();
      if (verdict instanceof Promise)
        return { verdict, original: whole, remaining, rest: chunk.subarray(at) };
      this.#emit(verdict ?? whole);
      const pass = Math.min(remaining, chunk.length - at);
      this.#skip = remaining - pass;
      this.#passFrom = at;
      return at + pass;
    }
    this.#passFrom = at;
    return at;
  }

  /** The header is complete: asks the reader; true if the message must be seen. */
  #beginGathered(): boolean {
    const header = Buffer.concat(this.#pieces, this.#gathered);
    const want = this.#reader.begin(header[0]!, bodyLengthOf(header, 0));
    if (want === unread) return false;
    this.#begun = true;
    this.#need = headerBytes + want;
    return true;
  }

  #keep(piece: Buffer): void {
    if (piece.length === 0) return;
    // A few bytes are copied, so that they do not keep the chunk that they came in alive.
    this.#pieces.push(piece.length < 1024 ? Buffer.from(piece) : piece);
    this.#gathered += piece.length;
  }

  #forget(): void {
    this.#pieces = [];
    this.#gathered = 0;
    this.#need = headerBytes;
    this.#begun = false;
  }
}

function bodyLengthOf(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at + 1);
  if (length < 4) throw new ProtocolViolation('invalid message length');
  return length - 4;
}
