/**
 * The order of streams over several listener processes, seen from one of them. Takes tables of streams that are about to be
 * opened here, and asks the main process, which asks all others; answers the same question of theirs. Refuses with
 * `deadline` when one of them does not settle what it has in time: then the stream would overtake it.
 */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { Lanes } from '../batch/lanes.ts';
import type { Target } from '../flow.ts';
import type { FencedStream, StreamFence } from '../ingest-stream.ts';
import { Refused } from '../refusals.ts';
import type { TableId } from './messages.ts';

interface Rounds {
  readonly running: Promise<boolean>;
  /** Begins when the one that runs has ended; null: nobody waits for it. */
  next: Promise<boolean> | null;
}

export class Fence implements StreamFence {
  readonly streams = new Set<FencedStream>();
  readonly #ask: (id: number, table: TableId) => void;
  readonly #asked = new Map<number, (settled: boolean) => void>();
  /** By table: however many streams are opened at one time, one question is under way and one waits. */
  readonly #rounds = new Map<string, Rounds>();
  #lastId = 0;

  constructor(ask: (id: number, table: TableId) => void) {
    this.#ask = ask;
  }

  async pass(table: Target): Promise<void> {
    if (!(await this.#round({ database: table.database, oid: table.oid })))
      throw new Refused('deadline', 'rows of an earlier connection are still being stored');
  }

  answered(id: number, settled: boolean): void {
    this.#asked.get(id)?.(settled);
    this.#asked.delete(id);
  }

  /** Resolves when what streams have left here for this table is stored, or never will be. */
  async settle({ database, oid }: TableId, lanes: Pick<Lanes, 'settled'>): Promise<void> {
    // What had reached our sockets before we were asked is read when one whole turn has passed.
    await endOfTurn();
    await endOfTurn();
    const ofTable = [...this.streams].filter(
      ({ target }) => target.oid === oid && target.database === database,
    );
    // Also those whose connection is open: that it ended may not have been seen yet.
    await Promise.all(ofTable.map((stream) => stream.settled()));
    await lanes.settled({ database, oid });
  }

  /** A question that was asked before us says nothing of what has come since. */
  #round(table: TableId): Promise<boolean> {
    const key = `${table.oid}/${table.database}`;
    const rounds = this.#rounds.get(key);
    if (rounds === undefined) return this.#begin(key, table);
    rounds.next ??= rounds.running.then(() => this.#begin(key, table));
    return rounds.next;
  }

  #begin(key: string, table: TableId): Promise<boolean> {
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
