/**
 * Which groups share a transaction. Takes the groups of all tables; gives each its outcomes, and touches nothing but the two ways
 * it was given: `alone`, one group in one transaction, and `together`, several that are stored all or not at all.
 *
 * A commit costs more than a small group's rows, so at most `sharedTransactionsMax` of a database that hold small groups are
 * at the engine at one time:
 *
 *   fewer are     the group goes at once, alone: who is alone waits for nobody.
 *   as many are   it waits, with those of other tables, until one has ended; all that wait then go together.
 *
 * Large groups pay for their own transaction, and never wait. What is stuck holds nobody up: after `sharedQuickMs` it counts as one
 * no longer.
 *
 * A table shares while it is quick. When a shared transaction fails, nothing of it is stored, and each of its groups goes alone at
 * once; when one was slow, each goes alone the next time. Then its own transaction shows: one that is slow too, or stores less than all of
 * its rows, keeps its table apart, from `apartMinMs` on twice as long each time, up to `apartMaxMs`. Tables that run code, and
 * whatever else a shared transaction cannot promise, always go alone (together.ts).
 */
import { Slots } from '../kit/slots.ts';
import type { CommitGroup, Group, Outcome, Target } from '../tables/flow.ts';
import type { Limits } from '../tables/limits.ts';
import { isSendersAffair } from './judge.ts';

/** One outcome per member of each group; null: nothing is stored, and each may go alone. */
export type CommitTogether = (groups: readonly Group[]) => Promise<readonly (readonly Outcome[])[] | null>;

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

interface Line {
  readonly slots: Slots;
  waiting: Waiting[];
}

export class Sharing {
  readonly #options: SharingOptions;
  readonly #lines = new Map<string, Line>();
  readonly #apart = new WeakMap<Target, Apart>();

  constructor(options: SharingOptions) {
    this.#options = options;
  }

  readonly commit: CommitGroup = (group) => {
    if (!this.#shares(group)) return this.#alone(group);
    const { database } = group.target;
    let line = this.#lines.get(database);
    if (line === undefined) {
      line = { slots: new Slots(this.#options.limits.sharedTransactionsMax), waiting: [] };
      this.#lines.set(database, line);
    }
    const { waiting } = line;
    return new Promise((resolve) => {
      waiting.push({ group, resolve });
      this.#goOn(line);
    });
  };

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
    const next = () => {
      done();
      this.#goOn(line);
    };
    const timer = setTimeout(next, this.#options.limits.sharedQuickMs);
    void this.#go(this.#take(line)).finally(() => {
      clearTimeout(timer);
      next();
    });
  }

  /** The first that wait, as many as fit one transaction. */
  #take(line: Line): readonly Waiting[] {
    const { sharedTablesMax, sharedBytesMax } = this.#options.limits;
    let bytes = 0;
    let count = 0;
    for (const { group } of line.waiting) {
      bytes += group.bytes;
      if (count > 0 && (count >= sharedTablesMax || bytes > sharedBytesMax)) break;
      count++;
    }
    const taken = line.waiting.slice(0, count);
    line.waiting = line.waiting.slice(count);
    return taken;
  }

  async #go(taken: readonly Waiting[]): Promise<void> {
    const [first] = taken;
    if (first === undefined) return;
    if (taken.length === 1) {
      const outcomes = this.#alone(first.group);
      first.resolve(outcomes);
      await outcomes;
      return;
    }
    const { clock, together, limits } = this.#options;
    const started = clock();
    const outcomes = await together(taken.map(({ group }) => group));
    const isSlow = clock() - started > limits.sharedQuickMs;
    taken.forEach(({ group, resolve }, i) => {
      if (isSlow) this.#doubt(group.target);
      resolve(outcomes?.[i] ?? this.#alone(group));
    });
  }

  /** Its next group goes alone. */
  #doubt(target: Target): void {
    const { forMs } = this.#apart.get(target) ?? shares;
    this.#apart.set(target, { untilMs: Infinity, forMs });
  }

  async #alone(group: Group): Promise<readonly Outcome[]> {
    const { alone, clock, limits } = this.#options;
    const { target } = group;
    const started = clock();
    const outcomes = await alone(group);
    const now = clock();
    const { untilMs, forMs } = this.#apart.get(target) ?? shares;
    const isSlow = now - started > limits.sharedQuickMs;
    if (isSlow || outcomes.some(isRefused)) {
      const next = Math.min(Math.max(limits.apartMinMs, 2 * forMs), limits.apartMaxMs);
      this.#apart.set(target, { untilMs: now + next, forMs: next });
    } else if (untilMs === Infinity && forMs > 0) this.#apart.set(target, { untilMs: now, forMs });
    // It was quick, or has been for long.
    else if (untilMs === Infinity || untilMs + limits.apartMaxMs <= now) this.#apart.delete(target);
    return outcomes;
  }
}

/** Some of a group's rows are at fault; what befalls an engine says nothing of a table. */
function isRefused(outcome: Outcome): boolean {
  return outcome.kind === 'aborted' && isSendersAffair(outcome.refusal);
}
