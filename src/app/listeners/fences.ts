/**
 * Keeps streams in order over several listener processes, as seen from the main process. Takes a table of which one process is
 * about to open a stream, and all other processes; returns whether nothing is left of what they held for it. Never rejects. A
 * dead process has settled only when its transactions at the engine have ended: the engine goes on with what it was given.
 */
import { within } from '../../kit/promises.ts';
import { limits } from '../../config/limits.ts';
import type { ListenerChild } from './child.ts';
import type { StreamLeftovers } from './messages.ts';

export class Fences {
  readonly #commitsEnded: (commitName: string) => Promise<void>;
  /** Dead processes, until nothing of them is left. */
  readonly #leaving = new Map<ListenerChild, Promise<void>>();

  constructor(commitsEnded: (commitName: string) => Promise<void>) {
    this.#commitsEnded = commitsEnded;
  }

  /** Resolves once nothing is left of a dead process. */
  gone(child: ListenerChild): Promise<void> {
    const known = this.#leaving.get(child);
    if (known !== undefined) return known;
    const left = this.#commitsEnded(child.commitName).then(() => void this.#leaving.delete(child));
    this.#leaving.set(child, left);
    return left;
  }

  settle(table: StreamLeftovers, others: readonly ListenerChild[]): Promise<boolean> {
    return within(limits.fencePatienceMs, this.#settled(table, others), false);
  }

  async #settled(table: StreamLeftovers, others: readonly ListenerChild[]): Promise<boolean> {
    const answers = await Promise.all(
      others.map(async (child) => {
        const answer = await child.settle(table, limits.fenceSilentMs);
        if (answer === 'gone') await this.gone(child);
        return answer !== 'late';
      }),
    );
    // The asking process may be the successor of one that was killed.
    await Promise.all(this.#leaving.values());
    return answers.every(Boolean);
  }
}
