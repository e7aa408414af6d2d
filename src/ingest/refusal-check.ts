/**
 * Whether a refusal may be given. One that rests on the catalog, and that its sender would not try again, is given only if the table is still what it was
 * found to be, as the engine says after the request arrived (decision 0230). A request that is accepted pays nothing for it.
 */
import type { Catalog } from '../catalog/catalog.ts';
import { Refused, refusal, restsOnCatalog } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';

/** How many times one request is tried while its table keeps changing. */
export const changedAttemptsMax = 3;

/**
 * Takes a refusal, and whom to ask: the catalog or, for webhooks, `Spooling`. Returns it, or `table_changed`, upon which the request is checked again, or
 * `engine_unavailable`. `target` null: it rests on no table.
 */
export async function standing(
  why: Refusal,
  catalog: Pick<Catalog, 'isStill'>,
  target: Target | null,
  sinceMs: number,
): Promise<Refusal> {
  if (target === null || !restsOnCatalog(why.code)) return why;
  try {
    return (await catalog.isStill(target, sinceMs)) ? why : refusal('table_changed');
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}

/** The same for rows that are not stored; it names the line of a batch's body that holds the row at fault. Rejects with Refused if another refusal has to be given. */
export async function standingOutcome(
  outcome: Outcome,
  rows: Rows,
  catalog: Pick<Catalog, 'isStill'>,
  target: Target | null,
  sinceMs: number,
): Promise<Outcome> {
  if (outcome.kind !== 'aborted') return outcome;
  const { row, refusal: found } = outcome;
  const why = await standing(found, catalog, target, sinceMs);
  if (why.code !== found.code) throw new Refused(why);
  if (row === undefined || !rows.target.intake.batched) return outcome;
  const line = rows.lines?.[row] ?? row + 1;
  return { ...outcome, refusal: { ...found, message: `line ${line}: ${found.message}` } };
}
