/** When a short way that may fail is worth trying: seldom after it has failed often. Counts, and knows no time. */

const pauseMin = 16;
const pauseMax = 4_096;

export class CountedBackoff {
  /** How many go the long way after a failure. */
  #pause = 0;
  #left = 0;

  /** Whether the next one tries the short way. */
  next(): boolean {
    if (this.#left === 0) return true;
    this.#left--;
    return false;
  }

  passed(): void {
    if (this.#pause > 0) this.#pause--;
  }

  failed(): void {
    this.#pause = Math.min(pauseMax, Math.max(pauseMin, 2 * this.#pause));
    this.#left = this.#pause;
  }
}
