/**
 * Which way the requests of one table go, so that none overtakes another. Takes requests that begin and end, returns their
 * turns; refuses nothing; touches nothing.
 *
 * States, `#state`, changed by `#become` alone:
 *   open      requests go to the lane.
 *   filling   the database is unreachable. Requests in the lane are still owed an outcome; new ones wait for the last of these.
 *   spooling  requests go to the disk.
 *   emptying  the last ones from the disk are being handed over; new ones wait, for a bounded time.
 *
 *   open ──away──► filling ──lane empty──► spooling ──nearly nothing left──► emptying ──nothing left──► open
 *                                              ▲───something came, or it took too long───┘
 */
import type { Settings } from '../config/settings.ts';
import { deferred } from '../kit/promises.ts';
import type { Target } from '../types/target.ts';

/** Whether requests for a table are kept while its database is unreachable. */
export function isSpooling({ spool }: Pick<Target, 'spool'>, settings: Pick<Settings, 'spool'>): boolean {
  return spool?.isMoved !== true && (spool?.mode ?? settings.spool) === 'fallback';
}

export type GateState = 'open' | 'filling' | 'spooling' | 'emptying';

export class TableGate {
  readonly oid: number;
  #state: GateState = 'open';
  #turn = deferred<void>();
  #inLane = 0;
  #appending = 0;
  #written = deferred<void>();
  /** ms since 1970; null: it is open. */
  sinceMs: number | null = null;
  /** Why what is kept does not arrive; null: it does, or nothing has been tried. */
  reason: string | null = null;

  constructor(oid: number) {
    this.oid = oid;
  }

  get state(): GateState {
    return this.#state;
  }

  /** Resolves when the state has changed. */
  get turn(): Promise<void> {
    return this.#turn.promise;
  }

  /** Resolves when nothing is being written any more of what was being written at the call. */
  get written(): Promise<void> {
    return this.#appending === 0 ? Promise.resolve() : this.#written.promise;
  }

  /** The database is unreachable, or does not take requests of this table. */
  fill(nowMs: number): void {
    if (this.#state !== 'open') return;
    this.sinceMs = nowMs;
    this.#become(this.#inLane === 0 ? 'spooling' : 'filling');
  }

  /** A request goes to the lane. */
  enterLane(): void {
    this.#inLane += 1;
  }

  leaveLane(): void {
    this.#inLane -= 1;
    if (this.#inLane === 0 && this.#state === 'filling') this.#become('spooling');
  }

  beginAppend(): void {
    this.#appending += 1;
  }

  /** Whether it is kept or not. */
  endAppend(): void {
    this.#appending -= 1;
    if (this.#appending > 0) return;
    const written = this.#written;
    this.#written = deferred();
    written.resolve();
  }

  /** Its new requests wait until `endEmptying` or `open`. Returns false if it does not spool. */
  beginEmptying(): boolean {
    if (this.#state !== 'spooling') return false;
    this.#become('emptying');
    return true;
  }

  /** Something is left on the disk. */
  endEmptying(): void {
    if (this.#state === 'emptying') this.#become('spooling');
  }

  /** Nothing is left on the disk. Returns false if the state has changed, or a request is being written. */
  open(): boolean {
    if (this.#state !== 'emptying' || this.#appending > 0) return false;
    this.sinceMs = null;
    this.reason = null;
    this.#become('open');
    return true;
  }

  #become(state: GateState): void {
    this.#state = state;
    const turn = this.#turn;
    this.#turn = deferred();
    turn.resolve();
  }
}
