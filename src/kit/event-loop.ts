/**
 * Runs short work, a bounded number of pieces per turn of the event loop: thousands that arrive at the same instant would
 * otherwise block everything else until all are done. Takes functions; runs each exactly once, in order, and at
 * once if few have come in this turn. The callers bound what waits.
 */
export class PerTurn {
  readonly #max: number;
  readonly #endOfTurn: (run: () => void) => void;
  #inThisTurn = 0;
  #waiting: (() => void)[] = [];
  #head = 0;

  /** `endOfTurn` runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  constructor(max: number, endOfTurn: (run: () => void) => void) {
    this.#max = max;
    this.#endOfTurn = endOfTurn;
  }

  run(work: () => void): void {
    if (this.#inThisTurn >= this.#max || this.#head < this.#waiting.length) {
      this.#waiting.push(work);
      return;
    }
    this.#count();
    work();
  }

  #count(): void {
    if (this.#inThisTurn === 0) this.#endOfTurn(() => this.#turn());
    this.#inThisTurn += 1;
  }

  #turn(): void {
    this.#inThisTurn = 0;
    // Work that these add comes after the work that already waits.
    const until = Math.min(this.#waiting.length, this.#head + this.#max);
    while (this.#head < until) {
      const work = this.#waiting[this.#head];
      this.#head += 1;
      this.#count();
      work?.();
    }
    // A copy moves at most as many entries as were run since the last one.
    if (this.#head * 2 < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }
}
