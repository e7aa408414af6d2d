/**
 * How much a WebSocket's receiver holds of a message that is not complete. Takes the sizes of what the socket passes to
 * the receiver and of the messages that it makes of it; returns an upper bound in bytes; touches nothing. The receiver keeps
 * the pieces as they arrived: a piece of one byte costs far more than a byte.
 */

/** What a piece costs besides its bytes: a Buffer and its backing store, measured. */
const pieceCostBytes = 256;

export class PartialMessage {
  #bytes = 0;
  #pieces = 0;
  #piece = 0;
  #emitted = false;

  /** Bytes that are held, at most. */
  get held(): number {
    return this.#bytes === 0 ? 0 : this.#bytes + this.#pieces * pieceCostBytes;
  }

  /** The socket is about to give this many bytes to the receiver. */
  received(bytes: number): void {
    this.#piece = bytes;
    this.#emitted = false;
    this.#bytes += bytes;
    this.#pieces += 1;
  }

  /** The receiver has emitted a message, a ping or a pong; its header counts as the smallest that a client can write. */
  emitted(bytes: number, whole: boolean): void {
    this.#bytes -= bytes + (bytes < 126 ? 6 : bytes < 65_536 ? 8 : 14);
    if (whole) this.#emitted = true;
  }

  /** The receiver has processed what it was given. */
  settled(): void {
    // Headers of fragments are not reported; but what is left after a message is at most the piece in which it ended.
    if (this.#emitted) this.#bytes = Math.min(this.#bytes, this.#piece);
    this.#bytes = Math.max(this.#bytes, 0);
    if (this.#bytes === 0) this.#pieces = 0;
    else if (this.#emitted) this.#pieces = 1;
  }
}
