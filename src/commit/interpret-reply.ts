/**
 * What the answer to a transaction means (engine-reply.ts); pure. Takes a reply and the steps that it answers; returns what was found out, by which
 * of them, and whose fault it is. Goes by the places of the steps first: what a table's own code raises can have any SQLSTATE.
 *
 * Rows are stored together with those of other senders, and a SQLSTATE is chosen by the author of the trigger, the check or the type that
 * failed: an ERROR raised while rows are stored is the fault of one of them until something shown here says otherwise.
 *
 * | verdict    | shown by                                                            | what is done                        | a row that fails alone |
 * | ---------- | ------------------------------------------------------------------- | ----------------------------------- | ---------------------- |
 * | `table`    | the statement that confirms the table failed                        | the catalog is read again           | 503 `table_changed`    |
 * | `row`      | RAISE or ASSERT of PL/pgSQL, whatever the SQLSTATE; or a SQLSTATE   | the table is confirmed, then the    | 422 `row_refused`      |
 * |            | about rows (22, 23, P0, …)                                          | group is cut until it is alone      |                        |
 * | `suspect`  | a SQLSTATE about the table, about rights, or about nothing known    | no rows are stored the same way: if | 422 `row_refused`, the |
 * |            | (42, 0A, XX000, 55, 25, …)                                          | that fails, no row is at fault      | second time            |
 * | `conflict` | the engine's own 40001, 40P01, and 55P03 of a NOWAIT                | again, three times; then cut        | 503                    |
 * | `beyond`   | the engine's own 08, 28, HV, 72, 58P01, XX001: something that only  | cut, while any part of the group is | 503                    |
 * |            | some rows need is missing                                           | stored                              |                        |
 * | `engine`   | the engine's own 53, 57, 58, read-only; a statement that was        | the whole group gets 503 at once    | 503                    |
 * |            | cancelled or timed out (ProcessInterrupts); no answer in time       |                                     |                        |
 * | `bug`      | 22P04: Headgate's framing                                           | the whole group gets 500            | 500                    |
 *
 * The field `routine` of an ERROR tells who raised it: the name of a C function, which no lc_messages translates and no code in
 * SQL can choose. PL/pgSQL's RAISE without parameters passes on the ERROR that it has caught with its original routine, so a full
 * disk remains one. For another server of a Citus cluster the coordinator tells no routine; the context says whether it was a
 * RAISE, and what is said about that server as a whole is `beyond`.
 */
import type { Outcome } from '../types/rows.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { strangersCode } from '../relations/lock-code.ts';
import { handedOn } from './engine-reply.ts';
import type { EngineReply, Failed, StoreAttempt } from './engine-reply.ts';
import type { StatementStep } from './statement-step.ts';
import { faultOf, isOfProtocol } from '../engine/sqlstate.ts';
import type { Fault } from '../engine/sqlstate.ts';

type ErrorCause = Fault | 'table';

/** The table is not the one that the catalog knew; also raised by headgate.confirm(). */
const tableChanged = 'HG001';
/** The delivery is stored already; raised by headgate.claim_deliveries(). */
export const deliveredBefore = 'HG004';

/** In place of the engine's routine: Headgate has found it out without an ERROR of the engine. */
export const ours = 'headgate';
const raising: ReadonlySet<string> = new Set(['exec_stmt_raise', 'exec_stmt_assert']);
/** PL/pgSQL's text for where it was, innermost first; no lc_messages translates its end. */
const raisedThere = /^.* (?:RAISE|ASSERT)(?:\n|$)/;

type ReplyError = Pick<Failed, 'sqlstate' | 'routine'> & Partial<Pick<Failed, 'where' | 'message'>>;

export function verdictOf(failed: ReplyError): ErrorCause {
  if (isDelivered(failed)) return 'row';
  if (failed.routine === ours) return failed.sqlstate === tableChanged ? 'table' : 'engine';
  if (isRaised(failed)) return 'row';
  // Cancelled, or timed out: lock_timeout has the SQLSTATE of a NOWAIT.
  if (failed.routine === 'ProcessInterrupts') return 'engine';
  const fault = faultOf(failed.sqlstate);
  // From another server, to which other rows may not have to go.
  return fault === 'engine' && failed.routine === handedOn ? 'beyond' : fault;
}

/** Whether Headgate's own claim of a delivery found it known (deliveries.ts). */
export function isDelivered({ sqlstate, routine }: ReplyError): boolean {
  return routine === ours && sqlstate === deliveredBefore;
}

/** Whether code of the table's owner raised it, and not the engine. */
export function isRaised({ routine, where = '' }: Omit<ReplyError, 'sqlstate'>): boolean {
  return routine === handedOn ? raisedThere.test(where) : routine !== null && raising.has(routine);
}

/**
 * Whether an ERROR of a commit leaves the fate of the rows open, although the connection is idle again: an engine
 * that spreads a transaction over servers raises it when one of them has committed and another cannot be reached.
 */
export function isInDoubt(failed: Failed): boolean {
  return failed.atCommit && !isRaised(failed) && /^(XX|08|5[378]|40003)/.test(failed.sqlstate);
}

export function aborted(it: Refusal): Outcome & { readonly kind: 'aborted' } {
  return { kind: 'aborted', refusal: it };
}

/** Rows of the chain before these were not stored. */
export const chainBroken = aborted(refusal('chain_broken'));

/** Why a table takes no rows names roles, and statements for a superuser with what PostgreSQL stores of a password: for the log, not for senders. */
export function unusable(why: string): Refusal {
  return { ...refusal('table_unusable'), engineError: why };
}

/** Rows that were made for another table, or for other rights: the log has what the engine said. */
export function tableChangedBy({
  sqlstate,
  message = '',
}: ReplyError): Outcome & { readonly kind: 'aborted' } {
  const it = refusal('table_changed');
  return aborted(sqlstate === tableChanged && message === '' ? it : { ...it, engineError: message });
}

/**
 * Whether the engine says that the role of the session lacks a right for Headgate's own statement, and not for one of the owner's code: no row is at fault.
 * Row-level security has the same SQLSTATE, and another routine.
 */
export function isRightMissing(failed: Failed): boolean {
  const { sqlstate, routine, where } = failed;
  const denied = routine === 'nextval_internal' || routine?.startsWith('aclcheck_error') === true;
  return sqlstate === '42501' && denied && (where === '' || where.startsWith('COPY '));
}

/** The outcome of rows that are not at fault; null: one of them is, or may be. */
export function outcomeOf(failed: ReplyError): (Outcome & { readonly kind: 'aborted' }) | null {
  if (failed.routine === ours && failed.sqlstate === strangersCode)
    return aborted(unusable(failed.message ?? ''));
  switch (verdictOf(failed)) {
    case 'row':
    case 'suspect':
      return null;
    case 'table':
      return tableChangedBy(failed);
    case 'conflict':
    case 'beyond':
      return aborted(refusal('engine_unavailable'));
    case 'engine':
      return aborted(
        failed.sqlstate === '57014' ? refusal('deadline') : inItsWords(refusal('engine_unavailable'), failed),
      );
    case 'bug':
      return aborted(refusal('internal'));
  }
}

/** With PostgreSQL's own words for the log: a full disk and a read-only server look alike to senders. */
function inItsWords(it: Refusal, { sqlstate, message = '', routine }: ReplyError): Refusal {
  return routine === ours || message === '' ? it : { ...it, engineError: `${sqlstate} ${message}` };
}

/**
 * What a failed attempt means for a group: a row of it is at fault, or may be (`suspect`: it is if it fails alone, twice), or none is:
 * `again` soon, perhaps without the others (`elsewhere`), or an outcome for all.
 */
type Blame =
  | { readonly blame: 'row' | 'suspect' | 'again' | 'elsewhere' }
  | { readonly blame: 'group'; readonly outcome: Outcome };

export function blameOf(failed: Failed): Blame {
  const verdict = verdictOf(failed);
  if (verdict === 'row' || verdict === 'suspect') return { blame: verdict };
  if (verdict === 'conflict') return { blame: 'again' };
  if (verdict === 'beyond') return { blame: 'elsewhere' };
  return { blame: 'group', outcome: outcomeOf(failed) ?? aborted(refusal('internal')) };
}

/** What it means for all rows that storing none of them fails with this; null: nothing. */
function outcomeOfNoRows(failed: Failed): Outcome | null {
  // Of a name in a statement of Headgate's own, not in code that it has called.
  if (failed.sqlstate === '42501' && failed.where === '' && /\bheadgate\b/.test(failed.message))
    return aborted(refusal('table_unusable', `${failed.message}: GRANT USAGE ON SCHEMA headgate TO PUBLIC`));
  return verdictOf(failed) === 'suspect' ? tableChangedBy(failed) : outcomeOf(failed);
}

/** A row that the engine refuses concerns its sender, who is told in the answer; the rest concerns the owner. */
export function isSendersAffair({ code }: Refusal): boolean {
  return (
    code === 'row_refused' ||
    code === 'body_not_json' ||
    code === 'payload_undecodable' ||
    code === 'delivery_differs' ||
    code === 'version_missing' ||
    code === 'chain_broken'
  );
}

/** Whether decoding a value failed because of the value, and not because of the statement's own text. */
export function isValue(failed: Failed): boolean {
  const verdict = verdictOf(failed);
  return verdict === 'row' || (verdict === 'suspect' && !failed.placed);
}

/** A failure that Headgate itself has found, of a transaction that certainly stored nothing. */
export function failedHere(sqlstate: string, message: string): Failed {
  return {
    kind: 'failed',
    sqlstate,
    message,
    completed: 0,
    atCommit: false,
    xid: null,
    constraint: null,
    table: null,
    column: null,
    placed: false,
    where: '',
    routine: ours,
  };
}

/** Whether what the session should remember of Headgate's own is not there, or somebody else's is. */
export function isForgotten(reply: EngineReply): reply is Failed {
  return reply.kind === 'failed' && isOfProtocol(reply.sqlstate) && !isRaised(reply);
}

/** Attempts of a group, or of a member alone, that the engine ended through no fault of theirs (deadlock, serialization). */
export const conflictAttemptsMax = 3;

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
  if (isOfText(attempt)) return changed;
  const step = steps[attempt.completed - before];
  if (step?.claims === true) return claimFailed(attempt);
  return step?.checks === true ? (checkFailed(attempt) ?? attempt) : attempt;
}

/**
 * Whether PostgreSQL could not read a literal of the statement itself, which holds no values of rows: what it says of the table's name is not so
 * (kit/sql-text.ts, namesAsParsed), when it is prepared, or planned again.
 */
function isOfText(failed: Failed): boolean {
  const { sqlstate, placed, where, routine } = failed;
  return sqlstate === '22P02' && placed && where === '' && routine !== handedOn && !isRaised(failed);
}

export const changed = failedHere(tableChanged, 'the table has changed');

/** What the failure of a statement that checks the table says about it; null: nothing. */
function checkFailed({ sqlstate, message }: Failed): Failed | null {
  if (sqlstate === strangersCode) return failedHere(strangersCode, message);
  // It may say which role lost which right (relations/lock-code.ts).
  if (sqlstate === tableChanged) return failedHere(tableChanged, message);
  // 0A000: it has a rule now, with which the statement of lockAndConfirmStep is not planned.
  return /^(22P02|0A000)$/.test(sqlstate) ? changed : null;
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
