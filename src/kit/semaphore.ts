/** So many at a time, the others in the order in which they came. Takes callbacks or work; calls each at most once. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(max: number) {
    this.#free = max;
  }

  /** Calls `ready`, at once or when it is its turn. What is returned gives the slot back, or the place in the queue. */
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

  /** What gives the slot back; null: there is none at once, and nobody waits. */
  takeNow(): (() => void) | null {
    return this.#free > 0 ? this.take(() => undefined) : null;
  }

  /** Resolves when it is its turn, with what gives the slot back. */
  turn(): Promise<() => void> {
    return new Promise((resolve) => {
      const done = this.take(() => resolve(() => done()));
    });
  }

  /**
   * Runs the work when it is its turn. Whoever takes longer than `heldMsMax` goes on beside the next one: what is stuck holds
   * nobody up.
   */
  async run<T>(heldMsMax: number, work: () => Promise<T>): Promise<T> {
    const done = await this.turn();
    const timer = setTimeout(done, heldMsMax);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      done();
    }
  }

  #give(): void {
    this.#free += 1;
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    next();
  }
}
