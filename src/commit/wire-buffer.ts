/**
 * Bytes for the engine; pure: one exactly sized buffer for everything small, cut where a large document
 * is passed through without a copy.
 */

/** Documents above this are sent as they are; smaller ones are copied together, which costs less than a write each. */
const mergeBytesMax = 32 * 1024;

/** How many of a document's bytes are copied. */
export function mergedBytes(length: number): number {
  return length <= mergeBytesMax ? length : 0;
}

export class Pieces {
  readonly #pieces: Buffer[] = [];
  readonly #buffer: Buffer;
  #start = 0;
  #at = 0;

  /** `bytes`: exactly what will be written, documents by `mergedBytes`. */
  constructor(bytes: number) {
    this.#buffer = Buffer.allocUnsafe(bytes);
  }

  byte(value: number): void {
    this.#buffer[this.#at++] = value;
  }

  int16(value: number): void {
    this.#at = this.#buffer.writeInt16BE(value, this.#at);
  }

  int32(value: number): void {
    this.#at = this.#buffer.writeInt32BE(value, this.#at);
  }

  copy(bytes: Buffer): void {
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  document(bytes: Buffer, start: number, end: number): void {
    if (mergedBytes(end - start) > 0) {
      this.#at += bytes.copy(this.#buffer, this.#at, start, end);
      return;
    }
    this.#cut();
    if (end > start) this.#pieces.push(bytes.subarray(start, end));
  }

  end(): Buffer[] {
    this.#cut();
    return this.#pieces;
  }

  #cut(): void {
    if (this.#at > this.#start) this.#pieces.push(this.#buffer.subarray(this.#start, this.#at));
    this.#start = this.#at;
  }
}
