/**
 * Removes rows of webhook tables that are kept for a time (keep = '90 days'), up to a number ('1000000 rows') or up to a size ('10 GB'). Takes
 * the engine and the databases that are served; gives nothing but observations and rows of headgate.kept; refuses nothing.
 *
 * It works in the background, over one connection per database and one for the owner of the table in turn, which are open while it works: small transactions, each under a lock that no
 * commit waits for, in pieces of about a millisecond, with a rest after each. Every statement about a table may run code of its owner, if only
 * when PostgreSQL plans it: it runs in a session of the owner. If there can be none, no rows are removed, and this is reported.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Engine } from '../engine/engine.ts';
import { lockNotAvailable } from '../engine/sqlstate.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import type { OwnerLogins } from '../engine/owner-logins.ts';
import { DatabaseLoop } from '../kit/database-loop.ts';
import { rowConditionProblem } from '../kit/row-condition.ts';
import * as sql from './statements.ts';
import type { Cutoff, KeptTable, Leaf, LockedTable, ReportedReason } from './statements.ts';
import { connected, ownLogin } from './row-sessions.ts';
import type { RowSession } from './row-sessions.ts';

interface RetentionOptions {
  readonly engine: Pick<Engine, 'clientConfig' | 'unavailable'>;
  /** Makes the sessions of owners. */
  readonly logins: OwnerLogins;
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

export class Retention extends DatabaseLoop {
  readonly #options: RetentionOptions;

  constructor(options: RetentionOptions) {
    super();
    this.#options = options;
  }

  protected override async run(database: string, signal: AbortSignal): Promise<void> {
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
  options: RetentionOptions,
  signal: AbortSignal,
): Promise<boolean> {
  let isLeft = false;
  let broken: unknown = null;
  let tables: KeptTable[] | null = null;
  const time = new OwnersTime(options.limits.keepOwnerMs, options.clock);
  const pass = async (own: RowSession): Promise<void> => {
    tables ??= await own.transaction(() => own.rows<KeptTable>(sql.keptTables));
    if (tables.length === 0) return;
    for (let table = tables.shift(); table !== undefined && !signal.aborted; table = tables.shift()) {
      const keeping = new Keeping(database, table, own, options, signal);
      isLeft = (await time.take(table.owner, () => keeping.run())) || isLeft;
    }
    await own.transaction(() => own.rows(sql.trimmed));
  };
  // Code of an owner can end the connection: the following tables are handled over another one.
  for (let before = Infinity; ;) {
    try {
      await connected(database, ownLogin(options, database), options, signal, pass);
      if (broken === null) return isLeft;
    } catch (error) {
      broken ??= error;
    }
    const left = (tables as KeptTable[] | null)?.length ?? 0;
    if (left === 0 || left === before || signal.aborted) throw broken;
    before = left;
  }
}

/** One table in one pass. */
class Keeping {
  readonly #database: string;
  readonly #table: KeptTable;
  /** A session of Headgate's role: for what is Headgate's own. */
  readonly #own: RowSession;
  readonly #options: RetentionOptions;
  readonly #signal: AbortSignal;
  #id: string | null = null;
  #removed = 0;

  constructor(
    database: string,
    table: KeptTable,
    own: RowSession,
    options: RetentionOptions,
    signal: AbortSignal,
  ) {
    this.#database = database;
    this.#table = table;
    this.#own = own;
    this.#options = options;
    this.#signal = signal;
  }

  /** Whether its turn ended before all rows that have to go were removed. */
  async run(): Promise<boolean> {
    const { observe, logins } = this.#options;
    const { owner, own } = this.#table;
    let isLeft = false;
    try {
      const login = await (own
        ? ownLogin(this.#options, this.#database)
        : logins.owner(this.#database, Number(owner)));
      isLeft = await connected(this.#database, login, this.#options, this.#signal, (rows) =>
        this.#keep(rows),
      );
    } catch (error) {
      const { code } = error as { code?: string };
      const why = code === '57014' ? reasons.slow : code === lockNotAvailable ? reasons.held : null;
      if (code !== 'HG001')
        await this.#told(why === null ? error : new NotRemoved(why)).catch(() => Promise.reject(error));
    }
    if (this.#removed > 0)
      observe({ kind: 'keep.removed', table: this.#name(this.#table), rows: this.#removed });
    return isLeft;
  }

  /** `rows`: a session of the table's owner. */
  async #keep(rows: RowSession): Promise<boolean> {
    const { clock, limits } = this.#options;
    const table = this.#table;
    const until = clock() + limits.keepTurnMs;
    const problem = table.condition === null ? null : rowConditionProblem(table.condition);
    if (problem !== null) throw new NotRemoved(reasons.condition(problem));
    let isLeft = false;
    for (const leaf of await this.#own.transaction(() => this.#own.rows<Leaf>(sql.leaves, [table.oid]))) {
      const cutoff = await this.#cutoff(rows, leaf);
      if (cutoff === null) continue;
      const bounds = { cutoff, from: '-infinity', over: false, restMs: 0 };
      // A partition may hold rows for which the condition is not true.
      if (table.condition === null) await this.#remove(rows, leaf, bounds, this.#empty).catch(ifHeld);
      while (!bounds.over && clock() < until && !this.#signal.aborted) {
        await this.#remove(rows, leaf, bounds, this.#delete);
        if (!bounds.over) await this.#rest(bounds);
      }
      isLeft ||= !bounds.over;
    }
    return isLeft;
  }

  #name({ schema, table }: KeptTable): TableName {
    return { database: this.#database, schema, table };
  }

  /** null: nothing has to be removed. */
  async #cutoff(session: RowSession, leaf: Leaf): Promise<string | null> {
    const { keep, arrival } = this.#table;
    const [, count = '', unit = ''] = /^(\d+) (\w+)$/.exec(keep) ?? [];
    if (arrival === null) throw new NotRemoved(reasons.noTime);
    return session.transaction(async () => {
      await this.#safe(session, leaf, arrival);
      if (/^(minute|hour|day)s$/.test(unit))
        return (await session.rows<Cutoff>(sql.ageCutoff(keep)))[0]?.cutoff ?? null;
      const [about] = await session.rows<{ rows: string }>(sql.estimated, [leaf.oid]);
      const rows = Number(about?.rows ?? 0);
      const most = unit === 'rows' ? count : await rowsWithin(session, keep, leaf, rows);
      // Counted only if it is worth it.
      if (!/^\d+$/.test(most) || rows <= Number(most) * 1.01) return null;
      return (await said(session, sql.rowsCutoff(leaf, arrival, most))) || null;
    });
  }

  async #safe(session: RowSession, leaf: Leaf, arrival: string): Promise<LockedTable> {
    await session.rows(sql.hold(leaf, this.#table));
    const [found] = await session.rows<LockedTable>(sql.looked(leaf, arrival, this.#table));
    if (found?.same !== true) throw new NotRemoved(null);
    if (found.landlord !== null) throw new NotRemoved(reasons.landlord(found.landlord));
    if (!found.timed) throw new NotRemoved(reasons.noTime);
    if (found.strange !== null) throw new NotRemoved(reasons.strange(found.strange));
    return found;
  }

  /** In a transaction of the owner's, while one of Headgate's holds the turn and logs it. */
  async #remove(
    session: RowSession,
    leaf: Leaf,
    bounds: TurnBounds,
    how: (
      session: RowSession,
      leaf: Leaf,
      arrival: string,
      bounds: TurnBounds,
      looked: LockedTable,
    ) => Promise<number>,
  ): Promise<void> {
    const { oid, schema, table: name, keep, arrival } = this.#table;
    const own = this.#own;
    await own.transaction(async () => {
      bounds.over = arrival === null || (await own.query(sql.myTurn)).rowCount === 0;
      if (arrival === null || bounds.over) return;
      const removed = await session.transaction(async () =>
        how(session, leaf, arrival, bounds, await this.#safe(session, leaf, arrival)),
      );
      if (removed === 0) return;
      this.#removed += removed;
      if (this.#id !== null) await own.rows(sql.loggedMore, [this.#id, removed]);
      else {
        const values = [oid, schema, name, keep, removed, bounds.cutoff, null];
        const [row] = await own.rows<{ id: string }>(sql.logged, values);
        this.#id = row?.id ?? null;
      }
    }, sql.beginLong);
  }

  readonly #delete = async (
    session: RowSession,
    leaf: Leaf,
    arrival: string,
    bounds: TurnBounds,
    looked: LockedTable,
  ): Promise<number> => {
    const { clock, limits } = this.#options;
    const { indexed } = looked;
    if (indexed) await session.rows(sql.byIndex);
    // Without an index each statement reads the table from its beginning.
    const most = indexed ? limits.keepPieceRowsMax : limits.keepBatchRowsMax;
    const until = clock() + limits.keepBatchMs;
    let removed = 0;
    for (;;) {
      const began = clock();
      const { cutoff, from } = bounds;
      const answer = await said(
        session,
        sql.remove(leaf, arrival, cutoff, from, looked, most, this.#table.condition),
      );
      const [, gone = '0', last = ''] = /^(\d+) ?(.*)$/.exec(answer) ?? [];
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
    session: RowSession,
    { oid, name }: Leaf,
    arrival: string,
    { cutoff }: TurnBounds,
    { rented }: LockedTable,
  ): Promise<number> => {
    if (rented) return 0;
    await session.rows(sql.plainBounds);
    const [found] = await session.rows<{ rows: string }>(sql.outlived(name), [oid, arrival, cutoff]);
    if (found !== undefined) await session.rows(sql.empty(name));
    return Number(found?.rows ?? 0);
  };

  async #told(error: unknown): Promise<void> {
    const { oid, schema, table: name, keep } = this.#table;
    const reason =
      error instanceof NotRemoved ? error.why : error instanceof Error ? error.message : String(error);
    if (reason === null || this.#signal.aborted) return;
    const values = [oid, schema, name, keep, 0, null, reason.slice(0, 1_000)];
    const told = await this.#own.transaction(() => this.#own.rows(sql.logged, values));
    if (told.length > 0)
      this.#options.observe({ kind: 'keep.refused', table: this.#name(this.#table), reason });
  }

  /** Only the signal makes this pause fail. */
  async #rest({ restMs }: TurnBounds): Promise<void> {
    await pause(restMs, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}

/** Runs a statement about the table, which may run code of its owner, and returns its value. */
async function said(session: RowSession, statement: string): Promise<string> {
  const [found] = await session.rows<ReportedReason>(statement);
  await session.query(sql.again);
  return (found?.said ?? '').slice(0, 100);
}

/** Empty: not known, because there are no rows. */
async function rowsWithin(session: RowSession, keep: string, leaf: Leaf, rows: number): Promise<string> {
  const [of] = await session.rows<{ size: string }>(sql.rowSize, [leaf.oid]);
  return said(session, sql.rowsWithin(leaf, of?.size ?? '28', keep, rows));
}

/** Somebody reads the partition: its rows are removed one by one. */
function ifHeld(error: unknown): void {
  if ((error as { code?: string }).code !== lockNotAvailable) throw error;
}

/** The rows to be removed in a turn: all before `cutoff`; those before `from` are gone, or left to the next turn. */
interface TurnBounds extends Cutoff {
  from: string;
  /** There are no more, or another Headgate removes them. */
  over: boolean;
  /** How long to rest before the next rows. */
  restMs: number;
}

/** How much time of a pass the tables of each owner may take: code of one owner that is slow must not keep the tables of others from their turn. */
class OwnersTime {
  readonly #mostMs: number;
  readonly #clock: () => number;
  readonly #spentMs = new Map<string, number>();

  /** `clock`: a monotonic one, ms. */
  constructor(mostMs: number, clock: () => number) {
    this.#mostMs = mostMs;
    this.#clock = clock;
  }

  /** What `work` on a table of this owner resolves with, or true, there is something left, if the owner's time is over. */
  async take(owner: string, work: () => Promise<boolean>): Promise<boolean> {
    const spentMs = this.#spentMs.get(owner) ?? 0;
    if (spentMs > this.#mostMs) return true;
    const beganMs = this.#clock();
    try {
      return await work();
    } finally {
      this.#spentMs.set(owner, spentMs + this.#clock() - beganMs);
    }
  }
}

/** What is said in headgate.kept, for the owner of the table, if rows of it are not removed. */
const reasons = {
  noTime: 'no column takes the time of arrival: INCLUDE TIMESTAMP AS column, of type TIMESTAMPTZ',
  landlord: (name: string) =>
    `its schema belongs to role "${name}", which could put another table in its place`,
  held: 'somebody holds a lock on the table, or on rows that could not be passed over: the next turn tries again',
  condition: (problem: string) => `keep_if is no condition on a row: ${problem}`,
  strange: (name: string) =>
    `keep_if names column "${name}", whose type is not PostgreSQL's own: its casts could be code of another role`,
  slow: 'finding the oldest rows takes too long: CREATE INDEX on the column of their arrival',
} as const;

/** Why the rows of a table are not removed for now; null: it is no longer the table that was meant. */
class NotRemoved extends Error {
  readonly why: string | null;

  constructor(why: string | null) {
    super(why ?? 'changed');
    this.why = why;
  }
}
