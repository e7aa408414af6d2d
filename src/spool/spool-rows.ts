/**
 * Records of the spool as rows of their table. Takes records and the table as it is now; returns members of a group, or why there are no rows. A
 * request that is refused is alone. Pure.
 */
import { decodeWholes } from '../decode/decode.ts';
import { decodeRequest as decodeAtOnce } from '../decode/decode-slices.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { apart, bodySpans, decodeRequest, requestsOf } from './kept-request.ts';
import type { Sealed } from './kept-request.ts';

export interface SpooledMember extends Sealed {
  /** The rows for `target`, never a refusal for several requests; null: not decoded, because the table was not known. */
  readonly made: Rows | Refusal | null;
  readonly target: Target | null;
}

/** The part of a record behind a position: that has not arrived. */
export function behind(record: Sealed, position: bigint): Sealed[] {
  return record.first > position ? [record] : apart(record).filter(({ first }) => first > position);
}

/** Together if possible, otherwise one by one. `target` null: not known. */
export function decodeRecord(record: Sealed, target: Target | null): SpooledMember[] {
  const { first, last, payload } = record;
  if (target === null) return [undecoded(record)];
  const made = decodeWholes(target, payload, bodySpans(payload, requestsOf(record)));
  if (made !== null) return [{ first, last, payload, made, target }];
  return decodeEach(record, target);
}

export function decodeEach(record: Sealed, target: Target): SpooledMember[] {
  return apart(record).map((one) => ({ ...one, made: rowsOf(target, one.payload), target }));
}

function rowsOf(target: Target, payload: Buffer): Rows | Refusal {
  const request = decodeRequest(payload);
  if (request === null) return refusal('internal', 'it was kept by another version of Headgate');
  try {
    const { requestTarget, ...others } = request.head;
    const { body } = request;
    return decodeAtOnce(target, { ...others, target: requestTarget, body, accepted: true });
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}

export function undecoded({ first, last, payload }: Sealed): SpooledMember {
  return { first, last, payload, made: null, target: null };
}
