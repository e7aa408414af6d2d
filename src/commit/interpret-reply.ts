/**
 * What the answer to a transaction says beyond its SQLSTATE; pure. Takes a reply and the steps that it answers; returns what was
 * found out, and by which of them. Goes by the places of the steps: what a table's own code raises can have any SQLSTATE.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import { strangersCode } from '../catalog/lock-code.ts';
import {
  aborted,
  deliveredBefore,
  failedHere,
  isRaised,
  outcomeOfNoRows,
  tableChanged,
} from './error-cause.ts';
import { isOfProtocol } from '../engine/sqlstate.ts';
import type { Failed, Reply } from './round-trip.ts';
import type { Step } from './table-statements.ts';

/** The result of an attempt to store rows. */
export type Attempt =
  /** `apart`: rows that were not stored, and what their senders read; absent: all were. */
  | { readonly kind: 'committed'; readonly apart?: ReadonlyMap<Rows, Outcome> }
  | Failed
  | { readonly kind: 'lost'; readonly reason: string };

/** One attempt for each unit of a transaction, and how the transaction has ended for what stored nothing in it. */
export interface UnitAttempts {
  readonly attempts: readonly Attempt[];
  readonly end: Attempt;
}

/** Whether what the session should remember of Headgate's own is not there, or somebody else's is. */
export function isForgotten(reply: Reply): reply is Failed {
  return reply.kind === 'failed' && isOfProtocol(reply.sqlstate) && !isRaised(reply);
}

/** The failure of the claim itself. */
function claimFailed(failed: Failed): Failed {
  return failed.sqlstate === deliveredBefore ? failedHere(deliveredBefore, failed.message) : failed;
}

/** Tells what Headgate's own statements have found out from the failure of a row's value, or code, that looks the same. */
export function told<T extends Attempt>(attempt: T, steps: readonly Step[], before: number): T | Failed {
  if (attempt.kind !== 'failed' || attempt.atCommit) return attempt;
  const step = steps[attempt.completed - before];
  if (step?.claims === true) return claimFailed(attempt);
  return step?.checks === true ? (checkFailed(attempt) ?? attempt) : attempt;
}

export const changed = failedHere(tableChanged, 'the table has changed');

/** What the failure of a statement that checks the table says about it; null: nothing. */
function checkFailed({ sqlstate, message }: Failed): Failed | null {
  if (sqlstate === strangersCode) return failedHere(strangersCode, message);
  return /^(22P02|HG001)$/.test(sqlstate) ? changed : null;
}

/** The same if one of the statements at these places failed. */
export function foundBy(reply: Reply, checks: readonly number[]): Failed | null {
  const isFound = reply.kind === 'failed' && !reply.atCommit && checks.includes(reply.completed);
  return isFound ? checkFailed(reply) : null;
}

export function standing(reply: Reply): Outcome | null {
  if (reply.kind === 'done') return null;
  if (reply.kind === 'lost') return aborted(refusal('engine_unavailable'));
  return outcomeOfNoRows(reply);
}

export function asAttempt(reply: Reply | Attempt): Attempt {
  return reply.kind === 'done' ? { kind: 'committed' } : reply;
}
