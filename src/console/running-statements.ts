/** How much the sessions of the console ask of the engine at one time. Refuses with `overloaded`. */
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';

/** How many statements run for the sessions of the console: so many at one time, and fewer of one role. */
export class RunningStatements {
  #all = 0;
  readonly #ofRole = new Map<string, number>();

  /** `role`: whose sessions they are counted for. A request that is sent on its behalf counts as one. */
  async run<T>(role: string, work: () => Promise<T>): Promise<T> {
    const own = this.#ofRole.get(role) ?? 0;
    if (this.#all >= limits.consoleStatementsMax || own >= limits.consoleRoleStatementsMax)
      throw new Refused('overloaded');
    this.#all += 1;
    this.#ofRole.set(role, own + 1);
    try {
      return await work();
    } finally {
      this.#all -= 1;
      const left = (this.#ofRole.get(role) ?? 1) - 1;
      if (left === 0) this.#ofRole.delete(role);
      else this.#ofRole.set(role, left);
    }
  }
}
