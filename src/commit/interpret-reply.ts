/**
 * What the answer to a transaction says beyond its SQLSTATE; pure. Takes a reply and the steps that it answers; returns what was
 * found out, and by which of them. Goes by the places of the steps: what a table's own code raises can have any SQLSTATE.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import { strangersCode } from '../relations/lock-code.ts';
import { aborted, deliveredBefore, failedHere, outcomeOfNoRows, tableChanged } from './error-cause.ts';
import type { Completed, Failed, EngineReply } from './round-trip.ts';
import type { StatementStep } from './prepared.ts';

/** Attempts of a group, or of a member alone, that the engine ended through no fault of theirs (deadlock, serialization). */
export const conflictAttemptsMax = 3;

/** The result of an attempt to store rows. */
export type StoreAttempt = Committed | Failed | { readonly kind: 'lost'; readonly reason: string };

export interface Committed {
  readonly kind: 'committed';
  /** Rows that were not stored, and what their senders read; absent: all were. */
  readonly apart?: ReadonlyMap<Rows, Outcome>;
  /** How many rows of a request were not newer than what the table has; absent: none. */
  readonly stale?: ReadonlyMap<Rows, number>;
}

/** One attempt for each unit of a transaction, and how the transaction has ended for what stored nothing in it. */
export interface UnitAttempts {
  readonly attempts: readonly StoreAttempt[];
  readonly end: StoreAttempt;
}

/** The failure of the claim itself. */
function claimFailed(failed: Failed): Failed {
  return failed.sqlstate === deliveredBefore ? failedHere(deliveredBefore, failed.message) : failed;
}

/** Tells what Headgate's own statements have found out from the failure of a row's value, or code, that looks the same. */
export function told<T extends StoreAttempt>(
  attempt: T,
  steps: readonly StatementStep[],
  before: number,
): T | Failed {
  if (attempt.kind !== 'failed' || attempt.atCommit) return attempt;
  const step = steps[attempt.completed - before];
  if (step?.claims === true) return claimFailed(attempt);
  return step?.checks === true ? (checkFailed(attempt) ?? attempt) : attempt;
}

export const changed = failedHere(tableChanged, 'the table has changed');

/** What the failure of a statement that checks the table says about it; null: nothing. */
function checkFailed({ sqlstate, message }: Failed): Failed | null {
  if (sqlstate === strangersCode) return failedHere(strangersCode, message);
  // 0A000: it has a rule now, with which holdPlainStatement is not planned.
  return /^(22P02|HG001|0A000)$/.test(sqlstate) ? changed : null;
}

/** The same if one of the statements at these places failed. */
export function foundBy(reply: EngineReply, checks: readonly number[]): Failed | null {
  const isFound = reply.kind === 'failed' && !reply.atCommit && checks.includes(reply.completed);
  return isFound ? checkFailed(reply) : null;
}

export function standing(reply: EngineReply): Outcome | null {
  if (reply.kind === 'done') return null;
  if (reply.kind === 'lost') return aborted(refusal('engine_unavailable'));
  return outcomeOfNoRows(reply);
}

export function asAttempt(reply: EngineReply | StoreAttempt): StoreAttempt {
  return reply.kind === 'done' ? { kind: 'committed' } : reply;
}

/** The rows of these requests are committed; `before`: answers before that of the first step. */
export function committed(
  { stale: said }: Completed,
  steps: readonly StatementStep[],
  before: number,
  members: readonly Rows[],
): Committed {
  if (said === undefined) return { kind: 'committed' };
  const stale = new Map<Rows, number>();
  for (const { completed, places } of said) {
    const rowAt = steps[completed - before]?.rowAt;
    if (rowAt === undefined) continue;
    for (const place of places) {
      const member = memberAt(members, rowAt(place));
      if (member !== undefined) stale.set(member, (stale.get(member) ?? 0) + 1);
    }
  }
  return stale.size === 0 ? { kind: 'committed' } : { kind: 'committed', stale };
}

/** The request that this row of a transaction belongs to. */
function memberAt(members: readonly Rows[], row: number): Rows | undefined {
  let first = 0;
  return members.find(({ count }) => row < (first += count));
}
