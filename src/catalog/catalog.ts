/**
 * The catalog room: which webhook tables, checks and secrets exist now, in every database that is served. What requests ask of it is answered in
 * database-tables.ts; here databases are opened, searched and let go of. The catalog of the default database is created at startup, that of another one by
 * the first of Headgate's statements in it (`ensure`); a database that already has a catalog is found when a request names it. What statements ask about
 * the tables of a role is in role-queries.ts.
 *
 * Takes names, returns Targets; refuses with `not_found`, with `engine_unavailable` while the catalog's state, or which databases exist, is not known,
 * with `overloaded` if too many databases are requested, and with `draining` at shutdown. Uses two connections per served database.
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
import { ServedTables } from './database-tables.ts';
import type { CatalogParts } from './database-catalog.ts';
import { readMigrations } from './migrate.ts';
import type { TableCompiler } from './table-compiler.ts';
import { pinned } from './queries.ts';
import type { CatalogRow } from './catalog-rows.ts';

export class Catalog extends ServedTables<DatabaseCatalog> {
  /** What makes checks of what is stored. */
  readonly compiler: TableCompiler;
  readonly #parts: CatalogParts;
  readonly #engine: Engine;
  /** Databases that are about to be dropped or renamed, and until when they are left alone. */
  readonly #held = new Map<string, number>();
  /** Databases without a catalog, and until when that is assumed. */
  readonly #absent = new Map<string, number>();
  readonly #lister: SharedRuns;
  #existing = new Set<string>();
  #closed = false;

  /** Does not wait for the engine: until the engine is up, `find` waits and then refuses. */
  constructor(parts: Omit<CatalogParts, 'migrations'>) {
    super();
    this.#parts = { ...parts, migrations: readMigrations() };
    this.#engine = parts.engine;
    this.compiler = parts.compiler;
    this.#lister = new SharedRuns(() => this.#list(), parts.clock);
    this.#open(parts.engine.defaultDatabase, true);
  }

  /** undefined: it is not served, or not yet. */
  get(database: string): DatabaseCatalog | undefined {
    return this.served.get(database);
  }

  /** null: every table of the default database can be found; otherwise the reason why not. */
  get unavailable(): string | null {
    return this.served.get(this.#engine.defaultDatabase)?.unavailable ?? null;
  }

  /** Waits for the default database, for a bounded time. Never throws: see `unavailable`. */
  async opened(timeoutMs = this.#parts.limits.catalogWaitMs): Promise<void> {
    const catalog = this.served.get(this.#engine.defaultDatabase);
    await catalog?.opened(timeoutMs).catch(() => {});
  }

  /** Returns without waiting if the table is known; otherwise waits for the catalog of its database, at most `catalogWaitMs` in all. Throws Refused. */
  find(name: TableName): Target | Promise<Target> {
    return this.answering(name) ?? this.#find(name);
  }

  async #find(name: TableName): Promise<Target> {
    const database = this.served.get(name.database);
    if (database?.tables.state === 'watching') return database.find(name);
    const found = this.#serving(name.database).then((catalog) => catalog.find(name));
    const kept = found.finally(() => this.#forgetAbsent(name.database));
    const target = await within(this.#parts.limits.catalogWaitMs, kept, null);
    if (target === null) throw new Refused('engine_unavailable');
    return target;
  }

  /** Whether a refusal that rests on this table may be given: it is still this one, as the engine says after `sinceMs` of the clock. Throws Refused. */
  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    return this.served.get(target.database)?.isStill(target, sinceMs) ?? false;
  }

  /** To be called when the table differs from what is known of it; resolves when it has been read again. Throws Refused. */
  async refresh({ database, oid }: Pick<Target, 'database' | 'oid'>): Promise<void> {
    await this.served
      .get(database)
      ?.refresh(oid)
      .catch(() => {
        throw new Refused('engine_unavailable');
      });
  }

  /** Creates the catalog in this database unless it exists. Throws the engine's error, or Refused. */
  async ensure(database: string): Promise<void> {
    this.#held.delete(database);
    let catalog = this.served.get(database);
    if (catalog?.tables.state === 'watching') return;
    if (catalog?.tables.state === 'absent') {
      this.served.delete(database);
      catalog = undefined;
    }
    this.#absent.delete(database);
    if (catalog === undefined && this.served.size >= this.#parts.limits.databasesMax) {
      throw new Refused('overloaded', `more than ${this.#parts.limits.databasesMax} databases are in use`);
    }
    catalog ??= this.#open(database, true);
    const { catalogWaitMs, catalogMadeMs } = this.#parts.limits;
    await catalog.opened(catalogWaitMs, catalogMadeMs);
  }

  /** Lets go of a database that is about to be dropped or renamed. The default database is opened again automatically. */
  async release(database: string): Promise<void> {
    this.#held.set(database, this.#parts.clock() + this.#parts.limits.catalogHoldMs);
    const catalog = this.served.get(database);
    if (catalog === undefined) return;
    this.served.delete(database);
    await catalog.close();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.served.values()].map((catalog) => catalog.close()));
  }

  /** The connection to a database whose catalog exists then. Throws Refused, or the engine's error. */
  async client(database: string): Promise<Client> {
    await this.ensure(database);
    const catalog = this.served.get(database);
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
    const catalog = this.served.get(database) ?? this.#open(database, database === defaultDatabase);
    catalog.remember(rows, ageMs);
  }

  /** The catalog of a database that exists; the database may turn out to have none. Throws Refused. */
  async #serving(database: string): Promise<DatabaseCatalog> {
    // It is let go of; or it may have got a catalog since it was looked at.
    const untilMs = Math.max(this.#held.get(database) ?? 0, this.#absent.get(database) ?? 0);
    const restMs = untilMs - this.#parts.clock();
    if (restMs > 0) await delay(restMs);
    const known = this.served.get(database);
    if (known !== undefined) return known;
    const { catalogMissIntervalMs } = this.#parts.limits;
    const areListed = await this.#lister.run(catalogMissIntervalMs).then(
      () => true,
      () => false,
    );
    // The default database may have been opened for the list.
    const opened = this.served.get(database);
    if (opened !== undefined) return opened;
    if (!areListed) throw new Refused('engine_unavailable');
    if (!this.#existing.has(database)) throw new Refused('not_found');
    if (this.served.size >= this.#parts.limits.databasesMax) throw new Refused('overloaded');
    return this.#open(database, database === this.#engine.defaultDatabase);
  }

  #forgetAbsent(database: string): void {
    if (this.served.get(database)?.tables.state !== 'absent') return;
    this.served.delete(database);
    this.#absent.set(database, this.#parts.clock() + this.#parts.limits.catalogPollIntervalMs);
  }

  #open(database: string, create: boolean): DatabaseCatalog {
    if (this.#closed) throw new Refused('draining');
    const catalog = new DatabaseCatalog(database, this.#parts, create);
    this.served.set(database, catalog);
    return catalog;
  }

  /** The job of the lister: which databases exist, queried on any open connection. */
  async #list(): Promise<void> {
    const asked = [...this.served.values()].find((catalog) => catalog.tables.state === 'watching');
    if (asked === undefined) {
      // The default database may have been let go of; it is opened again as soon as it is needed.
      const { defaultDatabase } = this.#engine;
      if (!this.served.has(defaultDatabase)) this.#open(defaultDatabase, true);
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
