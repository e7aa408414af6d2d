/**
 * Limits how much of the engine and of this process a hand-over takes, so that other tables hardly notice it: while requests go to their
 * lanes, groups are small, and a rest that is longer than the group took follows each. Not if it would then never end: what is kept must
 * become less. Nor while senders wait for the end of it. Takes the function that hands over and returns it limited; refuses nothing.
 */
import type { Limits } from '../config/limits.ts';
import type { HandedOver, Passage, SpoolCommit } from '../commit/hand-over.ts';
import type { Group } from '../types/rows.ts';
import type { HandOverDeps } from './table-hand-over.ts';

export interface RestraintDeps extends Pick<HandOverDeps, 'clock'> {
  readonly commit: Pick<SpoolCommit, 'handOver'>;
  /** Learns from the time that each group took. */
  readonly pace: { readonly groupRows: number; record(rows: number, ms: number): void };
  /** Requests that have ever gone to a lane; those of tables that are handed over do not. */
  readonly direct: () => number;
  /** Requests that have ever been kept. */
  readonly kept: () => number;
  /** Whether senders wait until all of a table is handed over. */
  readonly isAwaited: () => boolean;
  /** Resolves after `ms`. */
  readonly pause: (ms: number) => Promise<void>;
  readonly limits: Pick<
    Limits,
    | 'spoolGentleRowsMax'
    | 'spoolGentleRests'
    | 'spoolGentleRestMaxMs'
    | 'spoolGentleLookMs'
    | 'spoolGentleLead'
  >;
}

export class Restraint implements Pick<HandOverDeps, 'groupRows' | 'handOver'> {
  readonly #deps: RestraintDeps;
  #direct: number;
  #isBeside = false;
  /** When the rates were last compared, and the count of kept requests then. */
  #sinceMs: number;
  #kept: number;
  #handedOver = 0;
  #isAhead = true;
  #restMs = 0;

  constructor(deps: RestraintDeps) {
    this.#deps = deps;
    this.#direct = deps.direct();
    this.#kept = deps.kept();
    this.#sinceMs = deps.clock();
  }

  groupRows(): number {
    const { pace, limits } = this.#deps;
    return this.#isGentle ? Math.min(pace.groupRows, limits.spoolGentleRowsMax) : pace.groupRows;
  }

  async handOver(group: Group, passage: Passage): Promise<HandedOver> {
    const { commit, pause, clock } = this.#deps;
    // Another database takes them.
    if (group.target.into !== undefined) return commit.handOver(group, passage);
    if (this.#isGentle && this.#restMs > 0) await pause(this.#restMs);
    const startedMs = clock();
    const end = await commit.handOver(group, passage);
    this.#record(group.rows, clock() - startedMs);
    return end;
  }

  #record(rows: number, ms: number): void {
    const { pace, direct, limits } = this.#deps;
    pace.record(rows, ms);
    this.#restMs = Math.min(ms * limits.spoolGentleRests, limits.spoolGentleRestMaxMs);
    const now = direct();
    this.#isBeside = now > this.#direct;
    this.#direct = now;
    this.#handedOver += rows;
    this.#look();
  }

  get #isGentle(): boolean {
    return this.#isBeside && this.#isAhead && !this.#deps.isAwaited();
  }

  #look(): void {
    const { clock, kept, limits } = this.#deps;
    const nowMs = clock();
    if (nowMs - this.#sinceMs < limits.spoolGentleLookMs) return;
    const come = kept() - this.#kept;
    this.#isAhead = this.#handedOver >= come * limits.spoolGentleLead;
    this.#sinceMs = nowMs;
    this.#kept += come;
    this.#handedOver = 0;
  }
}
