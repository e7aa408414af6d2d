/** Removes ids of deliveries, and tombstones, that have expired. Takes a session; a part at a time, so that each statement is short. */
import type { StageContext } from '../observe/context.ts';
import type { JournalSession } from './journal-session.ts';

/** $1: how many ids, and how many tombstones, of each table. Returns the larger number of those that went. */
export const forgetDeliveries = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true))
select greatest(headgate.forget_old('headgate.delivery', 'stored_at', 'dedupe', $1::int),
  headgate.forget_old('headgate.tombstone', 'deleted_at', 'version', $1::int)) as went from unhurried`;

export class DeliveryRetention {
  readonly #context: StageContext;
  #forgotAtMs = Number.NEGATIVE_INFINITY;

  constructor(context: StageContext) {
    this.#context = context;
  }

  /** Now and then, until none is left, or `signal` is aborted. */
  async forgetIfDue(session: JournalSession, signal: AbortSignal): Promise<void> {
    const { limits, clock } = this.#context;
    const { deliveriesForgetMs, deliveriesForgottenMax: most } = limits;
    if (clock() - this.#forgotAtMs < deliveriesForgetMs) return;
    this.#forgotAtMs = clock();
    let went = Infinity;
    while (went >= most && !signal.aborted) {
      const { rows } = await session.query<{ went: string }>(forgetDeliveries, [most]);
      went = Number(rows[0]?.went ?? 0);
    }
  }
}
