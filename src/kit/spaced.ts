/**
 * Long work that cannot be cut, one piece at a time, with a rest behind each that is as long as it was: a small request takes
 * several turns of the event loop, and would meet such a piece in each of them. Takes nothing; gives promises, in order.
 * What waits is bounded by whoever gives it.
 */
export interface SpacedOptions {
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  /** Runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  readonly endOfTurn: (run: () => void) => void;
  /** setTimeout. */
  readonly after: (run: () => void, ms: number) => void;
}

/** Shorter ones need no rest, in ms. */
const shortMs = 4;
const restMsMax = 50;

export class Spaced {
  readonly #options: SpacedOptions;
  readonly #waiting: (() => void)[] = [];
  #busy = false;

  constructor(options: SpacedOptions) {
    this.#options = options;
  }

  /** Resolves when the work may be done, which is to be done there and then. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#busy) this.#waiting.push(resolve);
      else this.#begin(resolve);
    });
  }

  #begin(resolve: () => void): void {
    const { clock, endOfTurn, after } = this.#options;
    this.#busy = true;
    const started = clock();
    endOfTurn(() => {
      const tookMs = clock() - started;
      if (tookMs < shortMs) this.#next();
      else after(() => this.#next(), Math.min(tookMs, restMsMax));
    });
    resolve();
  }

  #next(): void {
    this.#busy = false;
    const next = this.#waiting.shift();
    if (next !== undefined) this.#begin(next);
  }
}
