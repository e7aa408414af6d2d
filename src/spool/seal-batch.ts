/** Which requests of a group share a record. Pure. */
import { limits } from '../config/limits.ts';
import type { EncodedTarget } from './format.ts';

/** The table of a request. */
export interface Appendable {
  readonly oid: number;
  /** Another object whenever the description is another one. */
  readonly target: EncodedTarget;
}

/** The groups of requests that share a record each: of one table, in order, as many as are sealed together. */
export function togetherOf<Waiting extends { readonly table: Appendable; readonly payload: Buffer }>(
  group: readonly Waiting[],
): readonly (readonly [Waiting, ...Waiting[]])[] {
  const all: [Waiting, ...Waiting[]][] = [];
  const open = new Map<number, { readonly waiting: [Waiting, ...Waiting[]]; bytes: number }>();
  for (const one of group) {
    const { oid, target } = one.table;
    const bytes = one.payload.length;
    const last = open.get(oid);
    const fits =
      last !== undefined &&
      last.waiting[0].table.target === target &&
      last.waiting.length < limits.spoolSealedRequestsMax &&
      last.bytes + bytes <= limits.spoolSealedBytesMax;
    if (fits) {
      last.waiting.push(one);
      last.bytes += bytes;
    } else {
      const waiting: [Waiting, ...Waiting[]] = [one];
      all.push(waiting);
      open.set(oid, { waiting, bytes });
    }
  }
  return all;
}
