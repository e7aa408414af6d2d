/**
 * What the answer to a transaction says beyond its SQLSTATE, pure: a reply, and the steps that it answers, in; who has found out
 * what, out. By their places: what a table's own code raises can have any SQLSTATE.
 */
import type { Outcome } from '../tables/flow.ts';
import { refusal } from '../tables/refusals.ts';
import { lateCode } from '../catalog/executor.ts';
import { claimFailed } from './deliveries.ts';
import { aborted, failedHere, isRaised, outcomeOfNoRows, tableChanged } from './judge.ts';
import type { Failed, Reply } from './round-trip.ts';
import type { Step } from './table-statements.ts';

/** What became of some rows that were tried. */
export type Attempt =
  | { readonly kind: 'committed' }
  | Failed
  | { readonly kind: 'lost'; readonly reason: string };

/** A prepared statement is not there. */
export function isForgotten(reply: Reply): boolean {
  return reply.kind === 'failed' && reply.sqlstate === '26000' && !isRaised(reply);
}

/**
 * Tells what Headgate's own statements have found out from a row whose value, or whose code, reads the same. What the
 * function of a table's owner raises by itself has one line of context, and what it runs has more.
 */
export function told<T extends Attempt>(attempt: T, steps: readonly Step[], before: number): T | Failed {
  if (attempt.kind !== 'failed' || attempt.atCommit) return attempt;
  const step = steps[attempt.completed - before];
  if (step?.claims === true) return claimFailed(attempt);
  if (step?.checks === true) return isChanged(attempt, [attempt.completed]) ? changed : attempt;
  if (step?.calls !== true || !isRaised(attempt) || attempt.where.includes('\n')) return attempt;
  if (attempt.sqlstate === tableChanged) return changed;
  return attempt.sqlstate === lateCode ? failedHere(lateCode, attempt.message) : attempt;
}

export const changed = failedHere(tableChanged, 'the table has changed');

/** Whether it is one of the statements at these places, which look at the table, that failed because it has changed. */
export function isChanged(reply: Failed, checks: readonly number[]): boolean {
  return checks.includes(reply.completed) && !reply.atCommit && /^(22P02|HG001)$/.test(reply.sqlstate);
}

export function standing(reply: Reply): Outcome | null {
  if (reply.kind === 'done') return null;
  if (reply.kind === 'lost') return aborted(refusal('engine_unavailable'));
  return outcomeOfNoRows(reply);
}

export function asAttempt(reply: Reply | Attempt): Attempt {
  return reply.kind === 'done' ? { kind: 'committed' } : reply;
}
