/**
 * Whose group is next. Groups that go alone each take one of their database's connections for as long as the engine works on them, which
 * is up to the tables' owners: their triggers sleep, they keep tables locked. So connections are handed out by turns of the owners, who
 * need not trust each other, and a few are always left. Takes the table of a group; returns whether its turn came in time. Touches nothing else.
 *
 *   a database   has as many groups at work as it has connections. The others wait here, those of one owner in order of arrival. Groups of tables that run no
 *                code, and all others, which have other connections, are two lines: rows that run no code wait for nobody's code.
 *   an owner     who has a group at work gets none of the last `commitConnectionsLeft`: these are for owners who have none.
 *   slow owners  get none of these together, and share the others in equal parts, of which there are at least two. Slow is, for `slowOwnerMs`, whose
 *                group took longer than `slowGroupMs`, or has so many rows that its senders wait more than twice as long as usual.
 *
 * A line in which all groups so far were of one owner has nobody to protect: the owner has all connections.
 *
 * An owner who waits for nobody costs a few additions. What is known of an owner is forgotten with its last group, or, if it was slow, when the
 * next one becomes slow after that time.
 */
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import type { CommitPools } from './commit-pools.ts';
import { runsNoCode } from './plan-lock.ts';

interface Owner {
  /** Its groups that are at work. */
  held: number;
  /** Its groups whose turn has not come. */
  readonly waiting: Set<() => void>;
  /** It is slow until then; 0: it was not slow lately. */
  slowUntilMs: number;
}

/** The state of one database, for groups with or without code. */
interface DatabaseTurns {
  readonly database: string;
  /** By oid; whoever has waited and had a turn is behind all others. */
  readonly owners: Map<number, Owner>;
  held: number;
  waiting: number;
  /** The first owner of whom there was a group; null: none yet. */
  only: number | null;
  /** There was a group of another one, too. */
  hasSeveral: boolean;
}

/** The groups of slow owners: how many are at work, and how many may be, of all and of each. */
interface Slow {
  held: number;
  readonly max: number;
  readonly part: number;
}

export class OwnerScheduler {
  readonly #pools: Pick<CommitPools, 'sizeOf'>;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  /** By database: of tables that run no code, and of all others. */
  readonly #lines = new Map<string, readonly [DatabaseTurns, DatabaseTurns]>();

  constructor(pools: Pick<CommitPools, 'sizeOf'>, context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#pools = pools;
    this.#context = context;
  }

  /** There is a group of this table's owner, whichever way it goes: one more owner to be fair to. */
  note(target: Target): void {
    const { code } = target;
    const line = this.#lineOf(target);
    line.only ??= code.owner;
    if (line.only !== code.owner) line.hasSeveral = true;
  }

  /**
   * Takes the turn of a group when it has come; false: it did not come in time. Of a quick owner a group waits until what is left is just
   * enough for its answer; of a slow one, or for a large batch of webhooks, only so long that its statement can still end in time. After a turn comes `end`.
   */
  turn(target: Target, ackTimeoutMs: number): Promise<boolean> {
    const line = this.#lineOf(target);
    const owner = ownerOf(line, target.code.owner);
    if (ackTimeoutMs > 2 * this.#context.limits.ackDeadlineMs) this.#slowDown(line, owner);
    if (owner.waiting.size > 0 || !this.#mayGo(line, owner))
      return this.#wait(line, owner, target, ackTimeoutMs);
    begin(line, owner);
    return itsTurn;
  }

  /** `ms`: how long the group had its connection; null: it never had one. */
  end(target: Target, ms: number | null): void {
    const line = this.#lineOf(target);
    const owner = ownerOf(line, target.code.owner);
    line.held -= 1;
    owner.held -= 1;
    if (ms !== null && ms > this.#context.limits.slowGroupMs) this.#slowDown(line, owner);
    this.#goOn(line);
    this.#forget(line, target.code.owner, owner);
  }

  #lineOf(target: Target): DatabaseTurns {
    const { database } = target;
    let lines = this.#lines.get(database);
    if (lines === undefined) this.#lines.set(database, (lines = [lineOf(database), lineOf(database)]));
    return lines[runsNoCode(target) ? 0 : 1];
  }

  #wait(line: DatabaseTurns, owner: Owner, { code }: Target, ackTimeoutMs: number): Promise<boolean> {
    const { ackDeadlineMs, commitStatementTimeoutMs } = this.#context.limits;
    const spareMs = ackDeadlineMs - commitStatementTimeoutMs;
    const waitMs = this.#isSlow(owner) ? spareMs : ackTimeoutMs - spareMs;
    return new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer);
        owner.waiting.delete(go);
        line.waiting -= 1;
        begin(line, owner);
        resolve(true);
      };
      const timer = setTimeout(() => {
        owner.waiting.delete(go);
        line.waiting -= 1;
        this.#forget(line, code.owner, owner);
        resolve(false);
      }, waitMs);
      owner.waiting.add(go);
      line.waiting += 1;
    });
  }

  /** Starts what waits, as much as may go. */
  #goOn(line: DatabaseTurns): void {
    if (line.waiting === 0) return;
    const slow = this.#slowOf(line);
    // Whoever is put at the end is visited once more.
    for (const [oid, owner] of line.owners) {
      const [go] = owner.waiting;
      if (go === undefined || !this.#mayGo(line, owner, slow)) continue;
      if (this.#isSlow(owner)) slow.held += 1;
      line.owners.delete(oid);
      line.owners.set(oid, owner);
      go();
    }
  }

  #mayGo(line: DatabaseTurns, owner: Owner, known: Slow | null = null): boolean {
    const connections = this.#pools.sizeOf(line.database);
    if (line.held >= connections) return false;
    if (!line.hasSeveral) return true;
    if (owner.held > 0 && line.held >= this.#most(connections)) return false;
    if (!this.#isSlow(owner)) return true;
    const slow = known ?? this.#slowOf(line);
    return owner.held < slow.part && slow.held < slow.max;
  }

  /** How many connections there are without those that are left. */
  #most(connections: number): number {
    return connections - Math.min(this.#context.limits.commitConnectionsLeft, connections >> 1);
  }

  #slowOf(line: DatabaseTurns): Slow {
    let [owners, held] = [0, 0];
    for (const owner of line.owners.values())
      if (this.#isSlow(owner)) {
        owners += 1;
        held += owner.held;
      }
    const max = this.#most(this.#pools.sizeOf(line.database));
    return { held, max, part: Math.max(1, Math.floor(max / Math.max(2, owners))) };
  }

  #isSlow({ slowUntilMs }: Owner): boolean {
    return slowUntilMs > 0 && slowUntilMs > this.#context.clock();
  }

  #slowDown(line: DatabaseTurns, owner: Owner): void {
    owner.slowUntilMs = this.#context.clock() + this.#context.limits.slowOwnerMs;
    for (const [oid, other] of line.owners) this.#forget(line, oid, other);
  }

  #forget({ owners }: DatabaseTurns, oid: number, owner: Owner): void {
    if (owner.held === 0 && owner.waiting.size === 0 && !this.#isSlow(owner)) owners.delete(oid);
  }
}

const itsTurn = Promise.resolve(true);

const lineOf = (database: string): DatabaseTurns => ({
  database,
  owners: new Map(),
  held: 0,
  waiting: 0,
  only: null,
  hasSeveral: false,
});

function ownerOf({ owners }: DatabaseTurns, oid: number): Owner {
  const known = owners.get(oid);
  if (known !== undefined) return known;
  const made: Owner = { held: 0, waiting: new Set(), slowUntilMs: 0 };
  owners.set(oid, made);
  return made;
}

function begin(line: DatabaseTurns, owner: Owner): void {
  line.held += 1;
  owner.held += 1;
}
