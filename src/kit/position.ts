/**
 * How far a table was read: a number of PostgreSQL's transactions, below which all have ended. Rows of transactions from one
 * position up to the next are new, each once, whatever order they were committed in. A transaction that writes and stays
 * open holds the position where it is; a row that was updated is new again. Asks by the functions it is given.
 *
 * Rows hold the last 32 bits of the number, so that what was stored four thousand million transactions ago looks new again.
 */
import { setTimeout as pause } from 'node:timers/promises';

/** As text: 64 bits; then how much of the log there is, and how much of it is on the disk, in bytes (null: on a standby, where all is). */
export const positionNow = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS position,
  CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text END AS written,
  CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::text END AS flushed`;

/**
 * Whoever only reads may write to the log as well (dead rows are cleared away), and nobody waits for that: where nothing commits it comes to
 * the disk late. A transaction with a number and nothing else has the log written soon, and does not wait itself, for no standby either.
 */
const flushSoon = 'SELECT pg_catalog.pg_current_xact_id()';

/** How much of the log there is, and how much of it is on the disk; null: on a standby. */
interface LogNow {
  readonly written: string | null;
  readonly flushed: string | null;
}

interface FlushBounds {
  readonly streamFlushMs: number;
  readonly streamFlushPauseMs: number;
  /** From when on the log is asked for. */
  readonly streamFlushAskMs: number;
}

/**
 * The first answer, once the log that there was then is on the disk: a crash may give later numbers out again. null: that takes too long.
 * `run` runs a statement whose answer is nobody's.
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

/** What age() can tell apart, in transactions. */
export const distanceMax = 2n ** 31n - 1n;

/** A condition of WHERE on the rows of `t`. `from`: null, or further away than can be told, is all that was written before `until`. */
export function writtenBetween(from: bigint | null, until: bigint): string {
  if (from === null || until - from > distanceMax)
    return `pg_catalog.age(t.xmin) NOT BETWEEN 0 AND ${ageOf(until)}`;
  return `pg_catalog.age(t.xmin) <= ${ageOf(from)} AND pg_catalog.age(t.xmin) > ${ageOf(until)}`;
}

/** Numbers below 3 have a meaning of their own, of whatever age. */
function ageOf(position: bigint): string {
  const low = position % 4_294_967_296n;
  return `pg_catalog.age('${low < 3n ? 3n : low}'::pg_catalog.xid)`;
}

/** null: it is none. */
export function parsePosition(text: string): bigint | null {
  return /^\d{1,19}$/.test(text.trim()) ? BigInt(text.trim()) : null;
}
