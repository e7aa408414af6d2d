/**
 * Requests that are another database's, or whose master key is not here: left on the disk, and looked at again when another database answers or a
 * key has come. Takes tables of spools, reports each once; touches nothing.
 */
import type { Observe } from '../observe/observations.ts';
import type { SpooledTable } from './kept-request.ts';
import type { Segment } from './segment.ts';
import type { Spool } from './spool.ts';

/** Requests of a table that do not arrive, although the database takes others. */
interface StuckTable {
  readonly spool: Spool;
  /** Of the table in the database that they were kept for. */
  readonly oid: number;
  readonly isForeign: boolean;
  readonly reason: string;
}

/** What is known of their spool. */
interface HeldIn {
  readonly spool: Spool;
  /** headgate.home() of the database that has answered. */
  readonly home: string;
  readonly positions: ReadonlyMap<number, bigint>;
}

const noKey = 'the master key that they were sealed with is not here';

export class HeldRequests {
  readonly #database: string;
  readonly #observe: Observe;
  /** By `id/oid`. */
  readonly #held = new Map<string, StuckTable>();

  constructor(database: string, observe: Observe) {
    this.#database = database;
    this.#observe = observe;
  }

  get all(): readonly StuckTable[] {
    return [...this.#held.values()];
  }

  has({ id }: Spool, oid: number): boolean {
    return this.#held.has(`${id}/${oid}`);
  }

  /** Whether requests belong to the database that has answered; if not, they are held. */
  isOurs({ spool, home }: HeldIn, oid: number, table: SpooledTable | null): table is SpooledTable {
    if (table?.home === home) return true;
    const isForeign = table !== null;
    const reason = isForeign
      ? 'they were kept for another database of this name'
      : 'the description of their table cannot be read';
    this.#hold({ spool, oid, isForeign, reason });
    return false;
  }

  /** Those of a segment that cannot be opened. */
  holdLocked({ spool, positions }: HeldIn, { last }: Segment): void {
    for (const [oid, sequence] of last)
      if (sequence > (positions.get(oid) ?? 0n)) this.#hold({ spool, oid, isForeign: false, reason: noKey });
  }

  release(spool: Spool): void {
    for (const [key, held] of this.#held) if (held.spool === spool) this.#held.delete(key);
  }

  #hold(held: StuckTable): void {
    const { spool, oid, reason } = held;
    if (this.has(spool, oid)) return;
    this.#held.set(`${spool.id}/${oid}`, held);
    this.#observe({ kind: 'spool.held', database: this.#database, spool: spool.id, reason });
  }
}
