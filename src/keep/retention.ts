/**
 * Removes rows of webhook tables that are kept for a time (keep = '90 days'), up to a number ('1000000 rows') or up to a size ('10 GB'). Takes
 * the engine and the databases that are served; gives nothing but observations and rows of headgate.kept; refuses nothing.
 *
 * It works in the background, over one connection per database, which is open while it works: small transactions, each under a lock that no
 * commit waits for, in pieces of about a millisecond, with a rest after each. Every statement about a table may run code of its owner, if only
 * when PostgreSQL plans it. If the owner could not do all that Headgate's role can, the owner's function runs the statement; if
 * that is not enough, no rows are removed, and this is reported.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import type { QueryResult, QueryResultRow } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { cutOff, hangUp } from '../engine/close-client.ts';
import { LeftBehind } from '../engine/orphaned-backends.ts';
import { lockNotAvailable } from '../engine/sqlstate.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import { executorSchema, makeExecutorSql } from '../catalog/executor.ts';
import * as sql from './statements.ts';
import { Left, reasons } from './reasons.ts';
import type { Cutoff, KeptTable, Leaf, Looked, Said } from './statements.ts';
import { OwnersTime } from './owner-time.ts';

export interface KeeperOptions {
  readonly engine: Pick<Engine, 'clientConfig' | 'unavailable'>;
  readonly limits: Pick<
    Limits,
    | 'keepEveryMs'
    | 'keepAgainMs'
    | 'keepBatchRowsMax'
    | 'keepBatchMs'
    | 'keepPieceRowsMax'
    | 'keepRestMs'
    | 'keepRestTimes'
    | 'keepTurnMs'
    | 'keepOwnerMs'
    | 'keepStatementMs'
    | 'keepAnswerMs'
  >;
  readonly observe: Observe;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

export class Keeper {
  readonly #options: KeeperOptions;
  readonly #databases = new Map<
    string,
    { readonly closing: AbortController; readonly ended: Promise<void> }
  >();
  #closed = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** From now on; the catalog exists. */
  serve(database: string): void {
    if (this.#closed || this.#databases.has(database)) return;
    const closing = new AbortController();
    this.#databases.set(database, { closing, ended: this.#run(database, closing.signal) });
  }

  /** Closes the connection to a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const found = this.#databases.get(database);
    this.#databases.delete(database);
    found?.closing.abort();
    await found?.ended;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#databases.keys()].map((database) => this.release(database)));
  }

  async #run(database: string, signal: AbortSignal): Promise<void> {
    const { engine, limits, observe } = this.#options;
    let isLeft = false;
    while (!signal.aborted) {
      // Only the signal makes this pause fail.
      await pause(isLeft ? limits.keepAgainMs : limits.keepEveryMs, undefined, { signal }).catch(
        () => undefined,
      );
      isLeft = false;
      if (signal.aborted || engine.unavailable !== null) continue;
      try {
        isLeft = await keepOnce(database, this.#options, signal);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        if (!signal.aborted) observe({ kind: 'keep.failed', database, reason });
      }
    }
  }
}

/** One pass over all tables of a database. Resolves with whether there was more to remove than it had time for. */
export async function keepOnce(
  database: string,
  options: KeeperOptions,
  signal: AbortSignal,
): Promise<boolean> {
  let isLeft = false;
  let broken: unknown = null;
  let tables: KeptTable[] | null = null;
  const time = new OwnersTime(options.limits.keepOwnerMs, options.clock);
  const pass = async (keeping: Keeping): Promise<void> => {
    tables ??= await keeping.transaction(() => keeping.rows<KeptTable>(sql.keptTables));
    if (tables.length === 0) return;
    for (let table = tables.shift(); table !== undefined && !signal.aborted; table = tables.shift())
      isLeft = (await time.take(table.owner, keeping.table.bind(keeping, table))) || isLeft;
    await keeping.transaction(() => keeping.rows(sql.trimmed));
  };
  // Code of an owner can end the connection: the following tables are handled over another one.
  for (let before = Infinity; ;) {
    try {
      await connected(database, options, signal, pass);
      if (broken === null) return isLeft;
    } catch (error) {
      broken ??= error;
    }
    const left = (tables as KeptTable[] | null)?.length ?? 0;
    if (left === 0 || left === before || signal.aborted) throw broken;
    before = left;
  }
}

async function connected(
  database: string,
  options: KeeperOptions,
  signal: AbortSignal,
  work: (keeping: Keeping) => Promise<void>,
): Promise<void> {
  const client = new Client({ ...options.engine.clientConfig(database), application_name: 'headgate keep' });
  // An error of the connection is reported by the query that was waiting.
  client.on('error', () => {});
  const cut = (): void => cutOff(client);
  try {
    await client.connect();
    signal.addEventListener('abort', cut, { once: true });
    await work(new Keeping(database, client, options, signal));
  } finally {
    signal.removeEventListener('abort', cut);
    // What it still holds would keep the next connection from its turn.
    const left = new LeftBehind((name) => options.engine.clientConfig(name)).left(database, client);
    await hangUp(client);
    if (!signal.aborted) await left;
  }
}

class Keeping {
  readonly #database: string;
  readonly #client: Client;
  readonly #options: KeeperOptions;
  readonly #signal: AbortSignal;
  /** Code of an owner has run in this session. */
  #isUsed = false;

  constructor(database: string, client: Client, options: KeeperOptions, signal: AbortSignal) {
    this.#database = database;
    this.#client = client;
    this.#options = options;
    this.#signal = signal;
  }

  async rows<R extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return (await this.#query<R>(text, values)).rows;
  }

  /** Code of an owner that catches the end of its statement must not keep the other tables waiting. */
  async #query<R extends QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<QueryResult<R>> {
    const { keepStatementMs, keepAnswerMs } = this.#options.limits;
    const late = setTimeout(() => cutOff(this.#client), keepStatementMs + keepAnswerMs);
    try {
      return await this.#client.query<R>(text, values.length === 0 ? undefined : [...values]);
    } finally {
      clearTimeout(late);
    }
  }

  async transaction<T>(work: () => Promise<T>): Promise<T> {
    await this.#query(sql.begin);
    try {
      const done = await work();
      await this.#query('commit');
      return done;
    } catch (error) {
      await this.#query('rollback').catch(() => undefined);
      throw error;
    } finally {
      if (this.#isUsed) await this.#query('discard all').catch(() => undefined);
      this.#isUsed = false;
    }
  }

  /** Whether its turn ended before all rows that have to go were removed. */
  async table(table: KeptTable): Promise<boolean> {
    const { observe, clock, limits } = this.#options;
    const pass = { id: null as string | null, rows: 0 };
    let isLeft = false;
    const until = clock() + limits.keepTurnMs;
    try {
      for (const leaf of await this.transaction(() => this.rows<Leaf>(sql.leaves, [table.oid]))) {
        const cutoff = await this.#cutoff(table, leaf);
        if (cutoff === null) continue;
        const bounds = { cutoff, from: '-infinity', over: false, restMs: 0 };
        pass.rows += await this.transaction(() => this.#remove(table, leaf, bounds, pass, this.#empty)).catch(
          ifHeld,
        );
        while (!bounds.over && clock() < until && !this.#signal.aborted) {
          pass.rows += await this.transaction(() => this.#remove(table, leaf, bounds, pass, this.#delete));
          if (!bounds.over) await this.#rest(bounds);
        }
        isLeft ||= !bounds.over;
      }
    } catch (error) {
      // Somebody holds the table: the next pass tries again.
      const { code } = error as { code?: string };
      // If the connection has ended, its error is reported.
      if (code !== lockNotAvailable && code !== 'HG001')
        await this.#told(table, code === '57014' ? new Left(reasons.slow) : error).catch(() =>
          Promise.reject(error),
        );
    }
    if (pass.rows > 0) observe({ kind: 'keep.removed', table: this.#name(table), rows: pass.rows });
    return isLeft;
  }

  #name({ schema, table }: KeptTable): TableName {
    return { database: this.#database, schema, table };
  }

  /** null: nothing has to be removed. */
  async #cutoff(table: KeptTable, leaf: Leaf): Promise<string | null> {
    const [, count = '', unit = ''] = /^(\d+) (\w+)$/.exec(table.keep) ?? [];
    if (table.arrival === null) throw new Left(reasons.noTime);
    const { arrival } = table;
    return this.transaction(async () => {
      const looked = await this.#safe(leaf, arrival);
      if (/^(minute|hour|day)s$/.test(unit))
        return (await this.rows<Cutoff>(sql.ageCutoff(table.keep)))[0]?.cutoff ?? null;
      const [about] = await this.rows<{ rows: string }>(sql.estimated, [leaf.oid]);
      const rows = Number(about?.rows ?? 0);
      const most = unit === 'rows' ? count : await this.#rowsWithin(table.keep, leaf, looked, rows);
      // Counted only if it is worth it.
      if (!/^\d+$/.test(most) || rows <= Number(most) * 1.01) return null;
      return (await this.#said(leaf, looked, sql.rowsCutoff(leaf.name, arrival, most))) || null;
    });
  }

  /** Empty: not known, because there are no rows. */
  async #rowsWithin(keep: string, leaf: Leaf, looked: Looked, rows: number): Promise<string> {
    const [of] = await this.rows<{ size: string }>(sql.rowSize, [leaf.oid]);
    return this.#said(leaf, looked, sql.rowsWithin(leaf.name, of?.size ?? '28', keep, rows));
  }

  /** Runs a statement about the table and returns its value. */
  async #said(leaf: Leaf, looked: Looked, statement: string): Promise<string> {
    if (looked.trusted) {
      const [found] = await this.rows<Said>(statement);
      this.#isUsed ||= looked.joined;
      if (looked.joined) await this.#query(sql.staysSafe(leaf));
      return found?.said ?? '';
    }
    const { role } = looked;
    if (!(await this.#isFit(looked))) {
      await this.rows(makeExecutorSql(role, looked));
      // Somebody else's schema of that name would lead to functions of his.
      if (!(await this.#isFit(looked))) throw new Left(reasons.unfit(executorSchema(role)));
    }
    this.#isUsed = true;
    await this.#query(sql.pins);
    await this.rows(sql.asOwner(looked), [leaf.name, leaf.oid, looked.version, statement, null, '', null]);
    return (await this.rows<Said>(sql.saidThere))[0]?.said ?? '';
  }

  async #isFit(looked: Looked): Promise<boolean> {
    return (await this.rows<{ fit: boolean }>(sql.fit(looked)))[0]?.fit === true;
  }

  async #safe(leaf: Leaf, arrival: string): Promise<Looked> {
    await this.rows(sql.lock(leaf.name));
    const [found] = await this.rows<Looked>(sql.looked(leaf, arrival));
    if (found?.same !== true) throw new Left(null);
    if (found.stranger !== null) throw new Left(reasons.stranger(found.stranger));
    if (found.landlord !== null) throw new Left(reasons.landlord(found.landlord));
    if (!found.trusted && !found.assumable) throw new Left(reasons.owner(found));
    if (!found.timed) throw new Left(reasons.noTime);
    return found;
  }

  async #remove(
    table: KeptTable,
    leaf: Leaf,
    bounds: Bounds,
    pass: { id: string | null; readonly rows: number },
    how: (leaf: Leaf, arrival: string, bounds: Bounds, looked: Looked) => Promise<number>,
  ): Promise<number> {
    const { oid, schema, table: name, keep, arrival } = table;
    bounds.over = arrival === null || (await this.#query(sql.myTurn)).rowCount === 0;
    if (arrival === null || bounds.over) return 0;
    const removed = await how(leaf, arrival, bounds, await this.#safe(leaf, arrival));
    if (removed === 0) return 0;
    if (pass.id !== null) await this.rows(sql.loggedMore, [pass.id, removed]);
    else {
      const [row] = await this.rows<{ id: string }>(sql.logged, [
        oid,
        schema,
        name,
        keep,
        removed,
        bounds.cutoff,
        null,
      ]);
      pass.id = row?.id ?? null;
    }
    return removed;
  }

  readonly #delete = async (leaf: Leaf, arrival: string, bounds: Bounds, looked: Looked): Promise<number> => {
    const { clock, limits } = this.#options;
    const { indexed } = looked;
    if (indexed) await this.rows(sql.byIndex);
    // Without an index each statement reads the table from its beginning.
    const most = indexed ? limits.keepPieceRowsMax : limits.keepBatchRowsMax;
    const until = clock() + limits.keepBatchMs;
    let removed = 0;
    for (;;) {
      const began = clock();
      const { cutoff, from } = bounds;
      const said = await this.#said(
        leaf,
        looked,
        sql.remove(leaf.name, arrival, cutoff, from, indexed, most),
      );
      const [, gone = '0', last = ''] = /^(\d+) ?(.*)$/.exec(said) ?? [];
      const rows = Math.min(most, Number(gone));
      removed += rows;
      if (last !== '') bounds.from = last;
      bounds.over = rows < most;
      bounds.restMs = Math.max(limits.keepRestMs, (clock() - began) * limits.keepRestTimes);
      // If the rest does not fit into the transaction, it happens without the lock.
      if (bounds.over || removed >= limits.keepBatchRowsMax || clock() + bounds.restMs > until)
        return removed;
      await this.#rest(bounds);
    }
  };

  /** Empties a partition as a whole if all of its rows are too old. Returns about how many they were. */
  readonly #empty = async (
    { oid, name }: Leaf,
    arrival: string,
    { cutoff }: Bounds,
    { trusted }: Looked,
  ): Promise<number> => {
    if (!trusted) return 0;
    await this.rows(sql.plainBounds);
    const [found] = await this.rows<{ rows: string }>(sql.outlived(name), [oid, arrival, cutoff]);
    if (found !== undefined) await this.rows(sql.empty(name));
    return Number(found?.rows ?? 0);
  };

  async #told(table: KeptTable, error: unknown): Promise<void> {
    const { oid, schema, table: name, keep } = table;
    const reason = error instanceof Left ? error.why : error instanceof Error ? error.message : String(error);
    if (reason === null || this.#signal.aborted) return;
    const told = await this.transaction(() =>
      this.rows(sql.logged, [oid, schema, name, keep, 0, null, reason.slice(0, 1_000)]),
    );
    if (told.length > 0) this.#options.observe({ kind: 'keep.refused', table: this.#name(table), reason });
  }

  /** Only the signal makes this pause fail. */
  async #rest({ restMs }: Bounds): Promise<void> {
    await pause(restMs, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}

/** Somebody reads the partition: its rows are removed one by one. */
function ifHeld(error: unknown): number {
  if ((error as { code?: string }).code === lockNotAvailable) return 0;
  throw error;
}

/** The rows to be removed in a turn: all before `cutoff`; those before `from` are gone, or left to the next turn. */
interface Bounds extends Cutoff {
  from: string;
  /** There are no more, or another Headgate removes them. */
  over: boolean;
  /** How long to rest before the next rows. */
  restMs: number;
}
