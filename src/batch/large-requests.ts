/**
 * The side track: large requests that have no order to keep are committed at the same time as the small ones of their table,
 * which would otherwise wait for as long as a million rows take. Only a few of them run at one time over all tables, so
 * that connections, disk and processors are left for the small ones. Takes nothing but Rows; refuses and touches nothing.
 */
import type { Rows } from '../types/rows.ts';
import type { Limits } from '../config/limits.ts';

/** Rows of a table with a key replace each other in order, and those of a chain follow those before them. */
export function goesAside(
  { target, chain, deletes, count, bytes }: Rows,
  { groupRowsMax, groupBytesMax }: Pick<Limits, 'groupRowsMax' | 'groupBytesMax'>,
): boolean {
  const isLarge = count > groupRowsMax || bytes > groupBytesMax;
  return isLarge && chain === null && deletes === null && target.shape.key.length === 0;
}
