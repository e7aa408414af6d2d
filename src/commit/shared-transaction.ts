/**
 * Which groups share a transaction. Takes the groups of all tables; returns their outcomes. As a rule a group goes alone, at once. Touches nothing but the
 * two functions that it was given, which store a group alone, and several together or nothing of them.
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
import { ackTimeoutOf } from './group-session.ts';
import { confirmsInInsert } from './plan-lock.ts';
import { SharingTables } from './sharing-tables.ts';
import type { GroupResult } from './sharing-tables.ts';

/** A transaction that counts. */
interface CountedTransaction {
  readonly sinceMs: number;
}

/** It was stored with others; or, as a rule, it goes alone, at once. `counted`: its transaction; null: it does not count. */
type Joined =
  | { readonly kind: 'stored'; readonly outcomes: readonly Outcome[] }
  | { readonly kind: 'alone'; readonly counted: CountedTransaction | null };

const notCounted: Joined = { kind: 'alone', counted: null };

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

/** How groups are stored; rejections are passed on. */
interface Ways {
  /** In a transaction of its own. */
  readonly alone: (group: Group) => Promise<GroupResult>;
  /**
   * One outcome per member of each; null: nothing is stored, and each may go alone. The rows of a table take `sharedStatementMs` at most, or everything
   * fails.
   */
  readonly together: (groups: readonly Group[]) => Promise<readonly (readonly Outcome[])[] | null>;
  /** Whether a pooler lends the database's sessions, which keeps no statements: its groups go alone. */
  readonly hasPooler: (database: string) => boolean;
}

export class GroupSharing {
  readonly #ways: Ways;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  readonly #lines = new Map<string, DatabaseSharing>();

  constructor(ways: Ways, context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#ways = ways;
    this.#context = context;
  }

  /** As a rule a small group takes a place among the counted transactions, alone, within a microtask. One outcome per member, in order. Rejects as `alone` and `together` do: what is stored is then not known. */
  async store(group: Group): Promise<readonly Outcome[]> {
    const joined = this.#isCounted(group) ? await this.#takePlace(group) : notCounted;
    if (joined.kind === 'stored') return joined.outcomes;
    const line = this.#lineOf(group);
    try {
      const result = await this.#ways.alone(group);
      line.tables.wentAlone(group, result, this.#context.clock());
      return result.outcomes;
    } finally {
      if (joined.counted !== null) this.#uncount(line, joined.counted);
    }
  }

  #isCounted(group: Group): boolean {
    const { clock, limits } = this.#context;
    if (group.rows > limits.sharedGroupRowsMax || group.bytes > limits.sharedGroupBytesMax) return false;
    if (!isShareable(group, limits) || this.#ways.hasPooler(group.target.database)) return false;
    return this.#lineOf(group).tables.shares(group.target, clock());
  }

  /** Waits only if as many transactions are counted as may be. */
  #takePlace(group: Group): Promise<Joined> {
    const line = this.#lineOf(group);
    return new Promise((resolve, reject) => {
      // When all lanes whose turn ends now have submitted theirs.
      if (line.waiting.push({ group, resolve, reject }) === 1) queueMicrotask(() => this.#goOn(line));
    });
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
    if (taken.length === 1) taken[0]?.resolve({ kind: 'alone', counted });
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
      const stored = await this.#ways.together(groups);
      const now = clock();
      line.tables.wentTogether(groups, stored !== null, now - started, slowMs, now);
      const tell = () =>
        taken.forEach(({ resolve }, i) => {
          const outcomes = stored?.[i];
          resolve(outcomes === undefined ? notCounted : { kind: 'stored', outcomes });
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
export function isShareable(group: Group, { ackDeadlineMs }: Pick<Limits, 'ackDeadlineMs'>): boolean {
  const { shape, waitsForDisk, dedupe } = group.target;
  if (!confirmsInInsert(group.target) || dedupe !== undefined || !waitsForDisk) return false;
  if (ackTimeoutOf(group) > ackDeadlineMs) return false;
  return shape.writeMode === 'documents' || (shape.writeMode === 'insert' && group.members.every(onlyStores));
}

function onlyStores({ deletes, keeps }: Rows): boolean {
  return deletes === null && keeps === null;
}
