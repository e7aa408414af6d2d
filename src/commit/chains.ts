/** Which rows of a group may still be stored according to their chains: none after rows that were not. Pure. */
import type { Chain, Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';

export const chainBroken: Outcome = { kind: 'aborted', refusal: refusal('chain_broken') };

export class Chains {
  /** For each chain, the first place in the group whose rows were not stored. */
  readonly #brokenAt = new Map<Chain, number>();

  /** The rows at this place of the group were not stored. */
  break({ chain }: Rows, place: number): void {
    if (chain !== null) this.#brokenAt.set(chain, Math.min(place, this.#brokenAt.get(chain) ?? place));
  }

  /** Whether rows at this place come after such rows. */
  isBroken({ chain }: Rows, place: number): boolean {
    return chain !== null && (chain.broken || place > (this.#brokenAt.get(chain) ?? place));
  }

  /** The group is settled: what is submitted from now on comes after all of it. */
  end(): void {
    for (const chain of this.#brokenAt.keys()) chain.broken = true;
  }
}
