/**
 * How far a table was read: a number of PostgreSQL's transactions, below which all have ended. Rows of transactions from one
 * position up to the next are new, each once, whatever order they were committed in. A transaction that writes and stays
 * open holds the position where it is; a row that was updated is new again. Pure.
 *
 * Rows hold the last 32 bits of the number, so that what was stored four thousand million transactions ago looks new again.
 */

/** 64 bits, as text. */
export const positionNow = 'SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS position';

/** How many transactions behind `from` a row of `t` was written. */
export function distanceFrom(from: bigint): string {
  const low = from % 4_294_967_296n;
  return `mod(t.xmin::text::bigint - ${low} + 4294967296, 4294967296)`;
}

/** A condition of WHERE. */
export function writtenBetween(from: bigint, until: bigint): string {
  return `${distanceFrom(from)} < ${until - from}`;
}

/** null: it is none. */
export function parsePosition(text: string): bigint | null {
  return /^\d{1,19}$/.test(text.trim()) ? BigInt(text.trim()) : null;
}
