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
 * (multi-table-statement.ts), and so do those that are slow (`SharingTables`). What is usual there is up to whoever sends most
 * groups, so `sharedStatementMs` bounds whatever others wait for: the statements of a shared transaction, which then fails, and how long one is counted.
 */
import type { Limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import { rememberedOf } from '../kit/memoize.ts';
import type { Group, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { ackTimeoutOf } from './session.ts';
import { isHeldByPlan } from './plan-lock.ts';

/** A transaction that counts. */
interface CountedTransaction {
  readonly sinceMs: number;
}

/** What became of a group that has joined: it was stored with others, or it goes alone, at once. `counted`: see `ended`; null: it does not count. */
export type Joined =
  | { readonly outcomes: readonly Outcome[] }
  | { readonly outcomes: null; readonly counted: CountedTransaction | null };

/** What became of a group that went alone. */
export interface GroupResult {
  /** One for each member, in order. */
  readonly outcomes: readonly Outcome[];
  /** How long it had a connection, in ms; null: it never had one, which says nothing about its table. */
  readonly ms: number | null;
}

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

/**
 * Which tables of a database share transactions, and how many of them one; what has happened is told, with the time.
 *
 * A table shares while it is quick. When a shared transaction fails, nothing of it is stored, and each of its groups goes alone at
 * once; when two in a row were slow that had rows of a table, its next group goes alone. A single slow one says nothing: on a busy
 * machine any may be slow. The table's own transaction then decides: if it is slow, too, or stores less than it was given, the table is
 * kept apart, from `apartMinMs` on twice as long each time, up to `apartMaxMs`.
 *
 * Slow means several times as long as groups of the database usually take, so that a machine or a disk that is slow
 * for everybody blames nobody. Shared transactions then become smaller, and larger again when they are quick.
 */
class SharingTables {
  readonly #limits: Pick<Limits, 'sharedTablesMax' | 'sharedQuickMs' | 'apartMinMs' | 'apartMaxMs'>;
  readonly #tables = rememberedOf<Target, Shared>(() => ({ apart: null, wasSlow: false }));
  #most: number;
  /** What half of the groups take at most, in ms; adapts slowly. */
  #usualMs: number;
  /** Shared transactions that failed in a row, and until when there are none because of that. */
  #failures = 0;
  #pausedUntilMs = 0;

  constructor(limits: Pick<Limits, 'sharedTablesMax' | 'sharedQuickMs' | 'apartMinMs' | 'apartMaxMs'>) {
    this.#limits = limits;
    this.#most = Math.min(tablesAtFirst, limits.sharedTablesMax);
    this.#usualMs = limits.sharedQuickMs;
  }

  /** How many tables a shared transaction should have at most. */
  get most(): number {
    return this.#most;
  }

  /** What takes longer is slow. */
  get slowMs(): number {
    return Math.max(this.#limits.sharedQuickMs, slowTimes * this.#usualMs);
  }

  /** Whether groups of this table share now. */
  shares(target: Target, nowMs: number): boolean {
    if (this.#pausedUntilMs > nowMs) return false;
    const { apart } = this.#tables(target);
    return apart === null || apart.untilMs <= nowMs;
  }

  /** These groups shared a transaction, which had begun when `slowMs` was slow. */
  wentTogether(groups: readonly Group[], isStored: boolean, ms: number, slowMs: number, nowMs: number): void {
    const { apartMinMs, apartMaxMs, sharedTablesMax } = this.#limits;
    if (isStored) this.#learn(groups.length, ms);
    this.#failures = isStored ? 0 : this.#failures + 1;
    if (this.#failures >= failuresMax)
      this.#pausedUntilMs = nowMs + Math.min(apartMinMs * this.#failures, apartMaxMs);
    if (!isStored || ms > slowMs) this.#most = Math.max(tablesMin, groups.length >> 1);
    else if (groups.length === this.#most) this.#most = Math.min(2 * this.#most, sharedTablesMax);
    if (isStored) for (const { target } of groups) this.#suspect(target, ms > slowMs);
  }

  /** A shared transaction with rows of this table was slow, or quick. After the second slow one in a row its next group goes alone. */
  #suspect(target: Target, isSlow: boolean): void {
    const table = this.#tables(target);
    const isSecond = isSlow && table.wasSlow;
    table.wasSlow = isSlow && !isSecond;
    if (isSecond) table.apart = { untilMs: Infinity, forMs: (table.apart ?? shares).forMs };
  }

  wentAlone({ target }: Group, { outcomes, ms }: GroupResult, nowMs: number): void {
    // Others were in its way.
    if (ms === null) return;
    const { apartMinMs, apartMaxMs } = this.#limits;
    const table = this.#tables(target);
    const { untilMs, forMs } = table.apart ?? shares;
    const isSlow = ms > this.slowMs;
    this.#learn(1, ms);
    if (isSlow || outcomes.some(isRefused)) {
      const next = Math.min(Math.max(apartMinMs, 2 * forMs), apartMaxMs);
      table.apart = { untilMs: nowMs + next, forMs: next };
    } else if (untilMs === Infinity && forMs > 0) table.apart = { untilMs: nowMs, forMs };
    // It was quick, or has been for long.
    else if (untilMs === Infinity || untilMs + apartMaxMs <= nowMs) table.apart = null;
  }

  #learn(groups: number, ms: number): void {
    const factor = usualStep ** Math.min(groups, usualStepsMax);
    const next =
      ms > this.#usualMs ? Math.min(ms, this.#usualMs * factor) : Math.max(ms, this.#usualMs / factor);
    // A lower bound, so that the usual time never takes long to be learnt again.
    this.#usualMs = Math.max(1, next);
  }
}

/** Whether it is about the table or its rows; trouble of the engine says nothing about a table. */
function isRefused(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && !/^(engine_unavailable|deadline)$/.test(outcome.refusal.code);
}
