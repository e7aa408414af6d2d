/**
 * Which webhook tables of a database are in doubt, and their reading: those whose version differs from the one that was read
 * (headgate.table_versions), from the moment at which Headgate is told so until they are read again. Every answer to a poll of the versions therefore
 * confirms all other tables. Tables are read a few at a time. A change that the versions do not cover is found when everything is read, once in a
 * while, and when a group asks the engine whether the table is still what its requests were checked for (relations/owner-code.ts).
 * Tables that cannot be read now are read around (locked-tables.ts). Takes what polls of the watcher have found; writes `DatabaseTables`.
 */
import type { ClientBase } from 'pg';
import type { StageContext } from '../observe/context.ts';
import { DatabaseTables } from './database-tables.ts';
import { LeftOutTables } from './locked-tables.ts';
import { pinned, readSizes } from './queries.ts';
import type { SizeRow, SnapshotCheck, SnapshotMark, TableRows, TableVersions } from './queries.ts';
import { nextSnapshot } from './target.ts';
import { tableKey } from './database-tables.ts';
import type { TableCompiler } from './table-compiler.ts';
import type { CatalogRow, UnreadRow } from './catalog-rows.ts';

const nothing: SnapshotMark = { snapshot: '', fingerprint: '' };

export class SnapshotCache {
  readonly tables: DatabaseTables;
  readonly #database: string;
  readonly #compiler: TableCompiler;
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  #mark = nothing;
  /** As of the last poll. */
  #versions: TableVersions = new Map();
  /** The versions with which tables were read over this connection. */
  readonly #read = new Map<number, string>();
  /** Tables in doubt that were added since the last reading began, whatever their versions. */
  readonly #asked = new Set<number>();
  /** How often a poll has brought other versions. */
  #comparisons = 0;
  /** Since the last poll a table was read with another version than that poll has seen. */
  #isAhead = false;
  /** headgate.settle() has something to do. A row that somebody has locked is left for another time. */
  #isSettled = false;
  /** Something has changed since the last reading. */
  #isChanged = false;
  /** null: everything has to be read. */
  #wholeAtMs: number | null = null;
  /** The last reading was of some tables only. */
  #isPatched = false;
  readonly #left: LeftOutTables;

  constructor(database: string, compiler: TableCompiler, context: Pick<StageContext, 'clock' | 'limits'>) {
    this.tables = new DatabaseTables(context);
    this.#database = database;
    this.#compiler = compiler;
    this.#context = context;
    this.#left = new LeftOutTables(context);
  }

  /** For the next poll. */
  get mark(): SnapshotMark {
    return this.#mark;
  }

  /** Only another poll of all tables tells whether those that were read are still as they were read. */
  get isAhead(): boolean {
    return this.#isAhead;
  }

  /** Something is to be read: what has changed, what was locked, or everything, in case that something has changed which no version covers. */
  get isDue(): boolean {
    return (
      this.#isChanged ||
      !this.#isSettled ||
      this.tables.doubts.size > 0 ||
      this.#left.locked.length > 0 ||
      this.#isWholeDue
    );
  }

  /** A table may be unusable for a reason that was mended elsewhere, as in one that takes part. */
  get #isWholeDue(): boolean {
    if (this.#wholeAtMs === null) return true;
    const isDoubtful = this.#isPatched || this.tables.snapshot.unusable.size > 0;
    return isDoubtful && this.#context.clock() - this.#wholeAtMs > this.#context.limits.catalogWholeMs;
  }

  /** What an earlier process knew. False: it is ignored, since the engine has answered a poll, and would not say again what is gone by now. */
  remember(rows: readonly CatalogRow[]): boolean {
    if (this.tables.isWhole || this.#comparisons > 0) return false;
    this.#replace(rows, []);
    this.tables.isWhole = true;
    return true;
  }

  /** Another connection may lead to another server: nothing is assumed to be unchanged. */
  begin(): void {
    this.#mark = nothing;
    this.#read.clear();
    this.#wholeAtMs = null;
  }

  /** The table differs from what is known of it, whatever its version says. */
  doubt(oid: number): void {
    this.#suspect(oid);
    this.#asked.add(oid);
  }

  /** Everything has to be read: another key may open what did not open. */
  doubtAll(): void {
    this.#wholeAtMs = null;
  }

  /** Takes the answer to a poll; null: nothing has changed. */
  compare(seen: SnapshotCheck | null): void {
    if (seen === null) return;
    this.#mark = seen;
    this.#isAhead = false;
    if (seen.versions !== null) this.#takeVersions(seen.versions);
    // Also if they are the same as before: a reading in between may have met others.
    for (const [oid, version] of this.#versions)
      if (oid !== 0 && this.#read.get(oid) !== version) this.#suspect(oid);
  }

  #takeVersions(versions: TableVersions): void {
    this.#versions = versions;
    this.#isSettled = versions.get(0)?.endsWith(';') === true;
    this.#comparisons += 1;
    this.#isChanged = true;
    for (const oid of [...this.#read.keys(), ...this.tables.doubts.keys()])
      if (!versions.has(oid)) {
        this.#read.delete(oid);
        this.tables.doubts.delete(oid);
      }
    if ([...this.tables.snapshot.tables.values()].some(({ oid }) => !versions.has(oid)))
      this.#replace([], [], ({ oid }) => versions.has(oid));
  }

  /** Whether the tables with these oids exist, and all of these tables were read with these versions. */
  isAsRead(oids: readonly number[], versions: TableVersions): boolean {
    return (
      oids.every((oid) => versions.has(oid)) &&
      [...versions].every(([oid, version]) => this.#read.get(oid) === version)
    );
  }

  /** Reads what is due. Throws the error that breaks the connection. */
  async read(client: ClientBase): Promise<void> {
    const { clock, limits } = this.#context;
    const [isWhole, isChanged] = [this.#isWholeDue, this.#isChanged];
    this.#isChanged = false;
    this.#asked.clear();
    if (isWhole) this.#wholeAtMs = clock();
    try {
      if (isChanged || !this.#isSettled) await pinned(client, 'call headgate.settle()');
      if (!isChanged && !isWhole && this.tables.doubts.size === 0 && !(await this.#left.isAnyFree(client)))
        return;
      const sizes = await readSizes(client);
      const known = new Map(sizes.map((size) => [size.relation, size]));
      for (const oid of this.tables.doubts.keys())
        if (!known.has(oid) && !this.#versions.has(oid)) this.tables.doubts.delete(oid);
      const unfit = sizes.filter(({ fits }) => !fits);
      if (unfit.length > 0) this.#take(unfit, { rows: [], versions: this.#versions }, unfit);
      const wanted = [...(isWhole ? known.keys() : this.#wanted())].flatMap((oid) => known.get(oid) ?? []);
      const fitting = wanted.filter(({ fits }) => fits);
      for (let at = 0; at < fitting.length; at += limits.catalogTablesMax)
        await this.#readSome(client, fitting.slice(at, at + limits.catalogTablesMax));
    } catch (error) {
      this.#isChanged ||= isChanged;
      if (isWhole) this.#wholeAtMs = null;
      throw error;
    }
    this.#isPatched = !isWhole;
    this.tables.isWhole ||= isWhole;
  }

  async #readSome(client: ClientBase, some: readonly SizeRow[]): Promise<void> {
    const comparisons = this.#comparisons;
    const oids = some.map(({ relation }) => relation);
    // `readTables` of all of them, unless some are locked or faulty.
    const read = await this.#left.readOthers(client, oids);
    const out = some.filter(({ relation }) => this.#left.why(relation) !== null);
    // What is known of a table that was left out stays if its version is the same; a commit asks again, once it has the lock.
    const unread = out.filter(({ relation: oid, schema_name: schema, table_name: table }) => {
      const isKnown = this.tables.snapshot.tables.get(tableKey(schema, table))?.oid === oid;
      return !isKnown || this.#read.get(oid) !== this.#versions.get(oid);
    });
    const stays = new Set(out.filter((it) => !unread.includes(it)).map(({ relation }) => relation));
    const versions = new Map([
      ...out.map(({ relation: oid }) => [oid, this.#versions.get(oid) ?? ''] as const),
      ...read.versions,
    ]);
    const why = unread.map((row) => ({ ...row, why: this.#left.why(row.relation) ?? 'locked' }));
    this.#take(
      some.filter(({ relation }) => !stays.has(relation)),
      { rows: read.rows, versions },
      why,
      comparisons,
    );
    for (const oid of stays) if (!this.#asked.has(oid)) this.tables.doubts.delete(oid);
  }

  /** The tables `some` were read, or are `unread`. */
  #take(
    some: readonly SizeRow[],
    { rows, versions }: TableRows,
    unread: readonly UnreadRow[],
    comparisons = this.#comparisons,
  ): void {
    const taken = new Set(some.map(({ relation }) => relation));
    // A poll that was answered meanwhile says that it is gone; no further one would.
    const isThere = ({ relation: oid }: UnreadRow | CatalogRow) =>
      comparisons === this.#comparisons || this.#versions.has(oid);
    this.#replace(rows.filter(isThere), unread.filter(isThere), ({ oid }) => !taken.has(oid));
    for (const { relation: oid } of some.filter(isThere)) {
      const version = versions.get(oid);
      // It was dropped meanwhile, which the next poll tells.
      if (version === undefined) continue;
      // A poll that was answered meanwhile may know more; and if nothing was read that was not read before, the other server is not up to date.
      const isNew = comparisons === this.#comparisons && version !== this.#read.get(oid);
      const isSeen = version === this.#versions.get(oid);
      this.#read.set(oid, version);
      if (!isSeen) this.#isAhead = true;
      if ((isNew || isSeen) && !this.#asked.has(oid)) this.tables.doubts.delete(oid);
    }
  }

  #replace(
    rows: readonly CatalogRow[],
    unread: readonly UnreadRow[],
    stays?: Parameters<typeof nextSnapshot>[4],
  ): void {
    this.tables.snapshot = nextSnapshot(
      this.tables.snapshot,
      this.#database,
      { rows, unread },
      this.#compiler,
      stays,
    );
  }

  #suspect(oid: number): void {
    if (!this.tables.doubts.has(oid)) this.tables.doubts.set(oid, this.#context.clock());
  }

  /** By oid. Unusable tables are read again: their key may have come back. */
  #wanted(): ReadonlySet<number> {
    const { tables, unusable, unanswering } = this.tables.snapshot;
    const problems = [...unusable.keys(), ...unanswering.keys()].flatMap((key) => tables.get(key)?.oid ?? []);
    return new Set([...this.tables.doubts.keys(), ...this.#left.locked, ...problems]);
  }
}
