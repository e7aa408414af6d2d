/**
 * The new rows of webhook tables as the requests they were made from, over a command's own connection, one table after another. Takes table
 * names and a place to continue from, returns each row once, and remembers the place after the rows that are done. Rows are found as the
 * gateway's streams find them (gateway/stream-table.ts); a partitioned table is followed partition by partition. Throws DatabaseFailure.
 *
 * A place outlives connections, so no row is missed while there is none. In a table that did not exist before, the rows since the previous
 * look are new.
 */
import { isDeepStrictEqual } from 'node:util';
import { builtinTypes } from '../gateway/sql-types.ts';
import { encodersOf } from '../gateway/row-text.ts';
import { SqlRefused } from '../gateway/sql-sessions.ts';
import type { BorrowedConnection } from '../gateway/sql-sessions.ts';
import { furthestXid, parsePlace, printPlace, wholly } from '../gateway/stream-position.ts';
import type { StreamPosition } from '../gateway/stream-position.ts';
import { byOid, Pager, tableNow } from '../gateway/stream-read.ts';
import { TableReader } from '../gateway/stream-table.ts';
import { allBelow, parsePosition } from '../kit/position.ts';
import { bareIdentifier } from '../kit/sql-text.ts';
import { plain } from '../kit/terminal.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { DatabaseFailure, databaseError } from './session.ts';
import type { CommandSession, Texts } from './session.ts';
import { requestOf, storedTable, storedTables } from './stored-requests.ts';
import type { StoredRequest, StoredTable } from './stored-requests.ts';

export interface FollowedRow {
  readonly table: StoredTable;
  readonly request: StoredRequest;
}

/** How far each table was read, as text for a file. */
interface SavedPlaces {
  readonly since: string;
  readonly places: readonly string[];
}

/** The table itself, or its partitions. */
const partsOf = `SELECT c.oid::text AS oid FROM pg_catalog.pg_class c
WHERE c.relkind = 'r' AND (c.oid = $1::oid OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree($1::oid))) ORDER BY c.oid`;

export class Following {
  readonly #names: readonly string[];
  readonly #trustsAll: boolean;
  readonly #save: (state: string) => Promise<void>;
  readonly #pager = new Pager(limits.listenReceivedBytesMax);
  /** In a table without a place, rows after this position are new. null: not begun. */
  #since: bigint | null = null;
  /** Keyed by the oid of a table or partition. */
  readonly #places = new Map<string, StreamPosition>();
  readonly #readers = new Map<string, TableReader>();

  /** `trustsAll`: tables of owners who could not act as the session's role are read, too. `save`: called with each place up to which rows are done. */
  constructor(names: readonly string[], trustsAll: boolean, save: (state: string) => Promise<void>) {
    this.#names = names;
    this.#trustsAll = trustsAll;
    this.#save = save;
  }

  /** The position from which on rows are new in a table without a place; null: not begun. */
  get since(): bigint | null {
    return this.#since;
  }

  /** Continues from a saved state; false: the text is not one. */
  resume(state: string): boolean {
    try {
      const { since, places } = JSON.parse(state) as SavedPlaces;
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

  /** Begins on a new connection. Returns the tables, those that are left out, and whether the database is not the one of the place. */
  async begin(
    session: CommandSession,
  ): Promise<{ tables: readonly StoredTable[]; unread: readonly string[]; isAnother: boolean }> {
    const found = await storedTables(session, this.#names);
    const tables = found.filter((table) => this.#reads(table));
    const unread = found
      .filter((table) => !this.#reads(table))
      .map(({ schema, table }) => `${bareIdentifier(schema)}.${bareIdentifier(table)}`);
    const { oldest: position, next } = await session.transactions(null);
    this.#readers.clear();
    const furthest = [...this.#places.values()].map(furthestXid);
    // Another server, or one that was recreated, counts transactions from another number.
    const isAnother = [this.#since ?? 0n, ...furthest].some((xid) => xid > next);
    if (isAnother) this.#places.clear();
    if (isAnother || this.#since === null) this.#since = position;
    await this.#remember();
    return { tables, unread, isAnother };
  }

  /** Looks at all tables once. A row is done when the next one is requested. */
  async *look(session: CommandSession): AsyncGenerator<FollowedRow, void, undefined> {
    const tables = (await storedTables(session, this.#names)).filter((table) => this.#reads(table));
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

  #reads({ isTrusted }: StoredTable): boolean {
    return this.#trustsAll || isTrusted;
  }

  async *#lookAt(session: CommandSession, table: StoredTable, oid: string): AsyncGenerator<FollowedRow> {
    const borrowed: BorrowedConnection = {
      client: session.client,
      encoders: async (fields) => encodersOf(fields, (type) => builtinTypes.get(type)) ?? [],
      readsAnyones: this.#trustsAll,
    };
    const known = this.#readers.get(oid);
    const reader = known ?? (await this.#readerOf(borrowed, oid));
    if (reader === null) return;
    const pages = reader.look(borrowed, table.request, known === undefined);
    for (let next = await unlessGone(pages.next()); next !== null && next.done !== true;) {
      const { rows, behind, after, take } = next.value;
      // A row may be younger than the table's description, e.g. have come from another sender: the next look reads both again.
      if (rows.length > 0 && !isDeepStrictEqual(await storedTable(session, table.oid), table)) {
        this.#readers.delete(oid);
        return;
      }
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

  /** null: the table is gone. */
  async #readerOf(borrowed: BorrowedConnection, oid: string): Promise<TableReader | null> {
    const now = await unlessGone(tableNow(borrowed, byOid(Number(oid))));
    if (now === null) return null;
    const place =
      this.#places.get(oid) ??
      wholly(now.oid, now.file, this.#since === null ? now.ended : allBelow(this.#since));
    const reader = new TableReader(now, place, this.#pager);
    this.#readers.set(oid, reader);
    return reader;
  }

  async #remember(): Promise<void> {
    const places = [...this.#places.values()].map(printPlace);
    await this.#save(JSON.stringify({ since: String(this.#since), places } satisfies SavedPlaces));
  }
}

/** A line about tables that are left out; empty: there are none. */
export function unreadText(unread: readonly string[]): string {
  if (unread.length === 0) return '';
  const shown = unread.slice(0, 10).map(plain).join(', ');
  const more = unread.length > 10 ? ` and ${unread.length - 10} more` : '';
  return `not read, because that runs code of their owners: ${shown}${more}: log in as the owner (--dsn), or give --trust-owner if you trust that role\n`;
}

/** null: the table was dropped, moved or rewritten, and the next look starts afresh. Throws DatabaseFailure. */
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
