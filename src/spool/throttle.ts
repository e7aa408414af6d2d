/**
 * Limits how much of the engine and of this process a hand-over takes, so that other tables hardly notice it: while requests go to their
 * lanes, groups are small, and a rest that is longer than the group took follows each. Not if it would then never end: what is kept must
 * become less. Nor while senders wait for the end of it. Takes what each group took; refuses nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Pace } from '../batch/lane-rate.ts';
import type { Lanes } from '../batch/lanes.ts';
import type { Group } from '../types/rows.ts';
import type { StageContext } from '../observe/context.ts';

/** What it goes by. */
export interface ThrottleInput extends Omit<StageContext, 'observe'> {
  /** Learns from the time that each group took. */
  readonly pace: Pick<Pace, 'groupRows' | 'record'>;
  /** `taken`: requests that have ever gone to a lane; those of tables that are handed over do not. */
  readonly lanes: Pick<Lanes, 'taken'>;
  /** Requests that have ever been kept. */
  readonly kept: () => number;
  /** Whether senders wait until all of a table is handed over. */
  readonly isAwaited: () => boolean;
}

const unreferenced = (ms: number): Promise<void> => delay(ms, undefined, { ref: false });

export class Throttle {
  readonly #watched: ThrottleInput;
  readonly #pause: (ms: number) => Promise<void>;
  #direct: number;
  #isBeside = false;
  /** When the rates were last compared, and the count of kept requests then. */
  #sinceMs: number;
  #kept: number;
  #handedOver = 0;
  #isAhead = true;
  #restMs = 0;

  /** `pause`: resolves after so many ms. */
  constructor(watched: ThrottleInput, pause = unreferenced) {
    this.#watched = watched;
    this.#pause = pause;
    this.#direct = watched.lanes.taken;
    this.#kept = watched.kept();
    this.#sinceMs = watched.clock();
  }

  /** How many rows a group may have now. */
  groupRows(): number {
    const { pace, limits } = this.#watched;
    return this.#isGentle ? Math.min(pace.groupRows, limits.spoolGentleRowsMax) : pace.groupRows;
  }

  /** Resolves when a group may be handed over: after a rest, while requests of other tables go to their lanes. */
  async rest({ into }: Group['target']): Promise<void> {
    // Another database takes them.
    if (into === undefined && this.#isGentle && this.#restMs > 0) await this.#pause(this.#restMs);
  }

  /** A group was handed over, or was tried to be, and that took so many ms. */
  record({ target, rows }: Pick<Group, 'target' | 'rows'>, ms: number): void {
    if (target.into !== undefined) return;
    const { pace, lanes, limits } = this.#watched;
    pace.record(rows, ms);
    this.#restMs = Math.min(ms * limits.spoolGentleRests, limits.spoolGentleRestMaxMs);
    const now = lanes.taken;
    this.#isBeside = now > this.#direct;
    this.#direct = now;
    this.#handedOver += rows;
    this.#look();
  }

  get #isGentle(): boolean {
    return this.#isBeside && this.#isAhead && !this.#watched.isAwaited();
  }

  #look(): void {
    const { clock, kept, limits } = this.#watched;
    const nowMs = clock();
    if (nowMs - this.#sinceMs < limits.spoolGentleLookMs) return;
    const come = kept() - this.#kept;
    this.#isAhead = this.#handedOver >= come * limits.spoolGentleLead;
    this.#sinceMs = nowMs;
    this.#kept += come;
    this.#handedOver = 0;
  }
}
