/**
 * The order of streams over several listener processes, seen from one of them. Takes tables of streams that are about to be
 * opened here, and asks the main process, which asks all others; answers the same question of theirs, and tells now and
 * then that it gets on. Refuses with `deadline` when one of them does not, or takes too long: then the stream would overtake it.
 */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { Lanes } from '../../batch/lanes.ts';
import type { Target } from '../../tables/flow.ts';
import type { FencedStream, StreamFence } from '../../ingest/ingest-stream.ts';
import { Refused } from '../../tables/refusals.ts';
import { limits } from '../../tables/limits.ts';
import type { Left } from './messages.ts';

interface Rounds {
  readonly running: Promise<boolean>;
  /** Begins when the one that runs has ended; null: nobody waits for it. */
  next: Promise<boolean> | null;
}

export class Fence implements StreamFence {
  readonly streams = new Set<FencedStream>();
  readonly #ask: (id: number, left: Left) => void;
  readonly #asked = new Map<number, (settled: boolean) => void>();
  /** By table and client: however many streams are opened at one time, one question is under way and one waits. */
  readonly #rounds = new Map<string, Rounds>();
  #lastId = 0;

  constructor(ask: (id: number, left: Left) => void) {
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

  /** Resolves when what streams have left here is stored, or never will be. `getsOn`: called while they get on with it. */
  async settle(
    { database, oid, client }: Left,
    lanes: Pick<Lanes, 'settled'>,
    getsOn: () => void,
  ): Promise<void> {
    // What had reached our sockets before we were asked is read when one whole turn has passed.
    await endOfTurn();
    await endOfTurn();
    const ofTable = () =>
      [...this.streams].filter(({ target }) => target.oid === oid && target.database === database);
    const waitedFor = ofTable().filter((stream) => client === null || stream.client === client);
    // Of whichever stream: those behind which the lane stores what is waited for have their turn before.
    const decided = () =>
      [...new Set([...waitedFor, ...ofTable()])].reduce((sum, stream) => sum + stream.decided, 0);
    let before = decided();
    const watch = setInterval(() => {
      const now = decided();
      if (now !== before) getsOn();
      before = now;
    }, limits.fenceTellMs);
    try {
      // Also those whose connection is open: that it ended may not have been seen yet.
      await Promise.all(waitedFor.map((stream) => stream.settled()));
      // Of a client's ended stream nothing is known here but what the lane has of it.
      await lanes.settled({ database, oid });
    } finally {
      clearInterval(watch);
    }
  }

  /** A question that was asked before us says nothing of what has come since. */
  #round(table: Left): Promise<boolean> {
    const key = JSON.stringify([table.oid, table.database, table.client]);
    const rounds = this.#rounds.get(key);
    if (rounds === undefined) return this.#begin(key, table);
    rounds.next ??= rounds.running.then(() => this.#begin(key, table));
    return rounds.next;
  }

  #begin(key: string, table: Left): Promise<boolean> {
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
