/**
 * One transaction that takes rows of one table, chunk by chunk. Takes Rows; gives nothing until `commit`; refuses with
 * LineRefused for the first row that the engine does not take (with on_error=skip such rows are left out and listed),
 * `table_changed`, `engine_unavailable`, `deadline` and `commit_unknown`. Touches one connection, which it gives back.
 *
 * A chunk that fails is tried again in halves, each behind a savepoint, until the rows at fault stand alone.
 */
import type { DatabaseError, PoolClient } from 'pg';
import { cutOff } from '../engine/hang-up.ts';
import { faultOf, isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import type { Column, Rows, Target } from '../flow.ts';
import { giveBack } from '../kit/give-back.ts';
import { limits } from '../limits.ts';
import { Refused } from '../refusals.ts';
import type { FailedRow, TransactionRooms } from './event-rooms.ts';
import { LineRefused, lineOf, reasonOf } from './line-refused.ts';
import type { Skipped } from './skipped.ts';

export class EventTransaction {
  readonly #client: PoolClient;
  readonly #rooms: TransactionRooms;
  readonly #target: Target;
  readonly #skipped: Skipped | null;
  readonly #text: string;
  #rows = 0;
  #confirmed = false;
  /** When the sender is told that it took too long; Infinity while it is still sending. */
  #deadline = Infinity;
  /** What is at the engine now. */
  #working: Promise<void> = Promise.resolve();
  #ending = false;
  /** `broken`: the connection is in no state to be lent again. */
  #state: 'open' | 'committed' | 'broken' = 'open';

  private constructor(client: PoolClient, rooms: TransactionRooms, target: Target, skipped: Skipped | null) {
    this.#client = client;
    this.#rooms = rooms;
    this.#target = target;
    this.#skipped = skipped;
    this.#text = rooms.store(target);
  }

  /** `skipped`: takes the rows that are left out; null: the first bad row ends it all. */
  static async begin(
    rooms: TransactionRooms,
    target: Target,
    skipped: Skipped | null,
  ): Promise<EventTransaction> {
    const client = await rooms.connect(target.database).catch(() => {
      throw new Refused('engine_unavailable');
    });
    const transaction = new EventTransaction(client, rooms, target, skipped);
    try {
      await transaction.#run('begin isolation level read committed');
    } catch (error) {
      await transaction.end();
      throw error;
    }
    return transaction;
  }

  get rows(): number {
    return this.#rows;
  }

  /** The last byte is there, and the sender waits. */
  hurry(ms: number): void {
    this.#deadline = this.#rooms.clock() + ms;
  }

  /** One call at a time. */
  store(rows: Rows): Promise<void> {
    this.#working = this.#rooms.turns.run(limits.eventsTurnMs, () => this.#storeAndConfirm(rows));
    return this.#working;
  }

  async #storeAndConfirm(rows: Rows): Promise<void> {
    await this.#store(rows, 0, rows.count);
    if (this.#confirmed) return;
    // Whoever has written into a table keeps it as it is until the end of the transaction.
    const { text, values } = this.#rooms.confirm(this.#target);
    try {
      await this.#query(text, [...values]);
    } catch (error) {
      throw sqlstateOf(error) === '22P02' ? new Refused('table_changed') : this.#failure(error);
    }
    this.#confirmed = true;
  }

  async commit(): Promise<void> {
    try {
      const { command } = await this.#query('commit');
      if (command !== 'COMMIT') throw new Refused('internal');
      this.#state = 'committed';
    } catch (error) {
      this.#state = 'broken';
      if (error instanceof Refused) throw error;
      if (isConnectionLost(error)) throw new Refused('commit_unknown');
      // A deferred constraint: which row it was, the engine does not say.
      const failed = asFailedRow(error);
      if (faultOf(failed.sqlstate) === 'row') {
        const { code, message } = this.#rooms.explain(failed, null);
        throw new Refused(code, message);
      }
      throw this.#failure(error);
    }
  }

  /** Rolls back what is not committed, and gives the connection back. Never rejects. */
  async end(): Promise<void> {
    // A row that came behind the rollback would be a transaction of its own.
    this.#ending = true;
    await this.#working.catch(() => {});
    if (this.#state === 'open') await this.#rollback().catch(() => (this.#state = 'broken'));
    this.#client.release(this.#state === 'broken');
  }

  async #store(rows: Rows, from: number, to: number): Promise<void> {
    await this.#run('savepoint headgate');
    const documents = documentsOf(rows, from, to);
    try {
      await this.#query(this.#text, [documents]);
      giveBack(documents);
    } catch (error) {
      const state = sqlstateOf(error);
      if (state === null || faultOf(state) !== 'row') throw this.#failure(error);
      await this.#run('rollback to savepoint headgate');
      if (to - from === 1) return this.#refuse(rows, from, asFailedRow(error));
      const middle = from + Math.floor((to - from) / 2);
      await this.#store(rows, from, middle);
      return this.#store(rows, middle, to);
    }
    await this.#run('release savepoint headgate');
    this.#rows += to - from;
  }

  async #refuse(rows: Rows, row: number, failed: FailedRow): Promise<void> {
    const it = this.#rooms.explain(failed, await this.#misfit(rows, row, failed));
    const line = lineOf(rows, row);
    if (this.#skipped === null) throw new LineRefused(it, line);
    this.#skipped.add(line, reasonOf(it.message));
  }

  /** The first column whose value the engine cannot read. */
  async #misfit(rows: Rows, row: number, { sqlstate }: FailedRow): Promise<Column | null> {
    if (sqlstate.startsWith('23') && sqlstate !== '23514') return null;
    const document = documentsOf(rows, row, row + 1);
    for (const column of this.#target.shape.columns) {
      await this.#run('savepoint headgate');
      try {
        await this.#query(this.#rooms.probe(column), [document]);
      } catch (error) {
        if (isConnectionLost(error)) throw this.#failure(error);
        await this.#run('rollback to savepoint headgate');
        if (sqlstateOf(error) === sqlstate) return column;
      }
    }
    return null;
  }

  async #run(text: string): Promise<void> {
    try {
      await this.#query(text);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async #rollback(): Promise<void> {
    const timer = setTimeout(() => cutOff(this.#client), limits.gatewayCancelMs);
    try {
      await this.#client.query('rollback');
    } finally {
      clearTimeout(timer);
    }
  }

  /** An engine that stays silent is not waited for: its own bound on statements is a little shorter. */
  async #query(text: string, values: readonly (string | Buffer)[] = []): Promise<{ command: string }> {
    const left = Math.min(limits.eventsDeadlineMs, this.#deadline - this.#rooms.clock());
    if (left <= 0 || this.#ending) throw new Refused('deadline');
    const timer = setTimeout(() => cutOff(this.#client), left + limits.gatewayCancelMs);
    try {
      return await this.#client.query({ text, values: [...values] });
    } finally {
      clearTimeout(timer);
    }
  }

  #failure(error: unknown): Error {
    if (error instanceof Refused) return error;
    const state = sqlstateOf(error);
    if (state === null && !isConnectionLost(error)) return error as Error;
    if (isConnectionLost(error)) this.#state = 'broken';
    if (state === '57014') return new Refused('deadline');
    switch (state === null ? 'transient' : faultOf(state)) {
      case 'catalog':
        return new Refused('table_changed');
      case 'transient':
      case 'row':
        return new Refused('engine_unavailable');
      case 'bug':
        return error as Error;
    }
  }
}

function asFailedRow(error: unknown): FailedRow {
  const { code = '', message, constraint, column } = error as DatabaseError;
  return { sqlstate: code, message, constraint: constraint ?? null, column: column ?? null };
}

/** Rows as one JSON array. */
function documentsOf({ documents: { bytes, spans } }: Rows, from: number, to: number): Buffer {
  if (spans === null) return Buffer.concat([Buffer.from('['), bytes, Buffer.from(']')]);
  let length = 1;
  for (let row = from; row < to; row++) length += (spans[2 * row + 1] ?? 0) - (spans[2 * row] ?? 0) + 1;
  const array = Buffer.allocUnsafe(length);
  let at = 0;
  for (let row = from; row < to; row++) {
    array[at] = row === from ? 0x5b : 0x2c;
    at += 1 + bytes.copy(array, at + 1, spans[2 * row], spans[2 * row + 1]);
  }
  array[at] = 0x5d;
  return array;
}
