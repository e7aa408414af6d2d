/**
 * Whose the requests of a spool are. `KeptTables`: for which table of which database each record is, which it says itself; in segments of version 1,
 * records of their own do. `HeldRequests`: those that are another database's, or whose master key is not here, which are left on the disk, and looked at
 * again when another database answers or a key has come; each is reported once. Takes records; rejects with the system's errors.
 */
import type { Catalog } from '../catalog/catalog.ts';
import type { Observe } from '../observe/observations.ts';
import { decodeTable } from './kept-request.ts';
import type { SpooledTable } from './kept-request.ts';
import type { Segment } from './segment-files.ts';
import type { Spool, SpooledRequests } from './spool.ts';

interface DescribedTable {
  readonly target: Buffer;
  readonly table: SpooledTable | null;
}

export class KeptTables {
  readonly #database: string;
  readonly #catalog: Pick<Catalog, 'current'>;
  /** headgate.home() of the database that an earlier process has served; null: not known. */
  readonly #homeBefore: string | null;
  /** What segments of version 1 say of their tables, by oid. */
  #described = new Map<number, SpooledTable>();
  /** What the last record of each table says of it, by oid. */
  readonly #named = new Map<number, DescribedTable>();

  constructor(database: string, catalog: Pick<Catalog, 'current'>, homeBefore: string | null) {
    this.#database = database;
    this.#catalog = catalog;
    this.#homeBefore = homeBefore;
  }

  /** Reads what segments of version 1 say, as far as their master keys are here. */
  async read(spool: Pick<Spool, 'tables'>): Promise<void> {
    const described = new Map<number, SpooledTable>();
    for (const [oid, bytes] of await spool.tables()) {
      const table = decodeTable(bytes);
      if (table !== null) described.set(oid, table);
    }
    this.#described = described;
  }

  /** What a record says of its table; null: that cannot be read. */
  of({ oid, target }: SpooledRequests): SpooledTable | null {
    if (target === null) return this.#described.get(oid) ?? this.#undescribed(oid);
    const known = this.#named.get(oid);
    if (known?.target.equals(target) === true) return known.table;
    const table = decodeTable(target);
    // A copy: the target is a part of what was opened.
    this.#named.set(oid, { target: Buffer.from(target), table });
    return table;
  }

  /** As the last record that was read has said. */
  last(oid: number): SpooledTable | undefined {
    return this.#named.get(oid)?.table ?? this.#described.get(oid);
  }

  /** In version 1 a table is described once in a segment. The other tables of a spool, or the process that wrote it, were of the same database. */
  #undescribed(oid: number): SpooledTable | null {
    const homes = new Set([...this.#described.values()].map(({ home }) => home));
    const [home = this.#homeBefore] = homes;
    if (homes.size > 1 || home === null) return null;
    const database = this.#database;
    const { schema = '', table = String(oid) } = this.#catalog.current(database, oid) ?? {};
    return { database, schema, table, oid, home };
  }
}

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
  /** headgate.home() of the database that they must have been kept for. */
  readonly keptFor: string;
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

  /** Whether requests belong to the database that has answered; if not, they are held. `isHere`: so does their table. */
  isOurs(
    { spool, keptFor }: HeldIn,
    oid: number,
    table: SpooledTable | null,
    isHere: boolean,
  ): table is SpooledTable {
    if (table?.home === keptFor && isHere) return true;
    const isForeign = table !== null;
    const reason =
      table === null
        ? 'the description of their table cannot be read'
        : table.home === keptFor
          ? 'they were kept for a table that was not moved here'
          : 'they were kept for another database of this name';
    this.#hold({ spool, oid, isForeign, reason });
    return false;
  }

  /** Those of a segment that cannot be opened. */
  holdLocked({ spool }: HeldIn, { last }: Segment, arrived: (oid: number) => bigint): void {
    for (const [oid, sequence] of last)
      if (sequence > arrived(oid)) this.#hold({ spool, oid, isForeign: false, reason: noKey });
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
