/**
 * Whose fault it is that a transaction failed, pure. Takes an ERROR that is final (round-trip.ts). Rows are stored together with
 * those of other senders, and a SQLSTATE is chosen by whoever wrote the trigger, the check or the type that failed: an ERROR
 * raised while rows are stored is the fault of one of them until something shown here says otherwise.
 *
 * | verdict    | shown by                                                            | what is done                        | a row that fails alone |
 * | ---------- | ------------------------------------------------------------------- | ----------------------------------- | ---------------------- |
 * | `table`    | the statement that confirms the table failed                        | the catalog is read again           | 503 `table_changed`    |
 * | `row`      | RAISE or ASSERT of PL/pgSQL, whatever the SQLSTATE; or a SQLSTATE   | the table is confirmed, then the    | 422 `row_refused`      |
 * |            | that speaks of rows (22, 23, P0, …)                                 | group is cut until it stands alone  |                        |
 * | `suspect`  | a SQLSTATE that speaks of the table, of rights, of nothing known    | no rows are stored the same way: if | 422 `row_refused`, the |
 * |            | (42, 0A, XX000, 55, 25, …)                                          | that fails it is not the rows'      | second time            |
 * | `conflict` | the engine's own 40001, 40P01, and 55P03 of a NOWAIT                | again, three times; then cut        | 503                    |
 * | `beyond`   | the engine's own 08, 28, HV, 72, 58P01, XX001: something that only  | cut, while any part of the group is | 503                    |
 * |            | some rows need is not there                                         | stored                              |                        |
 * | `engine`   | the engine's own 53, 57, 58, read-only; a statement that was        | all of the group read 503 at once   | 503                    |
 * |            | cancelled or out of time (ProcessInterrupts); no answer in time     |                                     |                        |
 * | `bug`      | 22P04: our framing                                                  | all of the group read 500           | 500                    |
 *
 * Who raised an ERROR is told by its field `routine`, the name of a C function, which no lc_messages translates and no code in
 * SQL can choose. PL/pgSQL's RAISE without parameters hands on the error that it has caught with the routine that it came from,
 * so that a full disk stays one. Of another server of a Citus cluster the coordinator tells no routine; its context says that it
 * was a RAISE, and what is said of that server as a whole is `beyond`.
 */
import { faultOf } from '../engine/sqlstate.ts';
import type { Fault } from '../engine/sqlstate.ts';
import type { Outcome } from '../tables/flow.ts';
import { refusal } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';
import { executorUnfit, lateCode } from '../catalog/executor.ts';
import { handedOn } from './round-trip.ts';
import type { Failed } from './round-trip.ts';

export type Verdict = Fault | 'table';

/** The table is not the one that the catalog knew; also raised by headgate.confirm(). */
export const tableChanged = 'HG001';
/** The delivery is stored already; raised by headgate.claim_deliveries(). */
export const deliveredBefore = 'HG004';

/** Stands where the engine names its routine: Headgate has found it out without an ERROR of the engine. */
const ours = 'headgate';
const raising: ReadonlySet<string> = new Set(['exec_stmt_raise', 'exec_stmt_assert']);
/** PL/pgSQL's own words for where it was, innermost first; no lc_messages translates what stands at the end. */
const raisedThere = /^.* (?:RAISE|ASSERT)(?:\n|$)/;

const noExecutor = refusal(
  'table_unusable',
  "the function through which rows are stored with the rights of the table's owner cannot be made",
);
const runsLate = refusal(
  'table_unusable',
  'a deferrable trigger or constraint of a table that takes part would run at COMMIT, with other rights than its owner has',
);

type Said = Pick<Failed, 'sqlstate' | 'routine'> & Partial<Pick<Failed, 'where'>>;

export function verdictOf(failed: Said): Verdict {
  if (isDelivered(failed)) return 'row';
  if (failed.routine === ours) return failed.sqlstate === tableChanged ? 'table' : 'engine';
  if (isRaised(failed)) return 'row';
  // Cancelled, or out of time: lock_timeout has the SQLSTATE of a NOWAIT.
  if (failed.routine === 'ProcessInterrupts') return 'engine';
  const fault = faultOf(failed.sqlstate);
  // Of another server, to which other rows may not have to go.
  return fault === 'engine' && failed.routine === handedOn ? 'beyond' : fault;
}

/** Whether it was Headgate's own claim of a delivery that found it known (deliveries.ts). */
export function isDelivered({ sqlstate, routine }: Said): boolean {
  return routine === ours && sqlstate === deliveredBefore;
}

/** Whether code of the table's owner said it, and not the engine. */
export function isRaised({ routine, where = '' }: Omit<Said, 'sqlstate'>): boolean {
  return routine === handedOn ? raisedThere.test(where) : routine !== null && raising.has(routine);
}

/**
 * Whether an ERROR of a commit leaves open what became of the rows, although the connection is idle again: an engine
 * that spreads a transaction over servers says so when one of them has committed and another cannot be reached.
 */
export function isInDoubt(failed: Failed): boolean {
  return failed.atCommit && !isRaised(failed) && /^(XX|08|5[378]|40003)/.test(failed.sqlstate);
}

export function aborted(it: Refusal): Outcome & { readonly kind: 'aborted' } {
  return { kind: 'aborted', refusal: it };
}

/** The outcome of rows that are not at fault; null: one of them is, or may be. */
export function outcomeOf(failed: Said): (Outcome & { readonly kind: 'aborted' }) | null {
  if (failed.routine === ours && failed.sqlstate === executorUnfit) return aborted(noExecutor);
  if (failed.routine === ours && failed.sqlstate === lateCode) return aborted(runsLate);
  switch (verdictOf(failed)) {
    case 'row':
    case 'suspect':
      return null;
    case 'table':
      return aborted(refusal('table_changed'));
    case 'conflict':
    case 'beyond':
      return aborted(refusal('engine_unavailable'));
    case 'engine':
      return aborted(refusal(failed.sqlstate === '57014' ? 'deadline' : 'engine_unavailable'));
    case 'bug':
      return aborted(refusal('internal'));
  }
}

/** What it means for all rows that storing none of them fails with this; null: nothing. */
export function outcomeOfNoRows(failed: Failed): Outcome | null {
  return verdictOf(failed) === 'suspect' ? aborted(refusal('table_changed')) : outcomeOf(failed);
}

/** A row that the engine refuses is its sender's affair, told with the answer; the rest is the owner's. */
export function isSendersAffair({ code }: Refusal): boolean {
  return (
    code === 'row_refused' ||
    code === 'body_not_json' ||
    code === 'payload_undecodable' ||
    code === 'chain_broken'
  );
}

/** Whether decoding a value failed because of the value, and not of the statement's own text. */
export function isValue(failed: Failed): boolean {
  const verdict = verdictOf(failed);
  return verdict === 'row' || (verdict === 'suspect' && !failed.placed);
}

/** What Headgate has found out itself about a transaction that certainly stored nothing. */
export function failedHere(sqlstate: string, message: string): Failed {
  return {
    kind: 'failed',
    sqlstate,
    message,
    completed: 0,
    atCommit: false,
    xid: null,
    constraint: null,
    column: null,
    placed: false,
    where: '',
    routine: ours,
  };
}
