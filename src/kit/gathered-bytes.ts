/**
 * Bytes that arrive in pieces and are needed in one. Takes pieces, which belong to it from then on; returns one buffer. Holds
 * little more than the bytes themselves, however small the pieces are: a buffer of one byte costs a few hundred.
 */
import { allocApart, apartBytesMin, freeBuffer, startOf } from './free-buffer.ts';

/** Pieces of this size are kept as they are; smaller ones are joined. */
const pieceBytesMin = 32 * 1024;
const blockBytesMin = 4 * 1024;
const blockBytesMax = 64 * 1024;

/**
 * From this length on, the pieces of what is expected to become large are copied to their final place as they arrive, and are
 * freed at once. Not from the first piece on: it costs a sender nothing to announce a large body.
 */
const begunBytesMin = 1024 * 1024;

const empty = Buffer.alloc(0);

export class Gathered {
  /** Bytes of all pieces. */
  length = 0;
  /** How many pieces there were. */
  pieces = 0;
  readonly #parts: Buffer[] = [];
  /** The buffers that the parts are views of. */
  readonly #stores: Buffer[] = [];
  /** The last block, with free space after its first `#used` bytes; null: there is none. */
  #block: Buffer | null = null;
  #used = 0;
  /** Where all bytes are once they have become many; null: not yet. */
  #apart: Buffer | null = null;
  readonly #apartFrom: number;

  /** `expectedBytes`: how many there will be, or may be; if unknown, only their number so far counts. */
  constructor(expectedBytes = 0) {
    this.#apartFrom = expectedBytes < apartBytesMin ? apartBytesMin : begunBytesMin;
  }

  add(piece: Buffer): void {
    this.length += piece.length;
    this.pieces += 1;
    if (this.length >= this.#apartFrom) return this.#addApart(piece);
    let rest = piece;
    while (rest.length > 0) {
      if (this.#block === null && (rest.length >= pieceBytesMin || this.pieces === 1)) {
        this.#parts.push(rest);
        this.#stores.push(piece);
        return;
      }
      this.#block ??= Buffer.allocUnsafeSlow(
        Math.min(blockBytesMax, Math.max(blockBytesMin, this.length, rest.length)),
      );
      const fits = rest.copy(this.#block, this.#used);
      this.#used += fits;
      rest = rest.subarray(fits);
      if (this.#used === this.#block.length) this.#seal();
    }
    freeBuffer(piece);
  }

  #addApart(piece: Buffer): void {
    const at = this.length - piece.length;
    if (this.#apart === null || this.#apart.length < this.length) {
      const larger = allocApart(2 * this.length);
      if (this.#apart === null) this.#joinInto(larger);
      else {
        this.#apart.copy(larger, 0, 0, at);
        freeBuffer(this.#apart);
      }
      this.#apart = larger;
    }
    piece.copy(this.#apart, at);
    freeBuffer(piece);
  }

  /** All of them in order; holds nothing afterwards. */
  done(): Buffer {
    const apart = this.#apart;
    this.#apart = null;
    if (apart !== null) return startOf(apart, this.length);
    this.#seal();
    if (this.#parts.length > 1) return this.#joinInto(Buffer.allocUnsafe(this.length));
    const [only = empty] = this.#parts.splice(0);
    this.#stores.length = 0;
    return only;
  }

  #joinInto(whole: Buffer): Buffer {
    this.#seal();
    let at = 0;
    for (const part of this.#parts.splice(0)) at += part.copy(whole, at);
    for (const store of this.#stores.splice(0)) freeBuffer(store);
    return whole;
  }

  /** Frees pieces that will not be used. */
  drop(): void {
    this.#seal();
    this.#parts.length = 0;
    for (const store of this.#stores.splice(0)) freeBuffer(store);
    if (this.#apart !== null) freeBuffer(this.#apart);
    this.#apart = null;
  }

  #seal(): void {
    if (this.#block !== null) {
      this.#parts.push(this.#block.subarray(0, this.#used));
      this.#stores.push(this.#block);
    }
    this.#block = null;
    this.#used = 0;
  }
}
