/**
 * Deliveries that are stored once (the option `dedupe`): the ids of some rows are claimed before the rows are stored, in their
 * transaction. If an id is already known, that transaction fails and names the id, whose rows are left out of the next attempt. If they
 * are a copy of what came with the id, their sender is answered as if they had just been stored; if they are something else, they are
 * set apart (`delivery_differs`), together with later rows of their chain. Rows that are refused leave no id.
 */
import type { Chain, Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import { typeOids } from '../relations/shape.ts';
import { requestStep } from './headgate-request.ts';
import { textOf } from './wire-message.ts';
import { aborted, chainBroken, deliveredBefore, failedHere, isDelivered } from './interpret-reply.ts';
import { stepOf } from './statement-step.ts';
import { toStatement } from './prepared-statements.ts';
import type { StoreAttempt, UnitAttempts } from './engine-reply.ts';
import type { StatementStep } from './statement-step.ts';

const uuids = 2951; // uuid[]
const claim = toStatement('select headgate.claim_deliveries($1, $2, $3, $4)', [
  typeOids.oid,
  uuids,
  typeOids.int8,
  uuids,
]);

/** The steps before the rows of one attempt; none if no row has an id. */
export function claimSteps({ oid, code, dedupe }: Target, members: readonly Rows[]): StatementStep[] {
  const claimed = members.filter(({ delivery }) => delivery !== undefined);
  if (dedupe === undefined || claimed.length === 0) return [];
  const ids = claimed.map(({ delivery }) => delivery);
  const bodies = claimed.map(({ content = null }) => content);
  if (code.as === 'owner')
    return [
      { ...requestStep('claim', { relation: oid, ids, bodies, window: dedupe.windowS }), claims: true },
    ];
  const texts = [`{${ids.join()}}`, String(dedupe.windowS), `{${bodies.map((it) => it ?? 'null').join()}}`];
  const parameters = [String(oid), ...texts].map(textOf);
  return [{ ...stepOf(claim, parameters), claims: true }];
}

/** Ids of deliveries that are stored, each with the content that it came with; undefined: that is not known. */
type KnownDeliveries = ReadonlyMap<string, string | undefined>;

/** The ids that were known; null: the attempt ended in another way. */
function knownIn(attempt: StoreAttempt): KnownDeliveries | null {
  if (attempt.kind !== 'failed' || !isDelivered(attempt)) return null;
  return new Map(
    attempt.message.split(' ').map((it) => {
      const [id = '', content] = it.split(':');
      return [id, content];
    }),
  );
}

export const differs = aborted(refusal('delivery_differs'));

/** What becomes of some requests, once those of them that are tried are stored. */
interface Sorted {
  readonly tried: readonly Rows[];
  /** Those that are stored with one of those that are tried, or before. */
  readonly copies: ReadonlySet<Rows>;
  /** Those that are not stored, whatever becomes of the others. */
  readonly apart: ReadonlyMap<Rows, Outcome>;
}

/** The one place that decides what a request is whose delivery's id is known: from the engine, or from a request before it. */
function sort(members: readonly Rows[], known: KnownDeliveries): Sorted {
  const before = new Map(known);
  const broken = new Set<Chain>();
  const apart = new Map<Rows, Outcome>();
  const tried: Rows[] = [];
  const copies = new Set<Rows>();
  for (const rows of members) {
    const { delivery, content, chain } = rows;
    const stored = delivery === undefined ? undefined : before.get(delivery);
    if (chain !== null && broken.has(chain)) apart.set(rows, chainBroken);
    else if (delivery === undefined || !before.has(delivery)) {
      tried.push(rows);
      if (delivery !== undefined) before.set(delivery, content);
    } else if (stored === undefined || content === undefined || stored === content) copies.add(rows);
    else {
      apart.set(rows, differs);
      if (chain !== null) broken.add(chain);
    }
  }
  return { tried, copies, apart };
}

/** Called with what has been sorted out, when the rest is stored. */
export type DeliveryCount = (copies: number, differing: number) => void;

/** What became of them all, if what was tried has ended so. */
function endOf(attempt: StoreAttempt, { copies, apart }: Sorted, count: DeliveryCount): StoreAttempt {
  if (attempt.kind !== 'committed') return attempt;
  count(copies.size, [...apart.values()].filter((outcome) => outcome === differs).length);
  return apart.size === 0 && copies.size === 0 ? attempt : { ...attempt, apart, copies };
}

const nothingKnown: KnownDeliveries = new Map();

/** Stores those that are not known yet. `whole`: fails, as a known delivery does, if one of them is to be set apart. */
export async function storeOnce(
  members: readonly Rows[],
  store: (members: readonly Rows[]) => Promise<StoreAttempt>,
  count: DeliveryCount,
  whole = false,
): Promise<StoreAttempt> {
  let known = nothingKnown;
  for (;;) {
    const sorted = sort(members, known);
    if (whole && sorted.apart.size > 0) return failedHere(deliveredBefore, '');
    const attempt = await store(sorted.tried);
    const found = knownIn(attempt);
    if (found === null) return endOf(attempt, sorted, count);
    const more = new Map([...known, ...found]);
    if (more.size === known.size) return failedHere('XX000', 'an id is known that nobody has sent');
    known = more;
  }
}

/** The same for units that are stored each on its own; `end`: of their transaction. A unit with known deliveries beside others fails. */
export async function storeEachOnce(
  units: readonly (readonly Rows[])[],
  storeEach: (units: readonly (readonly Rows[])[]) => Promise<UnitAttempts>,
  count: DeliveryCount,
): Promise<readonly StoreAttempt[]> {
  const sorted = units.map((unit) => sort(unit, nothingKnown));
  const { attempts, end } = await storeEach(sorted.map(({ tried }) => tried));
  return units.map((unit, i) => {
    const attempt = attempts[i] ?? end;
    const known = knownIn(attempt);
    if (known === null) return endOf(attempt, sorted[i] ?? sort(unit, nothingKnown), count);
    // What is known may have come earlier in this transaction: it ends as the transaction does.
    const again = sort(unit, known);
    return again.tried.length === 0 ? endOf(end, again, count) : attempt;
  });
}
