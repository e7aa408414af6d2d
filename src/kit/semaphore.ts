/** At most `max` at a time, the others in order of arrival. Takes callbacks or work; calls each at most once. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(max: number) {
    this.#free = max;
  }

  /** Calls `ready`, at once or when its turn comes. The returned function gives back the slot, or the place in the queue. */
  take(ready: () => void): () => void {
    let state: 'waits' | 'has it' | 'done' = 'waits';
    const begin = () => {
      state = 'has it';
      this.#free -= 1;
      ready();
    };
    if (this.#free > 0) begin();
    else this.#waiting.add(begin);
    return () => {
      if (state === 'waits') this.#waiting.delete(begin);
      if (state === 'has it') this.#give();
      state = 'done';
    };
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Returns what gives the slot back; null: no slot is free now, and the caller is not queued. */
  takeNow(): (() => void) | null {
    return this.#free > 0 ? this.take(() => undefined) : null;
  }

  /** Resolves when its turn comes, with what gives the slot back. */
  turn(): Promise<() => void> {
    return new Promise((resolve) => {
      const done = this.take(() => resolve(() => done()));
    });
  }

  /**
   * Runs the work when its turn comes. Work that takes longer than `heldMsMax` no longer counts, so that work that is stuck
   * blocks nobody.
   */
  run<T>(heldMsMax: number, work: () => Promise<T>): Promise<T> {
    return runIn(this.turn(), heldMsMax, work);
  }

  #give(): void {
    this.#free += 1;
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    next();
  }
}

/** As Semaphore.run. */
export async function runIn<T>(
  turn: Promise<() => void>,
  heldMsMax: number,
  work: () => Promise<T>,
): Promise<T> {
  const done = await turn;
  const timer = setTimeout(done, heldMsMax);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
    done();
  }
}
