/**
 * Which groups share a transaction. Takes the groups of all tables; gives each its outcomes, and touches nothing but the two ways
 * it was given: `alone`, one group in one transaction, and `together`, several that are stored all or not at all.
 *
 * A commit costs more than a small group's rows, so at most `sharedTransactionsMax` of a database that hold small groups are
 * at the engine at one time:
 *
 *   fewer are     the group goes at once, with those of other tables that came in the same moment: who is alone waits for nobody.
 *   as many are   it waits, with those of other tables, until one has ended; all that wait then go together.
 *
 * Large groups pay for their own transaction, and never wait. What is stuck holds nobody up: once it is slow it counts as one no
 * longer.
 *
 * A table shares while it is quick. When a shared transaction fails, nothing of it is stored, and each of its groups goes alone at
 * once; when two in turn were slow in which a table was, it goes alone the next time. A single one says nothing: on a busy machine any may be slow. Then its own transaction shows: one that is slow too, or stores less than
 * it was given, keeps its table apart, from `apartMinMs` on twice as long each time, up to `apartMaxMs`. Tables that run code, and
 * whatever else a shared transaction cannot promise, always go alone (together.ts).
 *
 * Slow is what takes several times as long as groups of the database usually do, so that a machine or a disk that is slow
 * for everybody blames nobody. There shared transactions become smaller, and larger again when they are quick.
 */
import { Semaphore } from '../kit/semaphore.ts';
import type { CommitGroup, Group, Outcome, Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';

/**
 * One outcome per member of each group; null: of this group, or of all, nothing is stored, and it may go alone. Storing the rows of
 * a table takes `boundMs` at most, or all fails.
 */
export type CommitTogether = (
  groups: readonly Group[],
  boundMs: number,
) => Promise<readonly (readonly Outcome[] | null)[] | null>;

export interface SharingOptions {
  readonly alone: CommitGroup;
  readonly together: CommitTogether;
  /** Whether a table's groups may ever share. */
  readonly mayShare: (group: Group) => boolean;
  readonly limits: Pick<
    Limits,
    | 'sharedTransactionsMax'
    | 'sharedTablesMax'
    | 'sharedGroupRowsMax'
    | 'sharedGroupBytesMax'
    | 'sharedBytesMax'
    | 'sharedQuickMs'
    | 'sharedStatementMinMs'
    | 'sharedStatementMs'
    | 'apartMinMs'
    | 'apartMaxMs'
  >;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

interface Waiting {
  readonly group: Group;
  readonly resolve: (outcomes: readonly Outcome[] | Promise<readonly Outcome[]>) => void;
}

/** A table that does not share, or lately did not. */
interface Apart {
  /** Infinity: until it has gone alone once. */
  readonly untilMs: number;
  /** How long it was kept apart the last time. */
  readonly forMs: number;
}

const shares: Apart = { untilMs: 0, forMs: 0 };

interface Held {
  readonly sinceMs: number;
  /** Gives the slot back, once. */
  readonly done: () => void;
}

/** What goes on in one database. */
interface Line {
  readonly slots: Semaphore;
  waiting: Waiting[];
  /** What holds slots. */
  readonly held: Set<Held>;
  /** It is looked whether one of them is slow. */
  isWatched: boolean;
  /** How many tables a shared transaction should have at most. */
  tables: number;
  /** What half of the groups take at most, in ms; follows them slowly. */
  usualMs: number;
  /** Shared transactions that failed one after the other, and until when there are none because of that. */
  failures: number;
  pausedUntilMs: number;
}

/** A new connection has to learn of each table first. */
const tablesAtFirst = 16;
const tablesMin = 2;
/** So many failures in turn are no table's: an engine that cannot do it at all is not asked again and again. */
const failuresMax = 4;
/** How many times what is usual is slow. */
const slowTimes = 4;
/** How much one group moves what is usual, and how much one transaction may. */
const usualStep = 1.05;
const usualStepsMax = 14;

export class Sharing {
  readonly #options: SharingOptions;
  readonly #lines = new Map<string, Line>();
  readonly #apart = new WeakMap<Target, Apart>();
  /** Whose last shared transaction was slow. */
  readonly #suspects = new WeakSet<Target>();

  constructor(options: SharingOptions) {
    this.#options = options;
  }

  readonly commit: CommitGroup = (group) => {
    const line = this.#lineOf(group.target);
    if (line.pausedUntilMs > this.#options.clock() || !this.#shares(group)) return this.#alone(line, group);
    return new Promise((resolve) => {
      // When all lanes whose turn ends now have brought theirs.
      if (line.waiting.push({ group, resolve }) === 1) queueMicrotask(() => this.#goOn(line));
    });
  };

  #lineOf({ database }: Target): Line {
    const known = this.#lines.get(database);
    if (known !== undefined) return known;
    const { sharedTransactionsMax, sharedTablesMax, sharedQuickMs: usualMs } = this.#options.limits;
    const slots = new Semaphore(sharedTransactionsMax);
    const tables = Math.min(tablesAtFirst, sharedTablesMax);
    const atFirst = { waiting: [], held: new Set<Held>(), isWatched: false, failures: 0, pausedUntilMs: 0 };
    const line: Line = { slots, tables, usualMs, ...atFirst };
    this.#lines.set(database, line);
    return line;
  }

  #slowMs({ usualMs }: Line): number {
    return Math.max(this.#options.limits.sharedQuickMs, slowTimes * usualMs);
  }

  #learn(line: Line, groups: number, ms: number): void {
    const factor = usualStep ** Math.min(groups, usualStepsMax);
    const next =
      ms > line.usualMs ? Math.min(ms, line.usualMs * factor) : Math.max(ms, line.usualMs / factor);
    // Nothing is so quick that it would have to be learnt anew for long.
    line.usualMs = Math.max(1, next);
  }

  #shares(group: Group): boolean {
    const { sharedGroupRowsMax, sharedGroupBytesMax } = this.#options.limits;
    if (group.rows > sharedGroupRowsMax || group.bytes > sharedGroupBytesMax) return false;
    if (!this.#options.mayShare(group)) return false;
    const apart = this.#apart.get(group.target);
    return apart === undefined || apart.untilMs <= this.#options.clock();
  }

  /** What waits goes, where there is a slot. */
  #goOn(line: Line): void {
    if (line.waiting.length === 0) return;
    const done = line.slots.takeNow();
    if (done === null) return;
    const held = { sinceMs: this.#options.clock(), done };
    line.held.add(held);
    this.#watch(line);
    const taken = this.#take(line);
    const going = this.#go(line, taken).then((tell) => {
      // As in a lane: what waits is at the engine while those are answered.
      if (line.waiting.length >= taken.length) process.nextTick(tell);
      else tell();
    });
    void going.finally(() => this.#let(line, held));
    this.#goOn(line);
  }

  #let(line: Line, held: Held): void {
    if (!line.held.delete(held)) return;
    held.done();
    this.#goOn(line);
  }

  /** What is slow holds no slot any more, after twice that time at most. */
  #watch(line: Line): void {
    if (line.isWatched) return;
    line.isWatched = true;
    const slowMs = this.#slowMs(line);
    setTimeout(() => {
      line.isWatched = false;
      const latestMs = this.#options.clock() - slowMs;
      for (const held of line.held) if (held.sinceMs <= latestMs) this.#let(line, held);
      if (line.held.size > 0) this.#watch(line);
    }, slowMs).unref();
  }

  /** The first that wait, as many as fit one transaction. */
  #take(line: Line): readonly Waiting[] {
    const { sharedBytesMax } = this.#options.limits;
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

  /** What is returned tells them what became of them. */
  async #go(line: Line, taken: readonly Waiting[]): Promise<() => void> {
    const [first] = taken;
    if (first === undefined) return nothing;
    if (taken.length === 1) {
      const outcomes = this.#alone(line, first.group);
      first.resolve(outcomes);
      await outcomes;
      return nothing;
    }
    const { clock, together, limits } = this.#options;
    const slowMs = this.#slowMs(line);
    const boundMs = Math.min(Math.max(limits.sharedStatementMinMs, slowMs), limits.sharedStatementMs);
    const started = clock();
    const outcomes = await together(
      taken.map(({ group }) => group),
      boundMs,
    );
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

  /** A shared transaction with rows of this table was slow, or quick. After the second one in turn its next group goes alone. */
  #suspect(target: Target, isSlow: boolean): void {
    const wasSlow = this.#suspects.delete(target);
    if (!isSlow) return;
    if (!wasSlow) {
      this.#suspects.add(target);
      return;
    }
    const { forMs } = this.#apart.get(target) ?? shares;
    this.#apart.set(target, { untilMs: Infinity, forMs });
  }

  async #alone(line: Line, group: Group): Promise<readonly Outcome[]> {
    const { alone, clock, limits } = this.#options;
    const { target } = group;
    const started = clock();
    const outcomes = await alone(group);
    const now = clock();
    const { untilMs, forMs } = this.#apart.get(target) ?? shares;
    const isSlow = now - started > this.#slowMs(line);
    this.#learn(line, 1, now - started);
    if (isSlow || outcomes.some(isRefused)) {
      const next = Math.min(Math.max(limits.apartMinMs, 2 * forMs), limits.apartMaxMs);
      this.#apart.set(target, { untilMs: now + next, forMs: next });
    } else if (untilMs === Infinity && forMs > 0) this.#apart.set(target, { untilMs: now, forMs });
    // It was quick, or has been for long.
    else if (untilMs === Infinity || untilMs + limits.apartMaxMs <= now) this.#apart.delete(target);
    return outcomes;
  }
}

const nothing = (): void => undefined;

/** It is about the table or its rows; what befalls an engine says nothing of a table. */
function isRefused(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && !/^(engine_unavailable|deadline)$/.test(outcome.refusal.code);
}
