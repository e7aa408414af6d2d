/**
 * The new rows of webhook tables as the requests that they were made of, over a command's own connection, in turn. Takes names of tables and
 * a place to go on from, gives each row once, and remembers the place behind those that are done with. Rows are found as the gateway's streams
 * find them (gateway/stream-table.ts); of a partitioned table each partition is followed. Throws DatabaseFailure.
 *
 * A place outlives connections: nothing is left out while there is none. What is new of a table that was not there before is what came since the
 * look before.
 */
import { builtinTypes } from '../../gateway/sql-types.ts';
import { encodersOf } from '../../gateway/row-text.ts';
import { SqlRefused } from '../../gateway/sql-sessions.ts';
import type { Lent } from '../../gateway/sql-sessions.ts';
import { furthestXid, parsePlace, printPlace, wholly } from '../../gateway/stream-place.ts';
import type { Place } from '../../gateway/stream-place.ts';
import { byOid, Pager, tableNow } from '../../gateway/stream-read.ts';
import { TableReader } from '../../gateway/stream-table.ts';
import { parsePosition } from '../../kit/position.ts';
import { limits } from '../../tables/limits.ts';
import { Refused } from '../../tables/refusals.ts';
import { DatabaseFailure, databaseError } from './session.ts';
import type { Session, Texts } from './session.ts';
import { requestOf, storedTables } from './stored.ts';
import type { StoredRequest, StoredTable } from './stored.ts';

export interface FollowedRow {
  readonly table: StoredTable;
  readonly request: StoredRequest;
}

/** How far everything was read, as text for a file. */
interface Saved {
  readonly since: string;
  readonly places: readonly string[];
}

/** The table itself, or its partitions. */
const partsOf = `SELECT c.oid::text AS oid FROM pg_catalog.pg_class c
WHERE c.relkind = 'r' AND (c.oid = $1::oid OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree($1::oid))) ORDER BY c.oid`;

export class Following {
  readonly #names: readonly string[];
  readonly #save: (state: string) => Promise<void>;
  readonly #pager = new Pager(limits.listenReceivedBytesMax);
  /** What is new of a table without a place. null: it has not begun. */
  #since: bigint | null = null;
  /** By the oid of a table, or of a partition. */
  readonly #places = new Map<string, Place>();
  readonly #readers = new Map<string, TableReader>();

  /** `save`: told of each place that rows are done up to. */
  constructor(names: readonly string[], save: (state: string) => Promise<void>) {
    this.#names = names;
    this.#save = save;
  }

  /** Goes on where another one was; false: that is no place. */
  resume(state: string): boolean {
    try {
      const { since, places } = JSON.parse(state) as Saved;
      const found = places.map(parsePlace);
      const position = parsePosition(since);
      if (position === null) return false;
      for (const place of found) {
        if (place === null) return false;
        this.#places.set(String(place.oid), place);
      }
      this.#since = position;
      return true;
    } catch {
      return false;
    }
  }

  /** With a new connection. Gives the tables, and whether the database is another one than that of the place. */
  async begin(session: Session): Promise<{ tables: readonly StoredTable[]; isAnother: boolean }> {
    const tables = await storedTables(session, this.#names);
    const position = await session.position();
    this.#readers.clear();
    const furthest = [...this.#places.values()].map(furthestXid);
    // Another server, or one that was made anew, counts from another number.
    const isAnother = [this.#since ?? 0n, ...furthest].some((xid) => xid > position);
    if (isAnother) this.#places.clear();
    if (isAnother || this.#since === null) this.#since = position;
    await this.#remember();
    return { tables, isAnother };
  }

  /** One look at all of them. A row is done with when the next one is asked for. */
  async *look(session: Session): AsyncGenerator<FollowedRow, void, undefined> {
    const tables = await storedTables(session, this.#names);
    const position = await session.position();
    const there = new Set<string>();
    for (const table of tables)
      for (const part of await session.rows(partsOf, [table.oid])) {
        const oid = part['oid'] ?? '';
        there.add(oid);
        yield* this.#lookAt(session, table, oid);
      }
    for (const oid of this.#places.keys()) if (!there.has(oid)) this.#places.delete(oid);
    this.#since = position;
  }

  async *#lookAt(session: Session, table: StoredTable, oid: string): AsyncGenerator<FollowedRow> {
    const lent: Lent = {
      client: session.client,
      encoders: async (fields) => encodersOf(fields, (type) => builtinTypes.get(type)) ?? [],
    };
    const known = this.#readers.get(oid);
    const reader = known ?? (await this.#readerOf(lent, oid));
    if (reader === null) return;
    const pages = reader.look(lent, table.request, known === undefined);
    for (let next = await unlessGone(pages.next()); next !== null && next.done !== true;) {
      const { rows, behind, after, take } = next.value;
      for (const [index, row] of rows.entries()) {
        yield { table, request: requestOf(JSON.parse(row) as Texts) };
        this.#places.set(oid, behind(index));
        await this.#remember();
      }
      take();
      this.#places.set(oid, after);
      next = await unlessGone(pages.next());
    }
  }

  /** null: it is gone. */
  async #readerOf(lent: Lent, oid: string): Promise<TableReader | null> {
    const now = await unlessGone(tableNow(lent, byOid(Number(oid))));
    if (now === null) return null;
    const place = this.#places.get(oid) ?? wholly(now.oid, now.file, this.#since ?? now.position);
    const reader = new TableReader(now, place, this.#pager);
    this.#readers.set(oid, reader);
    return reader;
  }

  async #remember(): Promise<void> {
    const places = [...this.#places.values()].map(printPlace);
    await this.#save(JSON.stringify({ since: String(this.#since), places } satisfies Saved));
  }
}

/** null: the table was dropped, moved or rewritten, and is looked at anew. Throws DatabaseFailure. */
async function unlessGone<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SqlRefused) throw new DatabaseFailure(error.message, error.error.sqlstate);
    if (!(error instanceof Refused)) throw databaseError(error);
    const { code } = error.refusal;
    if (code === 'table_changed' || code === 'relation_not_found') return null;
    throw new DatabaseFailure(error.message, code === 'engine_unavailable' ? undefined : '54000');
  }
}
