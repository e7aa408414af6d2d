/**
 * Which groups share a transaction. Takes the small groups of all tables; returns the outcomes of each, or that it goes alone. Touches nothing but the
 * function that it was given, which stores several groups or nothing of them.
 *
 * A commit costs more than a small group's rows, so at most `sharedTransactionsMax` of a database that hold small groups are
 * at the engine at one time:
 *
 *   fewer are     the group goes at once, with those of other tables that came at the same moment: a single group waits for nobody.
 *   as many are   it waits, with those of other tables, until one has ended; all that wait then go together.
 *
 * Large groups have a transaction of their own, and never wait. A transaction that is stuck blocks nobody: once it is slow, it is
 * no longer counted. Tables that run code, and all others for which a shared transaction cannot keep its promises, always go alone
 * (multi-table-statement.ts), and so do those that are slow (sharing-tables.ts). What is usual there is up to whoever sends most
 * groups, so `sharedStatementMs` bounds whatever others wait for: the statements of a shared transaction, which then fails, and how long one is counted.
 */
import type { Limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import type { Group, Outcome, Rows } from '../types/rows.ts';
import { ackTimeoutOf } from './session.ts';
import { isHeldByPlan } from './plan-lock.ts';
import { SharingTables } from './sharing-tables.ts';
import type { GroupResult } from './sharing-tables.ts';

/** A transaction that counts. */
interface CountedTransaction {
  readonly sinceMs: number;
}

/** What became of a group that has joined: it was stored with others, or it goes alone, at once. `counted`: see `ended`; null: it does not count. */
export type Joined =
  | { readonly outcomes: readonly Outcome[] }
  | { readonly outcomes: null; readonly counted: CountedTransaction | null };

const goesAlone: Joined = { outcomes: null, counted: null };

interface WaitingGroup {
  readonly group: Group;
  readonly resolve: (joined: Joined) => void;
  readonly reject: (error: unknown) => void;
}

/** The state of one database. */
interface DatabaseSharing {
  readonly tables: SharingTables;
  waiting: WaitingGroup[];
  /** At most `sharedTransactionsMax`. */
  readonly counted: Set<CountedTransaction>;
  /** A timer checks whether one of them is slow. */
  isWatched: boolean;
}

/**
 * Stores the rows of several groups: one outcome per member of each; null: nothing is stored, and each may go alone. The rows of a table take
 * `sharedStatementMs` at most, or everything fails.
 */
type StoreTogether = (groups: readonly Group[]) => Promise<readonly (readonly Outcome[])[] | null>;

export class GroupSharing {
  readonly #storeTogether: StoreTogether;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  readonly #lines = new Map<string, DatabaseSharing>();

  constructor(storeTogether: StoreTogether, context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#storeTogether = storeTogether;
    this.#context = context;
  }

  /** Whether it may share, and so has to join. */
  mayShare(group: Group): boolean {
    const { clock, limits } = this.#context;
    if (group.rows > limits.sharedGroupRowsMax || group.bytes > limits.sharedGroupBytesMax) return false;
    return mayShare(group, limits) && this.#lineOf(group).tables.shares(group.target, clock());
  }

  /** Waits for its transaction. A group that is alone does not: it goes alone. Rejects if storing them together throws: what is stored is then not known. */
  join(group: Group): Promise<Joined> {
    const line = this.#lineOf(group);
    return new Promise((resolve, reject) => {
      // When all lanes whose turn ends now have submitted theirs.
      if (line.waiting.push({ group, resolve, reject }) === 1) queueMicrotask(() => this.#goOn(line));
    });
  }

  /** To be called for every group that has gone alone. `joined`: null: it did not. `result`: null if it failed. */
  ended(group: Group, joined: Joined | null, result: GroupResult | null): void {
    const line = this.#lineOf(group);
    if (result !== null) line.tables.wentAlone(group, result, this.#context.clock());
    if (joined?.outcomes === null && joined.counted !== null) this.#uncount(line, joined.counted);
  }

  #lineOf({ target: { database } }: Group): DatabaseSharing {
    const known = this.#lines.get(database);
    if (known !== undefined) return known;
    const tables = new SharingTables(this.#context.limits);
    const line = { tables, waiting: [], counted: new Set<CountedTransaction>(), isWatched: false };
    this.#lines.set(database, line);
    return line;
  }

  /** Starts waiting groups if fewer transactions count than may. */
  #goOn(line: DatabaseSharing): void {
    const { clock, limits } = this.#context;
    if (line.waiting.length === 0 || line.counted.size >= limits.sharedTransactionsMax) return;
    const counted = { sinceMs: clock() };
    line.counted.add(counted);
    this.#watch(line);
    const taken = this.#take(line);
    if (taken.length === 1) taken[0]?.resolve({ outcomes: null, counted });
    else void this.#go(line, taken, counted);
    this.#goOn(line);
  }

  #uncount(line: DatabaseSharing, transaction: CountedTransaction): void {
    if (line.counted.delete(transaction)) this.#goOn(line);
  }

  /** A slow transaction is counted for twice that time at most; however slow others are, for twice `sharedStatementMs`. */
  #watch(line: DatabaseSharing): void {
    if (line.isWatched) return;
    line.isWatched = true;
    const slowMs = Math.min(line.tables.slowMs, this.#context.limits.sharedStatementMs);
    setTimeout(() => {
      line.isWatched = false;
      const latestMs = this.#context.clock() - slowMs;
      for (const transaction of line.counted)
        if (transaction.sinceMs <= latestMs) this.#uncount(line, transaction);
      if (line.counted.size > 0) this.#watch(line);
    }, slowMs).unref();
  }

  /** The first waiting groups, as many as fit one transaction. */
  #take(line: DatabaseSharing): readonly WaitingGroup[] {
    const { sharedBytesMax } = this.#context.limits;
    let bytes = 0;
    let count = 0;
    for (const { group } of line.waiting) {
      bytes += group.bytes;
      if (count > 0 && (count >= line.tables.most || bytes > sharedBytesMax)) break;
      count++;
    }
    const taken = line.waiting.slice(0, count);
    line.waiting = line.waiting.slice(count);
    return taken;
  }

  async #go(
    line: DatabaseSharing,
    taken: readonly WaitingGroup[],
    counted: CountedTransaction,
  ): Promise<void> {
    try {
      const { clock } = this.#context;
      const { slowMs } = line.tables;
      const started = clock();
      const groups = taken.map(({ group }) => group);
      const stored = await this.#storeTogether(groups);
      const now = clock();
      line.tables.wentTogether(groups, stored !== null, now - started, slowMs, now);
      const tell = () =>
        taken.forEach(({ resolve }, i) => {
          const outcomes = stored?.[i];
          resolve(outcomes === undefined ? goesAlone : { outcomes });
        });
      // As in a lane: the waiting groups are at the engine while these are answered.
      if (line.waiting.length >= taken.length) process.nextTick(tell);
      else tell();
    } catch (error) {
      for (const { reject } of taken) reject(error);
    } finally {
      this.#uncount(line, counted);
    }
  }
}

/** Nothing may depend on a table's own settings or code: no code runs, no row replaces another, and COMMIT waits for the disk. */
export function mayShare(group: Group, { ackDeadlineMs }: Pick<Limits, 'ackDeadlineMs'>): boolean {
  const { shape, waitsForDisk, dedupe } = group.target;
  if (!isHeldByPlan(group.target) || dedupe !== undefined || !waitsForDisk) return false;
  if (ackTimeoutOf(group) > ackDeadlineMs) return false;
  return shape.writeMode === 'copy' || (shape.writeMode === 'insert' && group.members.every(onlyStores));
}

function onlyStores({ deletes, keeps }: Rows): boolean {
  return deletes === null && keeps === null;
}
