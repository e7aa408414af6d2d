/**
 * The webhook tables, as requests meet them: what is known of each, which of them are in doubt, and when the engine confirmed the others.
 * A request is answered from here, without a question to the engine, if the engine has confirmed its table lately (`catalogStaleMs`) and has not reported another
 * version of it since (`confirmed`); otherwise it waits for an answer of the engine (database-catalog.ts). Only handshakes (`lastKnown`) are answered
 * from less: changes made in the meantime are unknown, and a revoked key must not be accepted. Takes names and oids, returns Targets; refuses nothing.
 *
 * It is written by those who keep it true: watcher.ts says what the engine has confirmed, snapshot-cache.ts what is in doubt and what was read.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { TableName } from '../observe/observations.ts';
import type { StageContext } from '../observe/context.ts';
import type { Target } from '../types/target.ts';

/** The tables of all databases that are served: what requests ask, answered from memory. `Catalog` (catalog.ts) puts the databases here. */
export abstract class ServedTables<
  Database extends { readonly tables: DatabaseTables } = { readonly tables: DatabaseTables },
> {
  /** By name. */
  protected readonly served = new Map<string, Database>();

  /** The table, if a request may be answered from memory; undefined: `Catalog.find` has to ask the engine, or refuses. */
  answering(name: TableName): Target | undefined {
    return this.served.get(name.database)?.tables.confirmed(name);
  }

  /** For how long it has been known that the table may have changed, in ms; 0: it has not. */
  doubtMs(target: Pick<Target, 'database' | 'oid'>): number {
    return this.served.get(target.database)?.tables.doubtMs(target.oid) ?? 0;
  }

  /** What a handshake is answered from, which stores nothing; null: there is no such table; undefined: nothing is known, or not lately. */
  lastKnown(name: TableName): Target | null | undefined {
    return this.served.get(name.database)?.tables.lastKnown(name);
  }

  /** Whether what is known of this database is what the engine has now. */
  isWatching(database: string): boolean {
    return this.served.get(database)?.tables.isCurrent === true;
  }

  /** As `isWatching`, for one table, of which a poll of its own may be newer than the last one of all. */
  isWatchingTable(name: TableName): boolean {
    return this.served.get(name.database)?.tables.isCurrentFor(name) === true;
  }

  /** What is known of a database, whether or not the engine is up; null: it is not served, or has no catalog. */
  known(database: string): DatabaseSnapshot | null {
    return this.served.get(database)?.tables.known ?? null;
  }

  /** The table with this oid, as the engine has it now; null: it does not exist, or the engine's state is not known. */
  current(database: string, oid: number): Target | null {
    return this.served.get(database)?.tables.current(oid) ?? null;
  }
}

/** An immutable picture of the tables, made by `nextSnapshot` (target.ts). Those that cannot be read are in it as unusable, each with the reason. */
export interface Snapshot {
  readonly version: number;
  readonly tables: ReadonlyMap<string, Target>;
  /** What each Target was made from, to keep Targets that did not change. */
  readonly sources: ReadonlyMap<string, string>;
  /** Tables that cannot be used, with the reason; never with a value of a secret. */
  readonly unusable: ReadonlyMap<string, string>;
  /** Tables with an ANSWER that cannot be used, with the reason. */
  readonly unanswering: ReadonlyMap<string, string>;
}

export const emptySnapshot: Snapshot = {
  version: 0,
  tables: new Map(),
  sources: new Map(),
  unusable: new Map(),
  unanswering: new Map(),
};

export function tableKey(schema: string, table: string): string {
  // NUL cannot occur in a name, so no two pairs share a key.
  return `${schema}\0${table}`;
}

/** The key of a table in `tables`. Remembered per name object: the same objects are looked up again and again. */
export const keyOfName = rememberedOf(({ schema, table }: Pick<TableName, 'schema' | 'table'>) =>
  tableKey(schema, table),
);

/** As database-catalog.ts explains them. */
export type CatalogState = 'connecting' | 'watching' | 'absent' | 'closed';

export interface DatabaseSnapshot {
  readonly snapshot: Snapshot;
  /** How long ago the engine last confirmed it, in ms. */
  readonly ageMs: number;
}

export class DatabaseTables {
  /** Set by `DatabaseCatalog` alone. */
  state: CatalogState = 'connecting';
  snapshot: Snapshot = emptySnapshot;
  /** A table that is not in the snapshot does not exist, or is in doubt. */
  isWhole = false;
  /** Tables, by oid, of which nothing is answered until they are read, and since when. */
  readonly doubts = new Map<number, number>();
  /** When the question was put with whose answer the engine last confirmed all tables but those in doubt. */
  confirmedAtMs = -Infinity;
  /** The same for single tables, by oid, since that question: while a poll of all takes long. */
  readonly confirmedOf = new Map<number, number>();
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;

  constructor(context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#context = context;
  }

  /** The table, unless it is in doubt, or nothing has confirmed it lately. */
  confirmed(name: TableName): Target | undefined {
    const target = this.snapshot.tables.get(keyOfName(name));
    if (target === undefined || this.doubts.has(target.oid)) return undefined;
    return this.isCurrent || this.#isConfirmed(target, 'catalogPollIntervalMs') ? target : undefined;
  }

  /** What is known of all tables but those in doubt is what the engine has, or had a moment ago. */
  get isCurrent(): boolean {
    const { clock, limits } = this.#context;
    return this.state === 'watching' && clock() - this.confirmedAtMs <= limits.catalogStaleMs;
  }

  /** As `isCurrent`, for one table: by a poll of it alone while a poll of all takes long. */
  isCurrentFor(name: TableName): boolean {
    const target = this.snapshot.tables.get(keyOfName(name));
    return this.isCurrent || (target !== undefined && this.#isConfirmed(target, 'catalogStaleMs'));
  }

  /** By a poll of this table. */
  #isConfirmed({ oid }: Target, within: 'catalogPollIntervalMs' | 'catalogStaleMs'): boolean {
    const { clock, limits } = this.#context;
    const confirmedAtMs = this.confirmedOf.get(oid) ?? -Infinity;
    return this.state === 'watching' && clock() - confirmedAtMs <= limits[within];
  }

  /** For how long it has been known that the table may have changed, in ms; 0: it has not. */
  doubtMs(oid: number): number {
    const since = this.doubts.get(oid);
    return since === undefined ? 0 : this.#context.clock() - since;
  }

  /** The table with this oid, as the engine has it now; null: it does not exist, or the engine's state is not known. */
  current(oid: number): Target | null {
    if (!this.isCurrent) return null;
    for (const target of this.snapshot.tables.values()) if (target.oid === oid) return target;
    return null;
  }

  /** What is known, whether or not the engine is up; null: the database has no catalog, or is let go of. */
  get known(): DatabaseSnapshot | null {
    if (this.isFinal) return null;
    return { snapshot: this.snapshot, ageMs: this.#context.clock() - this.confirmedAtMs };
  }

  /**
   * The table as it is known, or was when the connection was lost, at most `handshakeStaleMs` ago; null: it does not
   * exist; undefined: nothing is known. For answers that store nothing.
   */
  lastKnown(name: TableName): Target | null | undefined {
    const { clock, limits } = this.#context;
    if (!this.isWhole || this.isFinal) return undefined;
    if (clock() - this.confirmedAtMs > limits.handshakeStaleMs) return undefined;
    return this.snapshot.tables.get(keyOfName(name)) ?? null;
  }

  /** The database has no catalog, or is let go of. */
  get isFinal(): boolean {
    return this.state === 'absent' || this.state === 'closed';
  }
}
