/**
 * The catalog room: which webhook tables, checks and secrets exist now, in every database that is served.
 *
 * Takes names, returns Targets; refuses with `not_found`, with `engine_unavailable` while the catalog's state is not known,
 * with `overloaded` if too many databases are requested, and with `draining` at shutdown. Here is what requests ask, of the one database that they name: what
 * is known of its tables is in database-tables.ts. Databases are opened and let go of in databases.ts; what statements ask about the tables of a role is in
 * role-queries.ts. Uses two connections per served database.
 */
import type { Target } from '../types/target.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import type { CatalogParts } from './database-catalog.ts';
import type { DatabaseSnapshot } from './database-tables.ts';
import { CatalogDatabases } from './databases.ts';

export class Catalog {
  readonly databases: CatalogDatabases;

  constructor(parts: Omit<CatalogParts, 'migrations'>) {
    this.databases = new CatalogDatabases(parts);
  }

  /** The table, if a request may be answered from memory; undefined: `find` has to ask the engine, or refuses. */
  answering(name: TableName): Target | undefined {
    return this.databases.get(name.database)?.tables.answering(name);
  }

  /** Returns without waiting if the table is known. Throws Refused. */
  find(name: TableName): Target | Promise<Target> {
    return this.answering(name) ?? this.databases.find(name);
  }

  /** Whether a refusal that rests on this table may be given: it is still this one, as the engine says after `sinceMs` of the clock. Throws Refused. */
  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    return this.databases.get(target.database)?.isStill(target, sinceMs) ?? false;
  }

  /** For how long it has been known that the table may have changed, in ms; 0: it has not. */
  doubtMs(target: Pick<Target, 'database' | 'oid'>): number {
    return this.databases.get(target.database)?.tables.doubtMs(target.oid) ?? 0;
  }

  /** What a handshake is answered from, which stores nothing; null: there is no such table; undefined: nothing is known, or not lately. */
  lastKnown(name: TableName): Target | null | undefined {
    return this.databases.get(name.database)?.tables.lastKnown(name);
  }

  /** Whether what is known of this database is what the engine has now. */
  isWatching(database: string): boolean {
    return this.databases.get(database)?.tables.isCurrent === true;
  }

  /** As `isWatching`, for one table, whose own look may be newer than the last one at all. */
  isWatchingTable(name: TableName): boolean {
    return this.databases.get(name.database)?.tables.isCurrentFor(name) === true;
  }

  /** What is known of a database, whether or not the engine is up; null: it is not served, or has no catalog. */
  known(database: string): DatabaseSnapshot | null {
    return this.databases.get(database)?.tables.known ?? null;
  }

  /** The table with this oid, as the engine has it now; null: it does not exist, or the engine's state is not known. */
  current(database: string, oid: number): Target | null {
    return this.databases.get(database)?.tables.current(oid) ?? null;
  }

  /** To be called when the table differs from what is known of it; resolves when it has been read again. Throws Refused. */
  async refresh({ database, oid }: Pick<Target, 'database' | 'oid'>): Promise<void> {
    await this.databases
      .get(database)
      ?.refresh(oid)
      .catch(() => {
        throw new Refused('engine_unavailable');
      });
  }
}
