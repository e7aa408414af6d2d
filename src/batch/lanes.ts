/**
 * The lanes of all tables. A lane begins with its table's first request, and is removed, with what it has learnt of the table's
 * speed, when none came for a minute.
 *
 * Takes Rows and returns receipts (see lane.ts); refuses with `lane_full`, `draining`, `deadline`, `chain_broken`.
 * Owns the only timers of the batch room: one settles receipts past their deadline, and runs only while rows wait; the other forgets
 * unused lanes.
 *
 * The side track: large requests that have no order to keep are committed at the same time as the small ones of their table,
 * which would otherwise wait for as long as a million rows take. Only a few of them run at one time over all tables, so
 * that connections, disk and processors are left for the small ones.
 */
import type { GroupCommit, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { Semaphore } from '../kit/semaphore.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused, refusal } from '../errors/refusals.ts';
import { limits as allLimits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import { paceOf } from './lane-rate.ts';
import { Lane } from './lane.ts';
import type { LanesContext } from './lane.ts';
import type { Limits } from '../config/limits.ts';

/** How often receipts are compared with their deadline, ms: an answer is late by at most this much. */
const sweepIntervalMs = 50;
/** How often unused lanes are looked for, ms. Making a lane costs more than keeping it. */
const restIntervalMs = 60_000;

/** What is known of a request before its body is read. */
export interface ExpectedRequest {
  readonly bytes: number;
  /** It belongs to a chain. */
  readonly inOrder: boolean;
}

/** Of a request of which nothing is known. */
export const nothingExpected: ExpectedRequest = { bytes: 0, inOrder: false };

interface OpenLane {
  readonly lane: Lane;
  /** The table as of the last request. */
  table: Target;
  /** A request has come since unused lanes were last looked for. */
  used: boolean;
}

export class Lanes {
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  readonly #ofLanes: LanesContext;
  readonly #lanes = new Map<string, OpenLane>();
  /** For the large requests of all tables together. */
  readonly #passes: Semaphore;
  readonly #resting: NodeJS.Timeout;
  /** While lanes are not idle, and until the next sweep after that. */
  #sweeper: NodeJS.Timeout | null = null;
  /** Lanes that are not idle. */
  #busy = 0;
  #taken = 0;
  #draining = false;
  #whenIdle: (() => void)[] = [];

  /** `endOfTurn`: runs its argument when the current turn of the event loop has handled its sockets. */
  constructor(
    commit: GroupCommit,
    context: Pick<StageContext, 'clock' | 'limits'>,
    endOfTurn: LanesContext['endOfTurn'] = setImmediate,
  ) {
    const { limits, clock } = context;
    this.#context = context;
    this.#ofLanes = { commit, limits, clock, endOfTurn: allAtOnce(endOfTurn), onIdle: () => this.#onIdle() };
    this.#passes = new Semaphore(limits.largeCommitsMax);
    this.#resting = setInterval(() => this.#forgetRested(), restIntervalMs);
    this.#resting.unref();
  }

  /** How many rows wait, for each table that has work. */
  depths(): Iterable<{ readonly table: TableName; readonly rows: number }> {
    const depths = new Map<string, { readonly table: Target; readonly rows: number }>();
    for (const { lane, table } of this.#lanes.values()) {
      if (lane.state === 'idle') continue;
      const key = laneKey(table, false);
      depths.set(key, { table, rows: lane.depth + (depths.get(key)?.rows ?? 0) });
    }
    return depths.values();
  }

  /** Throws Refused if a request for this table would wait in vain. Called before its body is read. */
  admit(
    target: Target,
    expected: ExpectedRequest = nothingExpected,
    ackTimeoutMs: number = this.#deadlineMsOf(target),
  ): void {
    if (this.#draining) throw new Refused('draining');
    const { bytes, inOrder } = expected;
    const aside = !inOrder && bytes > this.#context.limits.groupBytesMax && target.shape.key.length === 0;
    const lane = this.#lanes.get(laneKey(target, aside))?.lane;
    // For small requests, how much room will be left once they have arrived cannot be known.
    if (lane?.isFull(aside || inOrder ? bytes : 0, ackTimeoutMs) === true) throw new Refused('lane_full');
  }

  /** How long a request of this table waits at least, in ms. */
  #deadlineMsOf({ into }: Target): number {
    return into === undefined ? this.#context.limits.ackDeadlineMs : allLimits.intoDeadlineMs;
  }

  /** Requests submitted so far. */
  get taken(): number {
    return this.#taken;
  }

  /** Resolves exactly once, never rejects. */
  submit(rows: Rows): Promise<Outcome> {
    this.#taken += 1;
    if (this.#draining) {
      if (rows.chain !== null) rows.chain.broken = true;
      return Promise.resolve({ kind: 'aborted', refusal: refusal('draining') });
    }
    const aside = goesAside(rows, this.#context.limits);
    const open = this.#open(rows.target, aside);
    open.table = rows.target;
    open.used = true;
    const { lane } = open;
    const wasIdle = lane.state === 'idle';
    const outcome = lane.submit(rows);
    if (wasIdle && lane.state !== 'idle') this.#onBusy();
    return outcome;
  }

  #open(target: Target, aside: boolean): OpenLane {
    const key = laneKey(target, aside);
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const pace = paceOf(target, this.#context.limits);
    const lane = new Lane(this.#ofLanes, pace, aside ? this.#passes : null);
    const made = { lane, table: target, used: true };
    this.#lanes.set(key, made);
    return made;
  }

  /** Resolves when the rows of chains that are held for this table now are stored or never will be. */
  async settled(table: Pick<Target, 'database' | 'oid'>): Promise<void> {
    await this.#lanes.get(laneKey(table, false))?.lane.settled();
  }

  /** Refuses new requests, commits those that wait, and resolves when nothing is left. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#busy === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  /** Ends at once: requests that still wait are refused with `draining`. */
  close(): void {
    this.#draining = true;
    clearInterval(this.#resting);
    if (this.#sweeper !== null) clearTimeout(this.#sweeper);
    for (const { lane } of this.#lanes.values()) lane.abort('draining');
  }

  #onBusy(): void {
    this.#busy += 1;
    this.#sweepLater();
  }

  #onIdle(): void {
    this.#busy -= 1;
    if (this.#busy > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #sweepLater(): void {
    if (this.#sweeper !== null) return;
    this.#sweeper = setTimeout(() => this.#sweep(), sweepIntervalMs);
    this.#sweeper.unref();
  }

  #sweep(): void {
    this.#sweeper = null;
    if (this.#busy === 0) return;
    const now = this.#context.clock();
    for (const { lane } of this.#lanes.values()) lane.expire(now);
    this.#sweepLater();
  }

  #forgetRested(): void {
    for (const [key, open] of this.#lanes) {
      if (!open.used && open.lane.state === 'idle') this.#lanes.delete(key);
      open.used = false;
    }
  }
}

/** A renamed table keeps its lane, and a new table with an old name gets its own; large requests have a lane apart. */
const laneKeys = rememberedOf(({ oid, database }: Pick<Target, 'database' | 'oid'>) => ({
  main: `${oid}//${database}`,
  aside: `${oid}/aside/${database}`,
}));

function laneKey(target: Pick<Target, 'database' | 'oid'>, aside: boolean): string {
  const { main, aside: apart } = laneKeys(target);
  return aside ? apart : main;
}

/** Rows of a table with a key replace each other in order, and those of a chain follow those before them. */
function goesAside(
  { target, chain, deletes, count, bytes }: Rows,
  { groupRowsMax, groupBytesMax }: Pick<Limits, 'groupRowsMax' | 'groupBytesMax'>,
): boolean {
  const isLarge = count > groupRowsMax || bytes > groupBytesMax;
  return isLarge && chain === null && deletes === null && target.shape.key.length === 0;
}

export function allAtOnce(endOfTurn: (run: () => void) => void): (run: () => void) => void {
  let waiting: (() => void)[] = [];
  const runAll = () => {
    const all = waiting;
    waiting = [];
    for (const run of all) run();
  };
  return (run) => {
    if (waiting.push(run) === 1) endOfTurn(runAll);
  };
}
