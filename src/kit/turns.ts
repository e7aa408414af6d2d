/**
 * Long work in slices: who has done one waits for the next turn. Of all that wait one goes on in each turn of the event
 * loop, so that sockets are served in between however many they are.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  readonly #endOfTurn: (run: () => void) => void;

  /** `endOfTurn` runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  constructor(endOfTurn: (run: () => void) => void) {
    this.#endOfTurn = endOfTurn;
  }

  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#waiting.length === 1) this.#endOfTurn(() => this.#run());
    });
  }

  #run(): void {
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) this.#endOfTurn(() => this.#run());
  }
}

/** Runs the work to its end, slice by slice; at once where it is one slice. Throws, or rejects, as the work does. */
export function inTurns<T>(work: Generator<void, T>, turns: Turns): T | Promise<T> {
  const first = work.next();
  return first.done === true ? first.value : goOn(work, turns);
}

async function goOn<T>(work: Generator<void, T>, turns: Turns): Promise<T> {
  for (;;) {
    await turns.next();
    const slice = work.next();
    if (slice.done === true) return slice.value;
  }
}

/** The same without a pause. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const slice = work.next();
    if (slice.done === true) return slice.value;
  }
}
