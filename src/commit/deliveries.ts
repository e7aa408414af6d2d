/**
 * Deliveries that are stored once (the option `dedupe`): the ids of some rows are claimed before the rows are stored, in their
 * transaction. If an id is already known, that transaction fails and names the id, whose rows are left out of the next attempt: its
 * sender is answered as if they had just been stored. Rows that are refused leave no id.
 */
import type { Rows, Target } from '../tables/flow.ts';
import { askStep } from './asks.ts';
import { textOf } from './hold.ts';
import { deliveredBefore, failedHere, isDelivered } from './judge.ts';
import { toStatement } from './prepared.ts';
import type { Failed } from './round-trip.ts';
import { typeOids } from './statements.ts';
import type { Step } from './table-statements.ts';
import type { Attempt } from './told.ts';
import { executeMessages } from './wire-message.ts';

const claim = toStatement('select headgate.claim_deliveries($1, $2, $3)', [
  typeOids.oid,
  2951 /* uuid[] */,
  typeOids.int8,
]);

/** The steps before the rows of one attempt; none if no row has an id. */
export function claimSteps({ oid, code, dedupe }: Target, members: readonly Rows[]): Step[] {
  const ids = members.flatMap(({ delivery }) => delivery ?? []);
  if (dedupe === undefined || ids.length === 0) return [];
  if (code.as === 'owner')
    return [{ ...askStep('claim', { relation: oid, ids, window: dedupe.windowS }), claims: true }];
  const parameters = [String(oid), `{${ids.join(',')}}`, String(dedupe.windowS)].map(textOf);
  return [{ statement: claim, messages: () => executeMessages(claim.name, parameters), claims: true }];
}

/** Drops later copies of a delivery: they are stored, or not, with the first one. */
export function withoutCopies(members: readonly Rows[]): readonly Rows[] {
  const seen = new Set<string>();
  return members.filter(({ delivery }) => {
    if (delivery === undefined) return true;
    const known = seen.has(delivery);
    seen.add(delivery);
    return !known;
  });
}

/** The failure of the claim itself. */
export function claimFailed(failed: Failed): Failed {
  return failed.sqlstate === deliveredBefore ? failedHere(deliveredBefore, failed.message) : failed;
}

/** The ids that were known; null: the attempt ended in another way. */
function deliveredIn(attempt: Attempt): ReadonlySet<string> | null {
  if (attempt.kind !== 'failed' || !isDelivered(attempt)) return null;
  return new Set(attempt.message.split(' '));
}

/** Stores those that are not known yet. `repeated`: called with the number of those that are. */
export async function storeOnce(
  given: readonly Rows[],
  store: (members: readonly Rows[]) => Promise<Attempt>,
  repeated: (deliveries: number) => void,
): Promise<Attempt> {
  let members = withoutCopies(given);
  for (;;) {
    const attempt = await store(members);
    const known = deliveredIn(attempt);
    if (known === null) {
      if (attempt.kind === 'committed') repeated(given.length - members.length);
      return attempt;
    }
    const left = members.filter(({ delivery }) => delivery === undefined || !known.has(delivery));
    if (left.length === members.length) return failedHere('XX000', 'an id is known that nobody has sent');
    members = left;
  }
}
