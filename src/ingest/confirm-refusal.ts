/**
 * Whether a refusal may be given. One that rests on the catalog, and that its sender would not try again, is given only if the table is still what it was
 * found to be, as the engine says after the request arrived (decision 0230). Takes a refusal; returns it, or `table_changed`, upon which the request is
 * checked again, or `engine_unavailable`. A request that is accepted pays nothing for it.
 */
import type { Target } from '../types/target.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { ofCatalog } from '../errors/refusals-catalog.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Pipeline } from './pipeline.ts';

/** How many times one request is tried while its table keeps changing. */
export const changedAttemptsMax = 3;

export async function standing(
  why: Refusal,
  way: Pick<Pipeline, 'isStill'>,
  target: Target | null,
  sinceMs: number,
): Promise<Refusal> {
  if (target === null || !ofCatalog.has(why.code)) return why;
  try {
    return (await way.isStill(target, sinceMs)) ? why : refusal('table_changed');
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}
