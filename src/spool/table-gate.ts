/**
 * Which way the requests of one table go, so that none overtakes another. Takes requests that begin and end, gives their
 * turns; refuses nothing; touches nothing.
 *
 * States, `#state`, moved by `#become` alone:
 *   open      requests go to the lane.
 *   filling   the database is away. What is with the lane is still owed an outcome; what comes waits for the last one.
 *   spooling  requests go to the disk.
 *   emptying  the last ones from the disk are being handed over; what comes waits, for a bounded time.
 *
 *   open ──away──► filling ──lane empty──► spooling ──nearly nothing left──► emptying ──nothing left──► open
 *                                              ▲───something came, or it took too long───┘
 */
import { deferred } from '../kit/deferred.ts';

export type GateState = 'open' | 'filling' | 'spooling' | 'emptying';

export class TableGate {
  readonly oid: number;
  #state: GateState = 'open';
  #turn = deferred<void>();
  #inLane = 0;
  #appending = 0;
  #written = deferred<void>();
  /** When the lane began to refuse; null: it does not. Of a monotonic clock, ms. */
  refusedAtMs: number | null = null;
  /** ms since 1970; null: it is open. */
  sinceMs: number | null = null;
  /** Why what is kept does not arrive; null: it does, or nobody has tried. */
  reason: string | null = null;
  /** The last sequence that the spool of this process has given to a request of this table. */
  lastAppended = 0n;

  constructor(oid: number) {
    this.oid = oid;
  }

  get state(): GateState {
    return this.#state;
  }

  /** The state is another one. */
  get turn(): Promise<void> {
    return this.#turn.promise;
  }

  /** Requests that are being written. */
  get appending(): number {
    return this.#appending;
  }

  /** Nothing is being written that was when this was asked. */
  get written(): Promise<void> {
    return this.#appending === 0 ? Promise.resolve() : this.#written.promise;
  }

  /** The database is away, or does not take requests of this table. */
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

  /** `sequence`: null: it is not kept. */
  endAppend(sequence: bigint | null): void {
    this.#appending -= 1;
    if (sequence !== null && sequence > this.lastAppended) this.lastAppended = sequence;
    if (this.#appending > 0) return;
    const written = this.#written;
    this.#written = deferred();
    written.resolve();
  }

  /** Whether it is held now: until `reopen` or `open`. */
  hold(): boolean {
    if (this.#state !== 'spooling') return false;
    this.#become('emptying');
    return true;
  }

  /** Something is left on the disk. */
  reopen(): void {
    if (this.#state === 'emptying') this.#become('spooling');
  }

  /** Nothing is left on the disk. False: somebody has been let pass meanwhile. */
  open(): boolean {
    if (this.#state !== 'emptying' || this.#appending > 0) return false;
    this.sinceMs = null;
    this.reason = null;
    this.refusedAtMs = null;
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
