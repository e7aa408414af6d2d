/**
 * The databases whose catalogs are served. The catalog of the default database is created at startup, that of another one by the first of Headgate's
 * statements in it (`ensure`); a database that already has a catalog is found when a request names it. Takes names of databases, returns their catalogs;
 * refuses with `not_found`, with `engine_unavailable` while it is not known which databases exist, with `overloaded` if too many are requested, and
 * with `draining` at shutdown.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { within } from '../kit/promises.ts';
import { SharedRuns } from '../kit/shared-runs.ts';
import type { Target } from '../types/target.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import { DatabaseCatalog } from './database-catalog.ts';
import type { CatalogParts } from './database-catalog.ts';
import { readMigrations } from './migrate.ts';
import type { TableCompiler } from './table-compiler.ts';
import { pinned } from './queries.ts';
import type { CatalogRow } from './catalog-rows.ts';

export class CatalogDatabases {
  /** What makes checks of what is stored. */
  readonly compiler: TableCompiler;
  readonly #parts: CatalogParts;
  readonly #engine: Engine;
  readonly #databases = new Map<string, DatabaseCatalog>();
  /** Databases that are about to be dropped or renamed, and until when they are left alone. */
  readonly #held = new Map<string, number>();
  /** Databases without a catalog, and until when that is assumed. */
  readonly #absent = new Map<string, number>();
  readonly #lister: SharedRuns;
  #existing = new Set<string>();
  #closed = false;

  /** Does not wait for the engine: until the engine is up, `find` waits and then refuses. */
  constructor(parts: Omit<CatalogParts, 'migrations'>) {
    this.#parts = { ...parts, migrations: readMigrations() };
    this.#engine = parts.engine;
    this.compiler = parts.compiler;
    this.#lister = new SharedRuns(() => this.#list(), parts.clock);
    this.#open(parts.engine.defaultDatabase, true);
  }

  /** undefined: it is not served, or not yet. */
  get(database: string): DatabaseCatalog | undefined {
    return this.#databases.get(database);
  }

  /** null: every table of the default database can be found; otherwise the reason why not. */
  get unavailable(): string | null {
    return this.#databases.get(this.#engine.defaultDatabase)?.unavailable ?? null;
  }

  /** Waits for the default database, for a bounded time. Never throws: see `unavailable`. */
  async opened(timeoutMs = this.#parts.limits.catalogWaitMs): Promise<void> {
    const catalog = this.#databases.get(this.#engine.defaultDatabase);
    await catalog?.opened(timeoutMs).catch(() => {});
  }

  /** The table, for a request that is not answered from memory. Waits for the catalog of its database, at most `catalogWaitMs` in all. Throws Refused. */
  async find(name: TableName): Promise<Target> {
    const database = this.#databases.get(name.database);
    if (database?.tables.state === 'watching') return database.find(name);
    const found = this.#serving(name.database).then((catalog) => catalog.find(name));
    const kept = found.finally(() => this.#forgetAbsent(name.database));
    const target = await within(this.#parts.limits.catalogWaitMs, kept, null);
    if (target === null) throw new Refused('engine_unavailable');
    return target;
  }

  /** Creates the catalog in this database unless it exists. Throws the engine's error, or Refused. */
  async ensure(database: string): Promise<void> {
    this.#held.delete(database);
    let catalog = this.#databases.get(database);
    if (catalog?.tables.state === 'watching') return;
    if (catalog?.tables.state === 'absent') {
      this.#databases.delete(database);
      catalog = undefined;
    }
    this.#absent.delete(database);
    if (catalog === undefined && this.#databases.size >= this.#parts.limits.databasesMax) {
      throw new Refused('overloaded', `more than ${this.#parts.limits.databasesMax} databases are in use`);
    }
    catalog ??= this.#open(database, true);
    const { catalogWaitMs, catalogMadeMs } = this.#parts.limits;
    await catalog.opened(catalogWaitMs, catalogMadeMs);
  }

  /** Lets go of a database that is about to be dropped or renamed. The default database is opened again automatically. */
  async release(database: string): Promise<void> {
    this.#held.set(database, this.#parts.clock() + this.#parts.limits.catalogHoldMs);
    const catalog = this.#databases.get(database);
    if (catalog === undefined) return;
    this.#databases.delete(database);
    await catalog.close();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#databases.values()].map((catalog) => catalog.close()));
  }

  /** The connection to a database whose catalog exists then. Throws Refused, or the engine's error. */
  async client(database: string): Promise<Client> {
    await this.ensure(database);
    const catalog = this.#databases.get(database);
    if (catalog === undefined) throw new Refused('engine_unavailable');
    return catalog.client;
  }

  /** Runs one statement on the connection of a database's catalog; null: the database does not exist, or has no catalog. Throws Refused. */
  async asked<Row extends object>(database: string, sql: string): Promise<readonly Row[] | null> {
    try {
      const catalog = await this.#serving(database);
      await catalog.opened(this.#parts.limits.catalogWaitMs);
      return catalog.tables.state === 'absent' ? null : await pinned<Row>(catalog.client, sql);
    } catch (error) {
      if (error instanceof Refused && error.refusal.code === 'not_found') return null;
      throw error instanceof Refused ? error : new Refused('engine_unavailable');
    } finally {
      this.#forgetAbsent(database);
    }
  }

  /** What an earlier process knew of a database that has not been read yet. */
  remember(database: string, rows: readonly CatalogRow[], ageMs: number): void {
    if (this.#closed) return;
    const { defaultDatabase } = this.#engine;
    const catalog = this.#databases.get(database) ?? this.#open(database, database === defaultDatabase);
    catalog.remember(rows, ageMs);
  }

  /** The catalog of a database that exists; the database may turn out to have none. Throws Refused. */
  async #serving(database: string): Promise<DatabaseCatalog> {
    const now = this.#parts.clock();
    if ((this.#held.get(database) ?? 0) > now) throw new Refused('engine_unavailable');
    this.#held.delete(database);
    // It may have got a catalog since it was looked at.
    const restMs = (this.#absent.get(database) ?? 0) - now;
    if (restMs > 0) await delay(restMs);
    const known = this.#databases.get(database);
    if (known !== undefined) return known;
    await this.#lister.run(this.#parts.limits.catalogMissIntervalMs).catch(() => {
      throw new Refused('engine_unavailable');
    });
    if (!this.#existing.has(database)) throw new Refused('not_found');
    if (this.#databases.size >= this.#parts.limits.databasesMax) throw new Refused('overloaded');
    return this.#databases.get(database) ?? this.#open(database, database === this.#engine.defaultDatabase);
  }

  #forgetAbsent(database: string): void {
    if (this.#databases.get(database)?.tables.state !== 'absent') return;
    this.#databases.delete(database);
    this.#absent.set(database, this.#parts.clock() + this.#parts.limits.catalogPollIntervalMs);
  }

  #open(database: string, create: boolean): DatabaseCatalog {
    if (this.#closed) throw new Refused('draining');
    const catalog = new DatabaseCatalog(database, this.#parts, create);
    this.#databases.set(database, catalog);
    return catalog;
  }

  /** The job of the lister: which databases exist, queried on any open connection. */
  async #list(): Promise<void> {
    const asked = [...this.#databases.values()].find((catalog) => catalog.tables.state === 'watching');
    if (asked === undefined) {
      // The default database may have been let go of; it is opened again as soon as it is needed.
      const { defaultDatabase } = this.#engine;
      if (!this.#databases.has(defaultDatabase)) this.#open(defaultDatabase, true);
      throw new Refused('engine_unavailable');
    }
    const rows = await pinned<{ name: string }>(
      asked.client,
      'select datname as name from pg_catalog.pg_database where datallowconn and not datistemplate',
    );
    this.#existing = new Set(rows.map((row) => row.name));
    for (const name of this.#absent.keys()) if (!this.#existing.has(name)) this.#absent.delete(name);
  }
}
