/** What a refusal by the engine means for the rows that it met, pure. */
import { faultOf } from '../engine/sqlstate.ts';
import type { Outcome } from '../flow.ts';
import { refusal } from '../refusals.ts';
import type { Refusal } from '../refusals.ts';
import type { Failed } from './round-trip.ts';

/** The table is not the one that the catalog knew; also raised by headgate.confirm(). */
export const tableChanged = 'HG001';

export function aborted(it: Refusal): Outcome & { readonly kind: 'aborted' } {
  return { kind: 'aborted', refusal: it };
}

/** The outcome of all rows that were tried together; null: a row of them is at fault. */
export function judgeGroup({ sqlstate }: Failed): Outcome | null {
  switch (sqlstate === tableChanged ? 'catalog' : faultOf(sqlstate)) {
    case 'row':
      return null;
    case 'catalog':
      return aborted(refusal('table_changed'));
    case 'transient':
      return aborted(refusal(sqlstate === '57014' ? 'deadline' : 'engine_unavailable'));
    case 'bug':
      return aborted(refusal('internal'));
  }
}

/** The engine ended the transaction for the sake of another one; nothing is wrong with the rows. */
export function isConflict({ sqlstate }: Failed): boolean {
  return sqlstate === '40001' || sqlstate === '40P01';
}

/**
 * Codes that mostly say that the table has changed, and that types of extensions also use for a value they cannot read
 * (ltree, hstore, tsquery, regclass; PostGIS says XX000).
 */
const ambiguous = new Set(['3F000', '42601', '42602', '42704', '42725', '42883', '42P01', 'XX000']);

/** Whether decoding a value failed because of the value. */
export function isValue(failed: Failed): boolean {
  return mayBeValue(failed) || judgeGroup(failed) === null;
}

/** Whether it can come of a value, although its code says something else. */
export function mayBeValue({ sqlstate, placed }: Failed): boolean {
  return !placed && ambiguous.has(sqlstate);
}
