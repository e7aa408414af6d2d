/**
 * Short work, a bounded number of pieces in one turn of the event loop: thousands that come in one instant would
 * otherwise hold everybody else for as long as all of them take. Takes functions; runs each exactly once, in order, at
 * once where few have come in this turn. What waits is bounded by whoever gives it.
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
    // What these leave behind comes after those that wait already.
    const until = Math.min(this.#waiting.length, this.#head + this.#max);
    while (this.#head < until) {
      const work = this.#waiting[this.#head];
      this.#head += 1;
      this.#count();
      work?.();
    }
    // Each entry is moved at most once for every time that as many were run.
    if (this.#head * 2 < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }
}
