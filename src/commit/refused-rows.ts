/**
 * Why the engine refuses rows that it decodes, and which of them: a value that does not fit its column, a constraint, a delivery's id. Takes requests whose
 * rows were refused, asks the engine in the group's session without storing anything, and returns an outcome, or the request as it is tried further.
 * Refuses with `payload_undecodable`, `row_refused`, `body_not_json`, `version_missing`, `delivery_differs`; with `table_changed` if the table is at fault.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import type { Limits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import { differs } from './deliveries.ts';
import {
  aborted,
  isDelivered,
  isRightMissing,
  outcomeOf,
  tableChangedBy,
  verdictOf,
} from './interpret-reply.ts';
import type { Failed } from './engine-reply.ts';
import { hasNewKey } from './refused-documents.ts';
import {
  documentRefusal,
  forOwner,
  isVersionMissing,
  misfitRefusal,
  rowRefusal,
} from './refusal-messages.ts';
import type { RefusedTransactions } from './refused-transactions.ts';
import type { CommitSession } from './session.ts';
import type { TableStatements } from './table-statements.ts';
import { withNulls, ValueSearch } from './value-at-fault.ts';

/** The refused rows of one group. */
export class RefusedRows {
  /** Values that are stored as NULL. */
  nulled = 0;
  readonly #session: CommitSession;
  readonly #table: TableStatements;
  readonly #trials: RefusedTransactions;
  readonly #limits: Limits;
  #search: ValueSearch | null = null;
  /** Documents go whole into one column: no questions can be asked about their values. */
  readonly #whole: boolean;

  constructor(session: CommitSession, table: TableStatements, trials: RefusedTransactions, limits: Limits) {
    this.#session = session;
    this.#table = table;
    this.#trials = trials;
    this.#limits = limits;
    this.#whole = table.target.shape.writeMode === 'documents';
  }

  async explain(member: Rows, failed: Failed): Promise<Outcome> {
    if (isDelivered(failed)) return differs;
    if (isRightMissing(failed)) return tableChangedBy(failed);
    const { shape } = this.#table.target;
    if (
      failed.sqlstate === '23505' &&
      shape.key.length === 0 &&
      (await hasNewKey(this.#session, this.#table.target))
    )
      return aborted(refusal('table_changed'));
    // A constraint of the table itself is checked when all values of the row are decoded.
    const isDecoded = member.count === 1 && failed.table !== null;
    const misfit =
      mayBeMisfit(failed) && !this.#whole && !isDecoded ? await this.#probes.first(member) : null;
    if (misfit !== null)
      return { ...aborted(forOwner(misfitRefusal(misfit), misfit.failed)), row: misfit.row };
    const row = await this.#rowAtFault(member);
    if (isVersionMissing(failed))
      return { ...aborted(refusal('version_missing')), ...(row !== null && { row }) };
    // No more questions may be asked: all that is certain is that a value of the row could not be decoded.
    const it = this.#whole
      ? documentRefusal(failed)
      : this.#probes.exhausted && failed.sqlstate.startsWith('22')
        ? refusal('payload_undecodable')
        : rowRefusal(failed, shape.key);
    const outcome = aborted(forOwner(it, failed));
    return row === null ? outcome : { ...outcome, row };
  }

  /**
   * Members that certainly cannot be stored get their outcome, whatever the others do: a value that does not fit its
   * column will not fit later. If the table's owner wants it, they continue with NULL instead.
   */
  async sift(members: readonly Rows[], failed: Failed): Promise<readonly (Rows | Outcome)[]> {
    const { target } = this.#table;
    // Nobody is refused because of a table that is no longer this one.
    const suspect = verdictOf(failed) === 'suspect';
    const current = await (suspect ? this.#trials.takesNoRows() : this.#trials.confirm());
    if (current !== null) return members.map(() => current);
    const nulls = target.shape.onTypeError === 'null';
    if (this.#whole || isDelivered(failed) || !mayBeMisfit(failed) || (members.length === 1 && !nulls))
      return members;
    const questions = nulls ? this.#limits.groupNulledProbesMax : probesOf(members);
    const probes = this.#searching(questions);
    const sifted = new Map<Rows, Rows | Outcome>();
    const failing = (await probes.failing(members)).flatMap((i) => members[i] ?? []);
    for (const some of probedTogether(failing, this.#limits))
      await Promise.all(
        some.map(async (member) => {
          sifted.set(member, await (nulls ? this.#withNulls(member, probes) : this.#misfit(member)));
        }),
      );
    return members.map((member) => sifted.get(member) ?? member);
  }

  async #withNulls(member: Rows, probes: ValueSearch): Promise<Rows> {
    const { document } = this.#table.target.shape;
    // The document is the row: without it nothing that was sent would be stored.
    const onTypeError = (await probes.all(member)).filter(({ column }) => column.name !== document);
    this.nulled += onTypeError.length;
    return onTypeError.length === 0 ? member : withNulls(member, onTypeError);
  }

  /** The outcome of a member that holds a value which does not fit. */
  async #misfit(member: Rows): Promise<Outcome> {
    const misfit = await this.#probes.first(member);
    if (misfit !== null)
      return { ...aborted(forOwner(misfitRefusal(misfit), misfit.failed)), row: misfit.row };
    // No more questions may be asked for this group.
    const it = aborted(refusal('payload_undecodable'));
    return member.count === 1 ? { ...it, row: 0 } : it;
  }

  /** The first row of a refused member at which storing it fails, if there is time to find out. */
  async #rowAtFault(member: Rows): Promise<number | null> {
    if (member.count === 1) return 0;
    // Without row n it can be stored, with it it cannot: it may collide with rows before it.
    let good = 0;
    let bad = member.count;
    let before = this.#session.leftMs;
    let tried = 0;
    while (bad - good > 1) {
      const middle = (good + bad) >> 1;
      tried += middle;
      if (tried > this.#limits.groupTriedRowsMax) return null;
      const some = { ...member, count: middle };
      const failed = await this.#trials.wouldFail([some]);
      if (failed !== null && outcomeOf(failed) !== null) return null;
      if (failed === null) good = middle;
      else bad = middle;
      const left = this.#session.leftMs;
      if (bad - good > 1 && left < 2 * (before - left)) return null;
      before = left;
    }
    return bad - 1;
  }

  /** Made when the engine has refused a value. */
  get #probes(): ValueSearch {
    const { groupProbesMax } = this.#limits;
    return (this.#search ??= this.#searching(groupProbesMax));
  }

  #searching(questionsMax: number): ValueSearch {
    const session = this.#session;
    return new ValueSearch(
      (messages, expected) => session.send(messages, expected),
      this.#table,
      session.facts,
      questionsMax,
    );
  }
}

/** Questions that it may take to find all members that do not fit: each is asked about alone, and before that among others. */
function probesOf(members: readonly Rows[]): number {
  return 2 * members.length + 32;
}

/** Some after the other, so that the first ones have their answers when no more may be asked; a question holds its member's rows while it is asked. */
function* probedTogether(
  members: readonly Rows[],
  { groupProbedMembersMax, groupProbedBytesMax }: Limits,
): Generator<readonly Rows[]> {
  let some: Rows[] = [];
  let bytes = 0;
  for (const member of members) {
    bytes += member.bytes;
    if (some.length === groupProbedMembersMax || (some.length > 0 && bytes > groupProbedBytesMax)) {
      yield some;
      [some, bytes] = [[], member.bytes];
    }
    some.push(member);
  }
  yield some;
}

/** Whether it can come from decoding: from a value, or a domain's constraint, rather than from one of the table's. */
function mayBeMisfit({ sqlstate }: Failed): boolean {
  return !['23503', '23505', '23P01'].includes(sqlstate);
}
