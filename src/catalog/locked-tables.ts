/**
 * Tables that a reading has to leave out: somebody keeps them locked, or the engine fails to read them, as when it cannot print a default because that is
 * nested too deeply. They are read around: what concerns one role's tables must not concern the others. Takes what reads tables; returns what it read,
 * and what was left out; throws what has to do with no table.
 */
import type { ClientBase } from 'pg';
import { faultOf, isConnectionLost, lockNotAvailable, sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import { listed, oidsOf, pinned, readTables } from './queries.ts';
import type { TableRows } from './queries.ts';

/** Reads these tables, by oid. */
type Read<T> = (oids: readonly number[]) => Promise<T>;

/** Tables, by oid, that the engine failed to read, with its reason. */
type Faulty = ReadonlyMap<number, string>;

/** What was left out of a reading. */
interface LeftOut {
  readonly locked: readonly number[];
  readonly faulty: Faulty;
}

/** What was left out of the last reading, which the next one begins with. */
export class LeftOutTables {
  readonly #context: Pick<StageContext, 'clock' | 'limits'>;
  #left: LeftOut = { locked: [], faulty: new Map() };
  /** When the first of the faulty tables was left out. */
  #faultyAtMs = 0;

  constructor(context: Pick<StageContext, 'clock' | 'limits'>) {
    this.#context = context;
  }

  /** By oid. */
  get locked(): readonly number[] {
    return this.#left.locked;
  }

  /** `locked`, or what the engine says; null: the table was not left out. */
  why(oid: number): string | null {
    return this.#left.faulty.get(oid) ?? (this.#left.locked.includes(oid) ? 'locked' : null);
  }

  /** Reads these tables but for those that have to be left out. Throws the engine's error if that has to do with no table. */
  async readOthers(client: ClientBase, oids: readonly number[]): Promise<TableRows> {
    const { clock } = this.#context;
    const { read: rows, ...left } = await readAround(client, oids, this.#known(), (which) =>
      readTables(client, which),
    );
    if (this.#left.faulty.size === 0 || left.faulty.size === 0) this.#faultyAtMs = clock();
    this.#left = left;
    return rows;
  }

  async isAnyFree(client: ClientBase): Promise<boolean> {
    const locked = new Set(this.#left.locked.length > 0 ? await readLocked(client) : []);
    return this.#left.locked.some((oid) => !locked.has(oid));
  }

  /** Faulty tables are left out without another try for some time, whatever becomes of them: finding them takes many readings. */
  #known(): LeftOut {
    const { clock, limits } = this.#context;
    const isDue = clock() - this.#faultyAtMs > limits.catalogWholeMs;
    if (isDue) this.#faultyAtMs = clock();
    return isDue ? { ...this.#left, faulty: new Map() } : this.#left;
  }
}

/**
 * Reads these tables but for those of `known` that are still locked, or were found to be faulty. If others turn out to be locked, without all
 * that are; if the engine fails, without those that it fails to read. If that happens again, then also without everything else of their owners, who
 * may lock or spoil one table after the other. Throws what `read` throws if that has to do with no table.
 */
export async function readAround<T>(
  client: ClientBase,
  oids: readonly number[],
  known: LeftOut,
  read: Read<T>,
): Promise<LeftOut & { readonly read: T }> {
  const still = new Set(known.locked.length === 0 ? [] : await readLocked(client));
  let locked = known.locked.filter((oid) => still.has(oid));
  let { faulty } = known;
  for (let attempt = 1; ; attempt++) {
    const left = oids.filter((oid) => !locked.includes(oid) && !faulty.has(oid));
    try {
      return { read: await read(left), locked, faulty };
    } catch (error) {
      if (!isOfTables(error) || attempt === limits.catalogAroundAttemptsMax) throw error;
      if (sqlstateOf(error) === lockNotAvailable) {
        locked = [...new Set([...locked, ...(await readLocked(client))])];
        if (attempt > 1) locked = await readOthersOf(client, locked);
        continue;
      }
      faulty = new Map([...faulty, ...(await findFaulty(await readOwners(client, left), read))]);
      if (attempt === 1) continue;
      const all = await readOthersOf(client, [...faulty.keys()]);
      faulty = new Map([...all.map((oid) => [oid, error.message] as const), ...faulty]);
    }
  }
}

/** Not what any statement may meet at that moment, as when the server has no memory for locks: then no table is at fault. */
function isOfTables(error: unknown): error is Error {
  const state = sqlstateOf(error);
  if (state === null || isConnectionLost(error)) return false;
  return state === lockNotAvailable || !['engine', 'conflict'].includes(faultOf(state));
}

/**
 * Those of these tables that the engine fails to read, found by halves. If it fails for some of one owner, all others of that owner count as well,
 * unread: the time that one role can take for itself is bounded.
 */
async function findFaulty<T>(tables: readonly OwnedTable[], read: Read<T>): Promise<Faulty> {
  const faulty = new Map<number, string>();
  const failures = new Map<number, number>();
  const halves = [tables];
  for (let part = halves.pop(); part !== undefined; part = halves.pop()) {
    const [first, ...others] = part;
    const reason = first === undefined ? null : await failureOf(part, read);
    if (first === undefined || reason === null) continue;
    if (others.length > 0) {
      const middle = Math.ceil(part.length / 2);
      halves.push(part.slice(middle), part.slice(0, middle));
      continue;
    }
    const { owner } = first;
    const count = (failures.get(owner) ?? 0) + 1;
    failures.set(owner, count);
    faulty.set(first.relation, reason);
    if (count < limits.catalogFaultyMax) continue;
    for (const table of tables) if (table.owner === owner) faulty.set(table.relation, reason);
    for (const [i, half] of halves.entries()) halves[i] = half.filter((table) => table.owner !== owner);
  }
  return faulty;
}

/** null: these can be read. */
async function failureOf<T>(part: readonly OwnedTable[], read: Read<T>): Promise<string | null> {
  try {
    await read(part.map(({ relation }) => relation));
    return null;
  } catch (error) {
    if (!isOfTables(error)) throw error;
    return error.message;
  }
}

/** Webhook tables, by oid, that somebody has locked against readers, or waits to lock. PostgreSQL prints no expression of such a table. */
function readLocked(client: ClientBase): Promise<number[]> {
  return oidsOf(
    client,
    `select w.relation::pg_catalog.oid as relation from headgate.webhook_table w where w.relation in (
    select l.relation from pg_catalog.pg_locks l join pg_catalog.pg_database d on d.oid = l.database
    where d.datname = pg_catalog.current_database() and l.locktype = 'relation' and l.mode = 'AccessExclusiveLock')`,
  );
}

/** All webhook tables, by oid, that belong to the owners of these. */
function readOthersOf(client: ClientBase, oids: readonly number[]): Promise<number[]> {
  return oidsOf(
    client,
    `select o.oid as relation from headgate.webhook_table w join pg_catalog.pg_class o on o.oid = w.relation
    where o.relowner in (select c.relowner from pg_catalog.pg_class c where c.oid = any (${listed(oids)}))`,
  );
}

interface OwnedTable {
  readonly relation: number;
  readonly owner: number;
}

/** Those of these tables that exist, with their owners, those of one owner together. */
function readOwners(client: ClientBase, oids: readonly number[]): Promise<readonly OwnedTable[]> {
  return pinned(
    client,
    `select c.oid as relation, c.relowner as owner from pg_catalog.pg_class c where c.oid = any (${listed(oids)}) order by c.relowner, c.oid`,
  );
}
