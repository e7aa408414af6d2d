/** What a refusal by the engine means for the rows that it met, pure. */
import { faultOf } from '../engine/sqlstate.ts';
import type { Outcome } from '../flow.ts';
import { refusal } from '../refusals.ts';
import type { Refusal } from '../refusals.ts';
import type { Failed } from './round-trip.ts';
import { tableChanged } from './session.ts';

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
