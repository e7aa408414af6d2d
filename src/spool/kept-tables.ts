/**
 * Which table of which database the records of one spool are for: each says so itself; in segments of version 1, records of their own do. Takes
 * records; returns tables as they were when their requests were kept. Rejects with the system's errors.
 */
import type { Catalog } from '../catalog/catalog.ts';
import { decodeTable } from './kept-request.ts';
import type { SpooledTable } from './kept-request.ts';
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
