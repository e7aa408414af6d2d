/**
 * The catalog room: which webhook tables, checks and secrets exist now, in every database that is served.
 *
 * Takes names, returns Targets; refuses with `not_found`, with `engine_unavailable` while the catalog's state is not known,
 * with `overloaded` if too many databases are requested, and with `draining` at shutdown. The default database's catalog is
 * created at startup, that of another database by the first of Headgate's statements in it (`ensure`); a database that
 * already has a catalog is found when a request names it. Uses two connections per served database.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { within } from '../kit/promises.ts';
import { SharedRuns } from '../kit/shared-runs.ts';
import type { TableAnswers } from '../types/answers.ts';
import type { Target } from '../types/target.ts';
import type { TableName } from '../observe/observations.ts';
import { Refused } from '../errors/refusals.ts';
import { DatabaseCatalog } from './database-catalog.ts';
import type { CatalogParts } from './database-catalog.ts';
import type { DatabaseSnapshot } from './database-tables.ts';
import { readMigrations } from './migrate.ts';
import { candidateOf } from './altered-check.ts';
import type { Candidate, CandidateQuestion } from './altered-check.ts';
import { makeAnswers, noAnswers } from './answers.ts';
import { guardOf } from './table-compiler.ts';
import type { GuardedTable, TableCompiler } from './table-compiler.ts';
import { dedupeOf } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import { pinned, readTables } from './queries.ts';
import { readForeignSecrets, readOwned, readOwnedBy, readSecrets } from './role-queries.ts';
import { methodsOf, openSource, shapeProblem } from './target.ts';
import type { CatalogRow } from './catalog-rows.ts';
import type { CheckSource } from './target.ts';

export interface CatalogTableQuery {
  readonly database: string;
  readonly user: string;
  /** null: in any schema. */
  readonly schema: string | null;
  readonly table: string;
}

export interface CatalogTable extends TableName {
  /** pg_class.oid */
  readonly oid: number;
  /** Why the table cannot be used; null: it can. */
  readonly unusable: string | null;
  /** null: no VALIDATE, or it does not open. */
  readonly source: CheckSource | null;
  /** null: no ANSWER. */
  readonly answers: TableAnswers | null;
  /** null: every request is stored. */
  readonly dedupe: Dedupe | null;
  /** undefined: POST alone. */
  readonly methods?: Target['methods'];
}

export interface Signing {
  /** Secrets of the table's check that the role may not use; nothing is opened then. */
  readonly foreignSecrets: readonly string[];
  /** null: no VALIDATE. */
  readonly source: CheckSource | null;
}

export interface ShownTable {
  readonly oid: number;
  /** A CatalogRow as JSON; null: the row was too large to be read. */
  readonly source: string | null;
  /** Why the table cannot be used; null: it can. */
  readonly unusable: string | null;
}

export class Catalog {
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

  private constructor(parts: CatalogParts) {
    this.#parts = parts;
    this.#engine = parts.engine;
    this.#lister = new SharedRuns(() => this.#list(), parts.clock);
    this.#open(parts.engine.defaultDatabase, true);
  }

  /** Does not wait for the engine: until the engine is up, `find` waits and then refuses. */
  static async open(parts: Omit<CatalogParts, 'migrations'>): Promise<Catalog> {
    return new Catalog({ ...parts, migrations: readMigrations() });
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

  /** Whether what is known of this database is what the engine has now. */
  isWatching(database: string): boolean {
    return this.#databases.get(database)?.tables.isCurrent === true;
  }

  /** As `isWatching`, for one table, whose own look may be newer than the last one at all. */
  isWatchingTable(name: TableName): boolean {
    return this.#databases.get(name.database)?.tables.isCurrentFor(name) === true;
  }

  /** What is known of a database, whether or not the engine is up; null: it is not served, or has no catalog. */
  known(database: string): DatabaseSnapshot | null {
    return this.#databases.get(database)?.tables.known ?? null;
  }

  /** What an earlier process knew of a database that has not been read yet. */
  remember(database: string, rows: readonly CatalogRow[], ageMs: number): void {
    if (this.#closed) return;
    const { defaultDatabase } = this.#engine;
    const catalog = this.#databases.get(database) ?? this.#open(database, database === defaultDatabase);
    catalog.remember(rows, ageMs);
  }

  /** The table with this oid, as the engine has it now; null: it does not exist, or the engine's state is not known. */
  current(database: string, oid: number): Target | null {
    return this.#databases.get(database)?.tables.current(oid) ?? null;
  }

  /** What checks need besides their secrets. */
  get keySets(): TableCompiler['keySets'] {
    return this.#parts.compiler.keySets;
  }

  /** The table, if a request may be answered from memory; undefined: `find` has to ask the engine, or refuses. */
  answering(name: TableName): Target | undefined {
    return this.#databases.get(name.database)?.tables.answering(name);
  }

  /** Returns without waiting if the table is known. Throws Refused. */
  find(name: TableName): Target | Promise<Target> {
    return this.answering(name) ?? this.#findLate(name);
  }

  /** As `DatabaseCatalog.isStill`: whether a refusal that rests on this table may be given. Throws Refused. */
  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    return this.#databases.get(target.database)?.isStill(target, sinceMs) ?? false;
  }

  /** As `DatabaseCatalog.doubtMs`. */
  doubtMs(target: Pick<Target, 'database' | 'oid'>): number {
    return this.#databases.get(target.database)?.tables.doubtMs(target.oid) ?? 0;
  }

  /** As `DatabaseCatalog.lastKnown`; undefined also if the database is not served. */
  lastKnown(name: TableName): Target | null | undefined {
    return this.#databases.get(name.database)?.tables.lastKnown(name);
  }

  /**
   * The sources of the checks of all tables of that name, for EXPLAIN VALIDATE, opened for this one answer. Tables
   * that `user` neither owns nor may look at are left out. Throws Refused, or the engine's error.
   */
  async sources(question: CatalogTableQuery): Promise<readonly CatalogTable[]> {
    const { database } = question;
    return (await this.#owned(question, 'seen')).map((row) => {
      const name = { oid: row.relation, database, schema: row.schema_name, table: row.table_name };
      const unusable = shapeProblem(row);
      try {
        const source = openSource(row, this.#parts.compiler);
        const { made: answers } = unusable === null ? makeAnswers(row, this.#parts.compiler) : noAnswers;
        return { ...name, unusable, source, answers, dedupe: dedupeOf(row.options), methods: methodsOf(row) };
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        return { ...name, unusable: reason, source: null, answers: null, dedupe: null };
      }
    });
  }

  /**
   * The check that signs for a table, opened for this one request; null: the table does not exist, or is not `user`'s.
   * Throws Refused, or the engine's error.
   */
  async signing(question: CatalogTableQuery & { readonly schema: string }): Promise<Signing | null> {
    const [row] = await this.#owned(question);
    if (row === undefined) return null;
    const client = await this.#client(question.database);
    const foreign = await readForeignSecrets(client, question.user, row.relation);
    const source = foreign.length > 0 ? null : openSource(row, this.#parts.compiler);
    return { foreignSecrets: foreign.map(({ name }) => name), source };
  }

  /** The checks that an UNCHECKED answer of a table is judged against. Throws Refused, or the engine's error. */
  async guards(question: CatalogTableQuery): Promise<readonly GuardedTable[]> {
    return (await this.#owned(question)).map((row) => guardOf(row, this.#parts.compiler));
  }

  /** What would guard a table after ALTER TABLE … VALIDATE. Throws SqlFailure, Refused, or the engine's error. */
  async candidate(question: CandidateQuestion): Promise<Candidate> {
    const client = await this.#client(question.database);
    const secrets = await readSecrets(
      client,
      question.me,
      question.secrets.flatMap(({ id }) => id ?? []),
    );
    const { rows } = await readTables(client, [question.oid]);
    return candidateOf(rows[0], secrets, question, this.#parts.compiler);
  }

  /**
   * The webhook tables, by oid, that `user` owns or whose owner `user` can become; `seen`: and those whose owner lets others look at them. Throws Refused, or
   * the engine's error.
   */
  async ownedBy(
    { database, user }: Pick<CatalogTableQuery, 'database' | 'user'>,
    how: 'owned' | 'seen' = 'owned',
  ): Promise<ReadonlySet<number>> {
    return new Set(await readOwnedBy(await this.#client(database), user, how));
  }

  /** What may be shown of these tables. Throws Refused. */
  async shown(database: string, owned: ReadonlySet<number>): Promise<readonly ShownTable[]> {
    await this.#databases.get(database)?.upToDate();
    const snapshot = this.#databases.get(database)?.tables.snapshot;
    const tables = [...(snapshot?.tables ?? [])].filter(([, { oid }]) => owned.has(oid));
    return tables.map(([key, { oid }]) => ({
      oid,
      source: snapshot?.sources.get(key) ?? null,
      unusable: snapshot?.unusable.get(key) ?? null,
    }));
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

  /** Called when the table differs from what is known of it. */
  async refresh({ database, oid }: Pick<Target, 'database' | 'oid'>): Promise<void> {
    await this.#databases
      .get(database)
      ?.refresh(oid)
      .catch(() => {
        throw new Refused('engine_unavailable');
      });
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

  /** Waits for the catalog of a database, at most `catalogWaitMs` in all. */
  async #findLate(name: TableName): Promise<Target> {
    const database = this.#databases.get(name.database);
    if (database?.tables.state === 'watching') return database.find(name);
    const found = this.#serving(name.database).then((catalog) => catalog.find(name));
    const kept = found.finally(() => this.#forgetAbsent(name.database));
    const target = await within(this.#parts.limits.catalogWaitMs, kept, null);
    if (target === null) throw new Refused('engine_unavailable');
    return target;
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

  /** The connection to a database whose catalog exists then. Throws Refused, or the engine's error. */
  async #client(database: string): Promise<Client> {
    await this.ensure(database);
    const catalog = this.#databases.get(database);
    if (catalog === undefined) throw new Refused('engine_unavailable');
    return catalog.client;
  }

  /** The tables of that name that `user` may own, or at least look at, as they are committed. */
  async #owned(
    { database, user, schema, table }: CatalogTableQuery,
    how: 'owned' | 'seen' = 'owned',
  ): Promise<readonly CatalogRow[]> {
    const { explainTablesMax } = this.#parts.limits;
    return readOwned(await this.#client(database), user, schema, table, explainTablesMax, how);
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
