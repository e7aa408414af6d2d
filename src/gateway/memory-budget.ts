/** Bytes that many holders share. Takes and returns numbers; calls back those who wait, in the order in which they came. */
export class Budget {
  readonly #bytesMax: number;
  readonly #waiting = new Set<{ readonly bytes: number; readonly ready: () => void }>();
  #held = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get held(): number {
    return this.#held;
  }

  fits(bytes: number): boolean {
    return this.#held === 0 || this.#held + bytes <= this.#bytesMax;
  }

  /** Whether the bytes were granted. If nothing is held, any amount is. */
  take(bytes: number): boolean {
    if (!this.fits(bytes)) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
    for (const waiting of this.#waiting) {
      if (!this.fits(waiting.bytes)) return;
      this.#waiting.delete(waiting);
      waiting.ready();
    }
  }

  /** Calls back once the bytes could be granted, possibly at once. Call the returned function to stop waiting. */
  whenRoom(bytes: number, ready: () => void): () => void {
    const waiting = { bytes, ready };
    if (this.#waiting.size === 0 && this.fits(bytes)) ready();
    else this.#waiting.add(waiting);
    return () => void this.#waiting.delete(waiting);
  }
}
