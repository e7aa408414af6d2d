/** What is opened once under a name and awaited before. Returns promises that resolve when it is opened; they never reject. */
import { deferred } from './deferred.ts';
import type { Deferred } from './deferred.ts';

export class Openings {
  readonly #all = new Map<string, Deferred<void>>();

  /** Resolves when `opened` is called with this name, or at once if it was. */
  of(name: string): Promise<void> {
    return this.#one(name).promise;
  }

  opened(name: string): void {
    this.#one(name).resolve();
  }

  #one(name: string): Deferred<void> {
    let one = this.#all.get(name);
    if (one === undefined) {
      one = deferred();
      this.#all.set(name, one);
    }
    return one;
  }
}
