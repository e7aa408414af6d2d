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
async function runIn<T>(turn: Promise<() => void>, heldMsMax: number, work: () => Promise<T>): Promise<T> {
  const done = await turn;
  const timer = setTimeout(done, heldMsMax);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
    done();
  }
}

interface UsedSemaphore {
  readonly semaphore: Semaphore;
  users: number;
}

/** A semaphore for each key, so that work of one key does not wait for that of another. One that nobody uses is forgotten. */
export class Semaphores<Key> {
  readonly #max: number;
  readonly #used = new Map<Key, UsedSemaphore>();

  /** `max`: at a time for each key. */
  constructor(max: number) {
    this.#max = max;
  }

  /** How many keys have work at this moment. */
  get size(): number {
    return this.#used.size;
  }

  /** As Semaphore.turn. */
  async turn(key: Key): Promise<() => void> {
    const used = this.#used.get(key) ?? { semaphore: new Semaphore(this.#max), users: 0 };
    this.#used.set(key, used);
    used.users += 1;
    const done = await used.semaphore.turn();
    let isDone = false;
    return () => {
      if (isDone) return;
      isDone = true;
      done();
      used.users -= 1;
      if (used.users === 0) this.#used.delete(key);
    };
  }

  /** As Semaphore.run. */
  run<T>(key: Key, heldMsMax: number, work: () => Promise<T>): Promise<T> {
    return runIn(this.turn(key), heldMsMax, work);
  }
}
