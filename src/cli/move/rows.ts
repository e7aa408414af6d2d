/**
 * Copies the rows of one table in two parts that never overlap. `boundary` is a transaction id before which every transaction had
 * ended when it was chosen. Rows of older transactions are copied while the source goes on writing, those of later ones after it
 * has stopped.
 *
 *   waiting ──copyOld──► copied ──copyNew──► complete        each arrow is one target transaction, which also writes its mark
 *
 * A row that is changed or deleted meanwhile leaves its old version in the target. In a table with a primary key the new version
 * replaces it; any other leftover shows in the row count, and the whole table is then copied again.
 */
import type { Client } from 'pg';
import { sqlstateOf } from '../../engine/sqlstate.ts';
import { pipeRows } from './pipe.ts';
import { MoveError } from './statements.ts';

export interface MovedRows {
  /** Of the table, qualified and quoted. */
  readonly name: string;
  /** Quoted, without generated columns. */
  readonly columns: readonly string[];
  /** Of the primary key; empty if there is none. */
  readonly key: readonly string[];
  /** Which of its rows are moved, as SQL about `t`; absent: all. */
  readonly only?: string;
}

export interface MovedTable extends MovedRows {
  readonly oid: string;
}

export interface Sides {
  readonly source: Client;
  readonly target: Client;
}

/** Which of the two parts a row belongs to: transaction ids are compared as PostgreSQL does it, on a circle. */
const isNew = (boundary: string) => `((t.xmin::text::int8 - (${boundary})) & 4294967295) < 2147483648`;

/** Every transaction before this one has ended. */
async function boundaryNow(source: Client): Promise<string> {
  const { rows } = await source.query<{ boundary: string }>(
    'SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric % 4294967296)::text AS boundary',
  );
  return rows[0]?.boundary ?? '0';
}

export async function copyOld({ source, target }: Sides, table: MovedRows): Promise<number> {
  const boundary = await boundaryNow(source);
  return inTransaction(target, async () => {
    const rows = await pipe({ source, target }, table, `NOT ${isNew(boundary)}`, table.name);
    await target.query('INSERT INTO headgate_move.table_state (name, boundary) VALUES ($1, $2)', [
      table.name,
      boundary,
    ]);
    return rows;
  });
}

/** Since which transaction rows of the table are to be copied. */
async function copiedBefore({ target }: Sides, { name }: MovedRows): Promise<string> {
  const { rows } = await target.query<{ boundary: string }>(
    'SELECT boundary FROM headgate_move.table_state WHERE name = $1',
    [name],
  );
  const from = rows[0]?.boundary;
  if (from === undefined) throw new MoveError(`table ${name} is new: run the move again`);
  return from;
}

/** As copyNew, for a table with a key in which rows that the source has deleted meanwhile may stay. */
export async function copyAdded(sides: Sides, table: MovedRows): Promise<number> {
  const from = await copiedBefore(sides, table);
  const boundary = await boundaryNow(sides.source);
  return inTransaction(sides.target, () => applyNew(sides, table, from, boundary));
}

/** The source must have stopped writing. Returns the number of rows copied. */
export async function copyNew(sides: Sides, table: MovedRows): Promise<number> {
  const { target } = sides;
  const from = await copiedBefore(sides, table);
  const boundary = await boundaryNow(sides.source);
  let rows: number | null = null;
  try {
    rows = await inTransaction(target, () => applyNew(sides, table, from, boundary));
  } catch (error) {
    // A new row may conflict with the old version of another row; a copy of the whole table has no such conflicts.
    if (sqlstateOf(error)?.startsWith('23') !== true) throw error;
  }
  if (rows !== null && (await sameCount(sides, table))) return rows;
  const all = await inTransaction(target, async () => {
    await target.query(`TRUNCATE ${table.name}`);
    await remember(target, table, boundary);
    return pipe(sides, table, 'true', table.name);
  });
  if (!(await sameCount(sides, table)))
    throw new MoveError(`table ${table.name} has other rows in the target: is something writing to it?`);
  return all;
}

async function applyNew(sides: Sides, table: MovedRows, from: string, boundary: string): Promise<number> {
  const { target } = sides;
  await remember(target, table, boundary);
  const fresh = isNew(from);
  if (table.key.length === 0) return pipe(sides, table, fresh, table.name);
  const columns = table.columns.join(', ');
  await target.query(
    `CREATE TEMPORARY TABLE moved ON COMMIT DROP AS SELECT ${columns} FROM ${table.name} WITH NO DATA`,
  );
  const rows = await pipe(sides, table, fresh, 'pg_temp.moved');
  // Complete rows are stored first, so that PostgreSQL computes generated columns of the key.
  await target.query(`CREATE TEMPORARY TABLE whole (LIKE ${table.name} INCLUDING GENERATED) ON COMMIT DROP`);
  await target.query(
    `INSERT INTO pg_temp.whole (${columns}) OVERRIDING SYSTEM VALUE SELECT ${columns} FROM pg_temp.moved`,
  );
  const same = table.key.map((column) => `t.${column} = w.${column}`).join(' AND ');
  await target.query(`DELETE FROM ${table.name} t USING pg_temp.whole w WHERE ${same}`);
  await target.query(
    `INSERT INTO ${table.name} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${columns} FROM pg_temp.moved`,
  );
  return rows;
}

function remember(target: Client, { name }: MovedRows, boundary: string): Promise<unknown> {
  return target.query('UPDATE headgate_move.table_state SET boundary = $2 WHERE name = $1', [name, boundary]);
}

function pipe(
  { source, target }: Sides,
  { name, columns, only = 'true' }: MovedRows,
  which: string,
  into: string,
) {
  const list = columns.join(', ');
  const target_ = columns.length === 0 ? into : `${into} (${list})`;
  return pipeRows(
    source,
    `COPY (SELECT ${list} FROM ONLY ${name} t WHERE ${which} AND ${only}) TO STDOUT`,
    target,
    `COPY ${target_} FROM STDIN`,
  );
}

async function sameCount({ source, target }: Sides, { name }: MovedRows): Promise<boolean> {
  const count = async (side: Client) =>
    (await side.query<{ n: string }>(`SELECT count(*)::text AS n FROM ONLY ${name}`)).rows[0]?.n;
  const [here, there] = await Promise.all([count(source), count(target)]);
  return here === there;
}

export async function inTransaction<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query('BEGIN');
  try {
    const result = await work();
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
