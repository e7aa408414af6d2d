/**
 * One table's lane: requests wait here, in order, for the group that commits them.
 *
 * Takes Rows; returns one receipt each (a promise of an Outcome that resolves exactly once and never rejects);
 * refuses with `lane_full`, `deadline`, `chain_broken` and `draining`. Touches nothing but the commit function it was given.
 *
 * States, `#state`, changed by `#become` alone:
 *   idle       nothing waits, nothing commits.
 *   gathering  the first request has arrived; the group is taken when this turn of the event loop has read every
 *              socket that was ready, so requests that arrive together are committed together. No timer.
 *   committing a group is at the engine; requests that arrive meanwhile wait and are the next group. So groups grow
 *              under load, and a request that is alone waits for nothing.
 *
 *   idle ──submit──► gathering ──turn ends──► committing ──outcomes, as many wait──► committing
 *                        ▲                        ├────────outcomes, fewer wait──┐
 *                        └────────────────────────┼──────────────────────────────┘
 *                                                 └────────outcomes, none waits──► idle
 *
 * If many senders send again as soon as they are answered, two groups take turns: while one is at the engine, the senders of the
 * other are answered and their next requests are read. So if at least as many requests wait as the last group had, the next group
 * goes to the engine before the answers of the last one are written, and takes half of all. If fewer wait, the answers are
 * written first, and the lane waits for the end of the turn.
 *
 * `expire` settles a receipt past its deadline: with `deadline` (certainly not stored) if the request still waits, and with
 * `unknown` if its group is at the engine, whose own answer then comes too late. Each request has its own timeout, so
 * one in the middle of the queue may expire first.
 *
 * A table that commits slowly gets smaller groups, and its queue is full when a request would wait for more than half of
 * its timeout: a request that cannot be answered in time is refused at once, and takes no time from the others (lane-rate.ts).
 *
 * Rows of a chain that were not committed break the chain; rows of it that are taken for a group afterwards are refused
 * with `chain_broken`.
 */
import type { Semaphore } from '../kit/semaphore.ts';
import type { Group, GroupCommit, Outcome, Rows } from '../types/rows.ts';
import type { StageContext } from '../observe/context.ts';
import { refusal } from '../errors/refusals.ts';
import type { Pace } from './lane-rate.ts';

type LaneState = 'idle' | 'gathering' | 'committing';

/** What all lanes share. */
export interface LanesContext extends Pick<StageContext, 'clock' | 'limits'> {
  /** Nearly always `Commit` (commit/commit.ts). */
  readonly commit: GroupCommit;
  /** Runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  readonly endOfTurn: (run: () => void) => void;
  /** Called when a lane has nothing left. */
  readonly onIdle: () => void;
}

interface WaitingRows {
  readonly rows: Rows;
  /** Settles its receipt. */
  readonly resolve: (outcome: Outcome) => void;
  readonly deadline: number;
  /** Its number in the order of arrival. */
  readonly ordinal: number;
  settled: boolean;
}

export class Lane {
  readonly #all: LanesContext;
  readonly #pace: Pace;
  readonly #passes: Semaphore | null;
  #state: LaneState = 'idle';
  /** In order of arrival; `#head` is the first that still waits, so that taking a group moves no elements. */
  #queue: WaitingRows[] = [];
  #head = 0;
  #committing: readonly WaitingRows[] = [];
  /** Groups that the engine is done with, and whose senders are still to be told. */
  #ended: { readonly members: readonly WaitingRows[]; readonly outcomes: readonly Outcome[] }[] = [];
  #rows = 0;
  #bytes = 0;
  /** No deadline in the queue, and none of the group at the engine, is before this. */
  #soonest = Infinity;
  #ordinals = 0;
  /** The ordinal of the last request that belongs to a chain. */
  #lastInOrder = 0;
  /** Callers that wait until everything up to an ordinal is stored or never will be. */
  #watchers: { readonly upTo: number; readonly tell: () => void }[] = [];

  /** `pace`: what is known of the table's speed. `passes`: a group is committed only while it holds one of them; null: none is needed. */
  constructor(all: LanesContext, pace: Pace, passes: Semaphore | null = null) {
    this.#all = all;
    this.#pace = pace;
    this.#passes = passes;
  }

  get state(): LaneState {
    return this.#state;
  }

  /** Rows that wait for a group, without those at the engine. */
  get depth(): number {
    return this.#rows;
  }

  /** Whether a request of this size would be refused now. Called before its body is read. */
  isFull(bytes: number, ackTimeoutMs: number): boolean {
    const { laneRowsMax, laneBytesMax } = this.#all.limits;
    // A lane in which nothing waits accepts one request of any size that the listener let through.
    if (this.#rows === 0) return false;
    if (this.#rows >= laneRowsMax || this.#bytes + bytes > laneBytesMax) return true;
    return this.#pace.waitMs(this.#rows) * 2 > ackTimeoutMs;
  }

  submit(rows: Rows): Promise<Outcome> {
    const refused = this.isFull(rows.bytes, rows.ackTimeoutMs)
      ? 'lane_full'
      : rows.chain?.broken === true
        ? 'chain_broken'
        : null;
    if (refused !== null) {
      if (rows.chain !== null) rows.chain.broken = true;
      return Promise.resolve({ kind: 'aborted', refusal: refusal(refused) });
    }
    const deadline = this.#all.clock() + rows.ackTimeoutMs;
    const ordinal = ++this.#ordinals;
    if (rows.chain !== null) this.#lastInOrder = ordinal;
    const receipt = new Promise<Outcome>((resolve) => {
      this.#queue.push({ rows, resolve, deadline, ordinal, settled: false });
    });
    this.#soonest = Math.min(this.#soonest, deadline);
    this.#rows += rows.count;
    this.#bytes += rows.bytes;
    if (this.#state === 'idle') this.#gather(() => void this.#run());
    return receipt;
  }

  /** Resolves when the rows of chains that are here now are stored, or never will be, including those whose receipt has expired. */
  settled(): Promise<void> {
    const upTo = this.#lastInOrder;
    const first = this.#committing[0] ?? this.#queue[this.#head];
    if (first === undefined || first.ordinal > upTo) return Promise.resolve();
    return new Promise((tell) => this.#watchers.push({ upTo, tell }));
  }

  /** Settles receipts past their deadline. Costs nothing while there can be none. */
  expire(now: number): void {
    if (now < this.#soonest) return;
    this.#soonest = Infinity;
    for (const waiting of this.#committing) {
      if (waiting.settled) continue;
      if (waiting.deadline <= now) settle(waiting, { kind: 'unknown', refusal: refusal('deadline') });
      else this.#soonest = Math.min(this.#soonest, waiting.deadline);
    }
    let kept = 0;
    for (let i = this.#head; i < this.#queue.length; i++) {
      const waiting = this.#queue[i];
      if (waiting === undefined) continue;
      if (waiting.deadline <= now) {
        this.#uncount(waiting);
        settle(waiting, { kind: 'aborted', refusal: refusal('deadline') });
        continue;
      }
      this.#soonest = Math.min(this.#soonest, waiting.deadline);
      this.#queue[this.#head + kept++] = waiting;
    }
    this.#queue.length = this.#head + kept;
  }

  /** Settles everything that still waits; the group at the engine has its outcome, or its deadline. */
  abort(code: 'draining'): void {
    while (this.#head < this.#queue.length) {
      const waiting = this.#queue[this.#head];
      if (waiting === undefined) break;
      this.#leave(waiting);
      settle(waiting, { kind: 'aborted', refusal: refusal(code) });
    }
  }

  async #run(): Promise<void> {
    const passes = this.#passes;
    let before = 0;
    while (this.#head < this.#queue.length) {
      // A request that waits for a pass is still in the queue, and is certainly not stored.
      const done = passes === null ? null : await passes.turn();
      const waiting = this.#queue.length - this.#head;
      const members = this.#takeGroup(before === 0 ? waiting : Math.ceil((waiting + before) / 2));
      before = members.length;
      if (before > 0) await this.#commit(members);
      done?.();
      const left = this.#queue.length - this.#head;
      if (left >= before) {
        // After all promises that are settled now, and so after the next group is written to the engine.
        process.nextTick(() => this.#tell());
        continue;
      }
      this.#tell();
      if (left > 0) await new Promise<void>((resolve) => this.#gather(resolve));
    }
    this.#tell();
    this.#become('idle');
    this.#all.onIdle();
  }

  /** Requests that belong together have arrived when this turn of the event loop has read every socket that was ready. */
  #gather(goOn: () => void): void {
    this.#become('gathering');
    this.#all.endOfTurn(goOn);
  }

  #tell(): void {
    for (const { members, outcomes } of this.#ended.splice(0))
      members.forEach((waiting, i) => settle(waiting, outcomes[i] ?? unheardOf));
    this.#tellWatchers();
  }

  #tellWatchers(): void {
    if (this.#watchers.length === 0) return;
    const first = (this.#committing[0] ?? this.#queue[this.#head])?.ordinal ?? Infinity;
    const passed = this.#watchers.filter(({ upTo }) => upTo < first);
    this.#watchers = this.#watchers.filter(({ upTo }) => upTo >= first);
    for (const { tell } of passed) tell();
  }

  async #commit(members: readonly WaitingRows[]): Promise<void> {
    this.#become('committing');
    this.#committing = members;
    const group = toGroup(members);
    const started = this.#all.clock();
    const outcomes = await this.#all.commit.commit(group);
    this.#pace.record(group.rows, this.#all.clock() - started);
    // Before the next group is taken.
    members.forEach(({ rows: { chain } }, i) => {
      if (chain !== null && outcomes[i]?.kind !== 'committed') chain.broken = true;
    });
    this.#ended.push({ members, outcomes });
    this.#committing = [];
  }

  /** The next requests that fit one transaction: of one version of the table, within the group's bounds. */
  #takeGroup(most: number): WaitingRows[] {
    const { groupBytesMax } = this.#all.limits;
    const { groupRows, groupMs } = this.#pace;
    const latest = this.#all.clock() + groupMs;
    const members: WaitingRows[] = [];
    let rows = 0;
    let bytes = 0;
    while (this.#head < this.#queue.length && members.length < most) {
      const waiting = this.#queue[this.#head];
      if (waiting === undefined) break;
      if (waiting.rows.chain?.broken === true) {
        this.#leave(waiting);
        settle(waiting, { kind: 'aborted', refusal: refusal('chain_broken') });
        continue;
      }
      // It would be stored, but its sender would no longer be told.
      if (waiting.deadline < latest && this.#head + 1 < this.#queue.length) {
        this.#leave(waiting);
        settle(waiting, { kind: 'aborted', refusal: refusal('deadline') });
        continue;
      }
      const first = members[0];
      if (first !== undefined) {
        if (waiting.rows.target !== first.rows.target) break;
        if (rows + waiting.rows.count > groupRows) break;
        if (bytes + waiting.rows.bytes > groupBytesMax) break;
      }
      this.#leave(waiting);
      members.push(waiting);
      rows += waiting.rows.count;
      bytes += waiting.rows.bytes;
    }
    return members;
  }

  /** Removes the head of the queue, for a group or with a refusal. */
  #leave(waiting: WaitingRows): void {
    this.#head++;
    this.#uncount(waiting);
    // Drops the consumed front in one go, so that taking a request moves no elements most of the time.
    if (this.#head === this.#queue.length || this.#head > 4_096) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
  }

  #uncount({ rows }: WaitingRows): void {
    this.#rows -= rows.count;
    this.#bytes -= rows.bytes;
  }

  #become(state: LaneState): void {
    this.#state = state;
  }
}

const unheardOf: Outcome = { kind: 'unknown', refusal: refusal('internal') };

function settle(waiting: WaitingRows, outcome: Outcome): void {
  if (waiting.settled) return;
  waiting.settled = true;
  if (outcome.kind !== 'committed' && waiting.rows.chain !== null) waiting.rows.chain.broken = true;
  waiting.resolve(outcome);
}

function toGroup(waiting: readonly WaitingRows[]): Group {
  const members = waiting.map((w) => w.rows);
  const first = members[0];
  if (first === undefined) throw new Error('a group has at least one member');
  return {
    target: first.target,
    members,
    rows: members.reduce((sum, m) => sum + m.count, 0),
    bytes: members.reduce((sum, m) => sum + m.bytes, 0),
  };
}
