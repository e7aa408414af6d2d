/** A semaphore for each key, so that work of one key does not wait for that of another. One that nobody uses is forgotten. */
import { runIn, Semaphore } from './semaphore.ts';

interface UsedSemaphore {
  readonly semaphore: Semaphore;
  users: number;
}

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
