/**
 * Which groups share a transaction. Takes the groups of all tables; returns the outcomes of each, and touches nothing but the two
 * functions it was given: `alone`, one group in one transaction, and `together`, several that are stored all or not at all.
 *
 * A commit costs more than a small group's rows, so at most `sharedTransactionsMax` of a database that hold small groups are
 * at the engine at one time:
 *
 *   fewer are     the group goes at once, with those of other tables that came at the same moment: a single group waits for nobody.
 *   as many are   it waits, with those of other tables, until one has ended; all that wait then go together.
 *
 * Large groups have a transaction of their own, and never wait. A transaction that is stuck blocks nobody: once it is slow, it is
 * no longer counted.
 *
 * A table shares while it is quick. When a shared transaction fails, nothing of it is stored, and each of its groups goes alone at
 * once; when two in a row were slow that had rows of a table, its next group goes alone. A single slow one says nothing: on a busy
 * machine any may be slow. The table's own transaction then decides: if it is slow, too, or stores less than it was given, the table is
 * kept apart, from `apartMinMs` on twice as long each time, up to `apartMaxMs`. Tables that run code, and all others for which a
 * shared transaction cannot keep its promises, always go alone (multi-table-statement.ts).
 *
 * Slow means several times as long as groups of the database usually take, so that a machine or a disk that is slow
 * for everybody blames nobody. Shared transactions then become smaller, and larger again when they are quick. What is usual is up to whoever sends most
 * groups, so `sharedStatementMs` bounds whatever others wait for: the statements of a shared transaction, which then fails, and how long one is counted.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Group, GroupCommit, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import type { GroupResult } from './owner-scheduler.ts';
import { ackTimeoutOf } from './owner-scheduler.ts';
import type { Limits } from '../config/limits.ts';
import { isHeldByPlan } from './table-statements.ts';

/** The ways to the engine, of which `Commit` (commit.ts) is the only one outside of tests. */
export interface GroupTransactions {
  alone(group: Group): Promise<GroupResult>;
  /**
   * One outcome per member of each group; null: nothing is stored, and each may go alone. Storing the rows of
   * a table takes `sharedStatementMs` at most, or everything fails.
   */
  together(groups: readonly Group[]): Promise<readonly (readonly Outcome[])[] | null>;
  /** Whether a table's groups may ever share. */
  mayShare(group: Group): boolean;
}

interface WaitingGroup {
  readonly group: Group;
  readonly resolve: (outcomes: readonly Outcome[] | Promise<readonly Outcome[]>) => void;
}

/** A table that does not share, or lately did not. */
interface Apart {
  /** Infinity: until it has gone alone once. */
  readonly untilMs: number;
  /** How long it was last kept apart. */
  readonly forMs: number;
}

const shares: Apart = { untilMs: 0, forMs: 0 };

/** What is known of one table. */
interface Shared {
  /** null: it shares. */
  apart: Apart | null;
  /** Its last shared transaction was slow. */
  wasSlow: boolean;
}

/** A transaction that counts. */
interface CountedTransaction {
  readonly sinceMs: number;
}

/** The state of one database. */
interface DatabaseSharing {
  waiting: WaitingGroup[];
  /** At most `sharedTransactionsMax`. */
  readonly counted: Set<CountedTransaction>;
  /** A timer checks whether one of them is slow. */
  isWatched: boolean;
  /** How many tables a shared transaction should have at most. */
  tables: number;
  /** What half of the groups take at most, in ms; adapts slowly. */
  usualMs: number;
  /** Shared transactions that failed in a row, and until when there are none because of that. */
  failures: number;
  pausedUntilMs: number;
}

/** A new connection has to learn each table first. */
const tablesAtFirst = 16;
const tablesMin = 2;
/** This many failures in a row are no table's fault: an engine that cannot share is not tried again and again. */
const failuresMax = 4;
/** How many times the usual time is slow. */
const slowTimes = 4;
/** The factor by which one group moves the usual time, and the most of these steps for one transaction. */
const usualStep = 1.05;
const usualStepsMax = 14;

export class GroupSharing implements GroupCommit {
  readonly #transactions: GroupTransactions;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  readonly #lines = new Map<string, DatabaseSharing>();
  readonly #tables = rememberedOf<Target, Shared>(() => ({ apart: null, wasSlow: false }));

  constructor(transactions: GroupTransactions, context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#transactions = transactions;
    this.#context = context;
  }

  commit(group: Group): Promise<readonly Outcome[]> {
    const line = this.#lineOf(group.target);
    if (line.pausedUntilMs > this.#context.clock() || !this.#shares(group)) return this.#alone(line, group);
    return new Promise((resolve) => {
      // When all lanes whose turn ends now have submitted theirs.
      if (line.waiting.push({ group, resolve }) === 1) queueMicrotask(() => this.#goOn(line));
    });
  }

  #lineOf({ database }: Target): DatabaseSharing {
    const known = this.#lines.get(database);
    if (known !== undefined) return known;
    const { sharedTablesMax, sharedQuickMs } = this.#context.limits;
    const line: DatabaseSharing = {
      waiting: [],
      counted: new Set(),
      isWatched: false,
      tables: Math.min(tablesAtFirst, sharedTablesMax),
      usualMs: sharedQuickMs,
      failures: 0,
      pausedUntilMs: 0,
    };
    this.#lines.set(database, line);
    return line;
  }

  #slowMs({ usualMs }: DatabaseSharing): number {
    return Math.max(this.#context.limits.sharedQuickMs, slowTimes * usualMs);
  }

  #learn(line: DatabaseSharing, groups: number, ms: number): void {
    const factor = usualStep ** Math.min(groups, usualStepsMax);
    const next =
      ms > line.usualMs ? Math.min(ms, line.usualMs * factor) : Math.max(ms, line.usualMs / factor);
    // A lower bound, so that the usual time never takes long to be learnt again.
    line.usualMs = Math.max(1, next);
  }

  #shares(group: Group): boolean {
    const { sharedGroupRowsMax, sharedGroupBytesMax } = this.#context.limits;
    if (group.rows > sharedGroupRowsMax || group.bytes > sharedGroupBytesMax) return false;
    if (!this.#transactions.mayShare(group)) return false;
    const { apart } = this.#tables(group.target);
    return apart === null || apart.untilMs <= this.#context.clock();
  }

  /** Starts waiting groups if fewer transactions count than may. */
  #goOn(line: DatabaseSharing): void {
    const { clock, limits } = this.#context;
    if (line.waiting.length === 0 || line.counted.size >= limits.sharedTransactionsMax) return;
    const transaction = { sinceMs: clock() };
    line.counted.add(transaction);
    this.#watch(line);
    const taken = this.#take(line);
    const going = this.#go(line, taken).then((tell) => {
      // As in a lane: the waiting groups are at the engine while these are answered.
      if (line.waiting.length >= taken.length) process.nextTick(tell);
      else tell();
    });
    void going.finally(() => this.#uncount(line, transaction));
    this.#goOn(line);
  }

  #uncount(line: DatabaseSharing, transaction: CountedTransaction): void {
    if (line.counted.delete(transaction)) this.#goOn(line);
  }

  /** A slow transaction is counted for twice that time at most; however slow others are, for twice `sharedStatementMs`. */
  #watch(line: DatabaseSharing): void {
    if (line.isWatched) return;
    line.isWatched = true;
    const slowMs = Math.min(this.#slowMs(line), this.#context.limits.sharedStatementMs);
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
      if (count > 0 && (count >= line.tables || bytes > sharedBytesMax)) break;
      count++;
    }
    const taken = line.waiting.slice(0, count);
    line.waiting = line.waiting.slice(count);
    return taken;
  }

  /** The returned function tells the groups their outcomes. */
  async #go(line: DatabaseSharing, taken: readonly WaitingGroup[]): Promise<() => void> {
    const [first] = taken;
    if (first === undefined) return nothing;
    if (taken.length === 1) {
      const outcomes = this.#alone(line, first.group);
      first.resolve(outcomes);
      await outcomes;
      return nothing;
    }
    const { clock, limits } = this.#context;
    const slowMs = this.#slowMs(line);
    const started = clock();
    const outcomes = await this.#transactions.together(taken.map(({ group }) => group));
    const ms = clock() - started;
    if (outcomes !== null) this.#learn(line, taken.length, ms);
    line.failures = outcomes === null ? line.failures + 1 : 0;
    if (line.failures >= failuresMax)
      line.pausedUntilMs = clock() + Math.min(limits.apartMinMs * line.failures, limits.apartMaxMs);
    if (outcomes === null || ms > slowMs) line.tables = Math.max(tablesMin, taken.length >> 1);
    else if (taken.length === line.tables) line.tables = Math.min(2 * line.tables, limits.sharedTablesMax);
    if (outcomes !== null) for (const { group } of taken) this.#suspect(group.target, ms > slowMs);
    return () => taken.forEach(({ group, resolve }, i) => resolve(outcomes?.[i] ?? this.#alone(line, group)));
  }

  /** A shared transaction with rows of this table was slow, or quick. After the second slow one in a row its next group goes alone. */
  #suspect(target: Target, isSlow: boolean): void {
    const table = this.#tables(target);
    const isSecond = isSlow && table.wasSlow;
    table.wasSlow = isSlow && !isSecond;
    if (isSecond) table.apart = { untilMs: Infinity, forMs: (table.apart ?? shares).forMs };
  }

  async #alone(line: DatabaseSharing, group: Group): Promise<readonly Outcome[]> {
    const { clock, limits } = this.#context;
    const { target } = group;
    const { outcomes, ms } = await this.#transactions.alone(group);
    // Others were in its way.
    if (ms === null) return outcomes;
    const now = clock();
    const table = this.#tables(target);
    const { untilMs, forMs } = table.apart ?? shares;
    const isSlow = ms > this.#slowMs(line);
    this.#learn(line, 1, ms);
    if (isSlow || outcomes.some(isRefused)) {
      const next = Math.min(Math.max(limits.apartMinMs, 2 * forMs), limits.apartMaxMs);
      table.apart = { untilMs: now + next, forMs: next };
    } else if (untilMs === Infinity && forMs > 0) table.apart = { untilMs: now, forMs };
    // It was quick, or has been for long.
    else if (untilMs === Infinity || untilMs + limits.apartMaxMs <= now) table.apart = null;
    return outcomes;
  }
}

const nothing = (): void => undefined;

/** Whether it is about the table or its rows; trouble of the engine says nothing about a table. */
function isRefused(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && !/^(engine_unavailable|deadline)$/.test(outcome.refusal.code);
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
