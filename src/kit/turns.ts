/**
 * Long work in slices, so that sockets are served in between: one slice of one piece of work in each turn of the event
 * loop. The smallest goes first, so that nobody waits behind what others have made large, and what is large and has hardly
 * begun holds little memory.
 */
interface Waiting {
  readonly size: number;
  /** Does a slice; true: that was the last one. */
  readonly slice: () => boolean;
}

export class Turns {
  #waiting: Waiting[] = [];
  readonly #endOfTurn: (run: () => void) => void;

  /** `endOfTurn` runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  constructor(endOfTurn: (run: () => void) => void) {
    this.#endOfTurn = endOfTurn;
  }

  /** Runs the work to its end; at once where it is one slice. Throws, or rejects, as the work does. */
  run<T>(size: number, work: Generator<void, T>): T | Promise<T> {
    const first = work.next();
    if (first.done === true) return first.value;
    return new Promise((resolve, reject) => {
      const slice = () => {
        try {
          const next = work.next();
          if (next.done === true) resolve(next.value);
          return next.done === true;
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
          return true;
        }
      };
      this.#waiting.push({ size, slice });
      if (this.#waiting.length === 1) this.#endOfTurn(() => this.#turn());
    });
  }

  #turn(): void {
    const smallest = this.#waiting.reduce((least, it) => (it.size < least.size ? it : least));
    if (smallest.slice()) this.#waiting = this.#waiting.filter((it) => it !== smallest);
    if (this.#waiting.length > 0) this.#endOfTurn(() => this.#turn());
  }
}

/** The same without a pause. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const slice = work.next();
    if (slice.done === true) return slice.value;
  }
}
