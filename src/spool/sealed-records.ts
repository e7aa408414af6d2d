/** Requests of one table in one record; pure. */
import { splitPayloads } from './format.ts';

/** In order; their sequences have no gap. */
export interface Sealed {
  readonly first: bigint;
  readonly last: bigint;
  /** The payload of the record (format.ts). */
  readonly payload: Buffer;
}

export function requestsOf({ first, last }: Sealed): number {
  return Number(last - first) + 1;
}

/** Each request on its own. */
export function apart(record: Sealed): Sealed[] {
  const { first, payload } = record;
  const each = splitPayloads(payload, requestsOf(record));
  return each.map((one, i) => ({ first: first + BigInt(i), last: first + BigInt(i), payload: one }));
}
