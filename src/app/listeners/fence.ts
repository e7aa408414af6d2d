/**
 * Keeps streams in order over several listener processes. In one of them (`Fence`): takes tables of streams that are about to be opened here and asks the
 * main process, which asks all other processes. Answers the same question for them, and reports progress from time to time. Refuses with `deadline` if a
 * process makes no progress or takes too long: the stream would overtake its rows. In the main process (`Fences`): takes such a table and all other
 * processes; returns whether nothing is left of what they held for it. Never rejects. A dead process has settled only when its transactions at the engine
 * have ended: the engine goes on with what it was given.
 */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { Lanes } from '../../batch/lanes.ts';
import type { Target } from '../../types/target.ts';
import type { FencedStream, StreamFence } from '../../ingest/stream-fence.ts';
import { Refused } from '../../errors/refusals.ts';
import { limits } from '../../config/limits.ts';
import type { StreamLeftovers } from './messages.ts';
import { within } from '../../kit/promises.ts';
import type { ListenerChild } from './child.ts';

interface Rounds {
  readonly running: Promise<boolean>;
  /** Starts when the running one has ended; null: nothing waits for it. */
  next: Promise<boolean> | null;
}

export class Fence implements StreamFence {
  readonly streams = new Set<FencedStream>();
  readonly #ask: (id: number, left: StreamLeftovers) => void;
  readonly #asked = new Map<number, (settled: boolean) => void>();
  /** By table and client: however many streams are opened at once, one question is in flight and one waits. */
  readonly #rounds = new Map<string, Rounds>();
  #lastId = 0;

  constructor(ask: (id: number, left: StreamLeftovers) => void) {
    this.#ask = ask;
  }

  async pass(table: Target, client: string | null): Promise<void> {
    if (!(await this.#round({ database: table.database, oid: table.oid, client })))
      throw new Refused('deadline', 'rows of an earlier connection are still being stored');
  }

  answered(id: number, settled: boolean): void {
    this.#asked.get(id)?.(settled);
    this.#asked.delete(id);
  }

  /** Resolves once the rows that streams left here are stored, or never will be. `getsOn` is called while they make progress. */
  async settle(
    { database, oid, client }: StreamLeftovers,
    lanes: Pick<Lanes, 'settled'>,
    getsOn: () => void,
  ): Promise<void> {
    // Data that had reached our sockets before the question is read after one whole turn.
    await endOfTurn();
    await endOfTurn();
    const ofTable = () =>
      [...this.streams].filter(({ target }) => target.oid === oid && target.database === database);
    const waitedFor = ofTable().filter((stream) => client === null || stream.client === client);
    // Counts every stream of the table: the lane may store their rows before those that are waited for.
    const decided = () =>
      [...new Set([...waitedFor, ...ofTable()])].reduce((sum, stream) => sum + stream.decided, 0);
    let before = decided();
    const watch = setInterval(() => {
      const now = decided();
      if (now !== before) getsOn();
      before = now;
    }, limits.fenceTellMs);
    try {
      // Includes streams whose connection seems open: its end may not have been noticed yet.
      await Promise.all(waitedFor.map((stream) => stream.settled()));
      // Of a client's ended stream, only the lane knows what is left.
      await lanes.settled({ database, oid });
    } finally {
      clearInterval(watch);
    }
  }

  /** A question already in flight says nothing about rows that arrived since. */
  #round(table: StreamLeftovers): Promise<boolean> {
    const key = JSON.stringify([table.oid, table.database, table.client]);
    const rounds = this.#rounds.get(key);
    if (rounds === undefined) return this.#begin(key, table);
    rounds.next ??= rounds.running.then(() => this.#begin(key, table));
    return rounds.next;
  }

  #begin(key: string, table: StreamLeftovers): Promise<boolean> {
    const id = ++this.#lastId;
    const running = new Promise<boolean>((resolve) => this.#asked.set(id, resolve));
    const rounds: Rounds = { running, next: null };
    this.#rounds.set(key, rounds);
    void running.then(() => {
      if (rounds.next === null) this.#rounds.delete(key);
    });
    this.#ask(id, table);
    return running;
  }
}

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
