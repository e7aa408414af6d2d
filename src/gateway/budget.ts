/** Bytes that many may hold together. Takes and gives numbers; touches nothing. */
export class Budget {
  readonly #bytesMax: number;
  #held = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get held(): number {
    return this.#held;
  }

  /** Whether the bytes could be had. Whoever has nothing yet always gets them if nobody else holds any. */
  take(bytes: number): boolean {
    if (this.#held > 0 && this.#held + bytes > this.#bytesMax) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}
