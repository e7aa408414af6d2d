/**
 * How far a table was read: a transaction number of PostgreSQL below which all transactions have ended. Rows of transactions
 * from one position up to the next are new, each once, in whatever order they were committed. A transaction that writes and stays
 * open holds the position where it is; an updated row is new again. Queries the database through the functions it is given.
 *
 * Rows hold the last 32 bits of the number, so a row stored 2^32 transactions ago looks new again.
 */
import { setTimeout as pause } from 'node:timers/promises';

/** The position as text: 64 bits; then how much log there is, and how much of it is on the disk, in bytes (null: on a standby, where all is). */
export const positionNow = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS position,
  CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text END AS written,
  CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::text END AS flushed`;

/**
 * A session that only reads may write to the log, too (it removes dead rows), and nobody waits for that: if nothing commits, it reaches
 * the disk late. A transaction with a number and nothing else makes the server write the log soon, and waits for nothing itself, not even a standby.
 */
const flushSoon = 'SELECT pg_catalog.pg_current_xact_id()';

/** How much log there is, and how much of it is on the disk; null: on a standby. */
interface LogNow {
  readonly written: string | null;
  readonly flushed: string | null;
}

interface FlushBounds {
  readonly streamFlushMs: number;
  readonly streamFlushPauseMs: number;
  /** After how long the server is asked to write the log. */
  readonly streamFlushAskMs: number;
}

/**
 * Returns the first answer once the log that existed then is on the disk: after a crash, later numbers may be given out again. null: it takes
 * too long. `run` runs a statement whose result is ignored.
 */
export async function onceOnDisk<T extends LogNow>(
  ask: () => Promise<T>,
  run: (sql: string) => Promise<unknown>,
  { streamFlushMs, streamFlushPauseMs, streamFlushAskMs }: FlushBounds,
): Promise<T | null> {
  const first = await ask();
  const written = BigInt(first.written ?? 0);
  let now: LogNow = first;
  for (let waitedMs = 0; BigInt(now.flushed ?? 0) < written; waitedMs += streamFlushPauseMs) {
    if (waitedMs > streamFlushMs) return null;
    if (waitedMs === streamFlushAskMs) await run(flushSoon);
    await pause(streamFlushPauseMs);
    now = await ask();
  }
  return first;
}

/** The largest distance that age() can tell, in transactions. */
export const distanceMax = 2n ** 31n - 1n;

/** A WHERE condition on the rows of `t`. `from` null, or too far away for age(), means all that was written before `until`. */
export function writtenBetween(from: bigint | null, until: bigint): string {
  if (from === null || until - from > distanceMax)
    return `pg_catalog.age(t.xmin) NOT BETWEEN 0 AND ${ageOf(until)}`;
  return `pg_catalog.age(t.xmin) <= ${ageOf(from)} AND pg_catalog.age(t.xmin) > ${ageOf(until)}`;
}

/** Numbers below 3 are special, and have no age. */
function ageOf(position: bigint): string {
  const low = position % 4_294_967_296n;
  return `pg_catalog.age('${low < 3n ? 3n : low}'::pg_catalog.xid)`;
}

/** null: the text is no position. */
export function parsePosition(text: string): bigint | null {
  return /^\d{1,19}$/.test(text.trim()) ? BigInt(text.trim()) : null;
}
