/**
 * What becomes of events whose table is not what it was taken for: they are stored in the table as it is now, unless they cannot be read again. Takes a
 * request on its way; returns the table to try; refuses with `table_changed`, and as the stores do.
 */
import { Refused, restsOnCatalog } from '../errors/refusals.ts';
import type { Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { EventAnswer, EventRequest, EventStore } from './event-store.ts';
import type { LargeBody } from './large-body.ts';
import { LineRefused } from './line-refused.ts';
import type { Scope } from './tokens.ts';

/** A request on its way. */
export interface PostedEvents {
  readonly store: EventStore;
  readonly request: EventRequest;
  /** Where it may store; null: everywhere. */
  readonly scope: Scope | null;
  /** By the store's clock. */
  readonly arrivedAtMs: number;
}

function tableSince({ store, request, scope }: PostedEvents, sinceMs: number): Target | Promise<Target> {
  const { database, name, onConflict } = request;
  return scope === null
    ? store.find(database, name, onConflict, sinceMs)
    : scope.find(store, request, sinceMs);
}

export function concernsCatalog(error: unknown): boolean {
  return (error instanceof Refused || error instanceof LineRefused) && restsOnCatalog(error.refusal.code);
}

/** The table as it was found after the request arrived; null: it is the same. `isLast`: the request does not try again. */
export async function alteredTable(
  posted: PostedEvents,
  table: Target,
  isLast: boolean,
): Promise<Target | null> {
  const now = await tableSince(posted, posted.arrivedAtMs);
  if (now === table) return null;
  if (isLast) throw new Refused('table_changed');
  return now;
}

/** Where rows that the engine has refused may be stored nevertheless; null: nowhere. */
export async function tableAfterRefusal(
  posted: PostedEvents,
  table: Target,
  outcome: Exclude<Outcome, { kind: 'committed' }>,
  isLast: boolean,
): Promise<Target | null> {
  // What may be stored already is not stored again.
  if (outcome.kind !== 'aborted' || isLast) return null;
  const { store, request, arrivedAtMs } = posted;
  const isChanged = outcome.refusal.code === 'table_changed';
  if (isChanged) store.forget(request.database, request.name);
  else if (!restsOnCatalog(outcome.refusal.code)) return null;
  const now = await tableSince(posted, arrivedAtMs);
  return isChanged || now !== table ? now : null;
}

/** A body that is not held can be read only once: a table that has changed meanwhile refuses it for now. */
export async function storeLarge(posted: PostedEvents, found: Target, body: LargeBody): Promise<EventAnswer> {
  const { store, request, arrivedAtMs } = posted;
  // Lines are left out for good because of what the table is like.
  const target = request.skips ? await tableSince(posted, arrivedAtMs) : found;
  try {
    return await store.large(target, request, body);
  } catch (error) {
    if (!concernsCatalog(error) || (await tableSince(posted, store.clock())) === target) throw error;
    throw new Refused('table_changed');
  }
}
