/**
 * The long work of a process on its event loop: one piece per turn, so that sockets are served in between. Code with work
 * that takes longer than a small request asks here for a turn, at whichever door. Touches nothing; the queue is bounded by the
 * bodies that its callers may hold.
 *
 * The order is fair by bytes: a piece is due when as many bytes have been served since it asked as its own work has
 * (self-clocked fair queueing, Golestani 1994). So small work overtakes large work, and no stream of small work
 * keeps large work waiting without end.
 */
interface WaitingWork {
  /** When it is due, in bytes served. */
  readonly due: number;
  /** Cannot be sliced: a rest follows, see `turn`. */
  readonly whole: boolean;
  /** Does a piece; returns true if it was the last one. */
  readonly step: () => boolean;
}

/** Work that took less needs no rest, in ms. */
const shortMs = 4;
const restMsMax = 500;

export class LongWork {
  readonly #clock: () => number;
  readonly #endOfTurn: (run: () => void) => void;
  readonly #after: (run: () => void, ms: number) => void;
  #waiting: WaitingWork[] = [];
  /** A piece, or the rest after it, is under way, or the next turn begins one. */
  #busy = false;
  #served = 0;

  /**
   * `clock`: monotonic, ms. `endOfTurn` runs its argument when the current turn of the event loop has handled its sockets (setImmediate); `after` is
   * setTimeout.
   */
  constructor(
    clock: () => number,
    endOfTurn: (run: () => void) => void,
    after: (run: () => void, ms: number) => void,
  ) {
    this.#clock = clock;
    this.#endOfTurn = endOfTurn;
    this.#after = after;
  }

  /**
   * For work that cannot be sliced. Resolves when it may be done; it must then be done at once. A rest follows that is as long
   * as the work was, 500 ms at most: a small request takes several turns, and would meet such a piece in each of them.
   */
  turn(bytes: number): Promise<void> {
    return new Promise((resolve) => {
      const step = () => {
        resolve();
        return true;
      };
      this.#waiting.push({ due: this.#served + bytes, whole: true, step });
      if (!this.#busy) this.#next();
    });
  }

  /** Runs work that comes in slices to its end; at once if it is one slice. Throws, or rejects, as the work does. */
  slices<T>(bytes: number, work: Generator<void, T>): T | Promise<T> {
    const first = work.next();
    if (first.done === true) return first.value;
    return new Promise((resolve, reject) => {
      const step = () => {
        try {
          const next = work.next();
          if (next.done === true) resolve(next.value);
          return next.done === true;
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
          return true;
        }
      };
      this.#waiting.push({ due: this.#served + bytes, whole: false, step });
      if (this.#busy) return;
      this.#busy = true;
      this.#endOfTurn(() => this.#next());
    });
  }

  #next(): void {
    this.#busy = this.#waiting.length > 0;
    if (!this.#busy) return;
    const first = this.#waiting.reduce((least, it) => (it.due < least.due ? it : least));
    const started = this.#clock();
    if (first.step()) {
      this.#waiting = this.#waiting.filter((it) => it !== first);
      this.#served = Math.max(this.#served, first.due);
    }
    this.#endOfTurn(() => {
      const tookMs = this.#clock() - started;
      if (first.whole && tookMs >= shortMs) this.#after(() => this.#next(), Math.min(tookMs, restMsMax));
      else this.#next();
    });
  }
}

/** The one of this process, which has one event loop. */
export const longWork = new LongWork(() => performance.now(), setImmediate, setTimeout);

/** Runs work in slices without a pause. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const slice = work.next();
    if (slice.done === true) return slice.value;
  }
}
