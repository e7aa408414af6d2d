/**
 * How rows of any other table are stored: the engine decodes the documents, and prepared statements insert or upsert them.
 * If they cannot be stored together, they are settled member by member (row-at-fault.ts); a sender is told which of its own values
 * does not fit, as far as the group's questions and time allow.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import { refusal } from '../errors/refusals.ts';
import { differs, storeEachOnce, storeOnce } from './deliveries.ts';
import { aborted, isDelivered, outcomeOf, verdictOf } from './interpret-reply.ts';
import { withNulls, ValueSearch } from './value-at-fault.ts';
import {
  documentRefusal,
  forOwner,
  isVersionMissing,
  misfitRefusal,
  rowRefusal,
} from './refusal-messages.ts';
import type { CommitSession } from './session.ts';
import type { TriedGroup } from './row-at-fault.ts';
import { TableStatements } from './table-statements.ts';
import type { StoreAttempt, Failed } from './interpret-reply.ts';
import { DecodedTransactions } from './decoded-transactions.ts';

export const statementsOf = rememberedOf((target: Target) => new TableStatements(target));

const withoutKey = refusal(
  'row_refused',
  'a row can be deleted by its primary key only, and the table has none that is written',
);

/** The members of one group, tried in one session. */
export class DecodedGroup implements TriedGroup {
  readonly siftsMax = 1;
  readonly fruitlessMax = Infinity;
  /** Values that were stored as NULL. */
  #nulled = 0;
  /** Requests whose delivery was stored before. */
  #repeated = 0;
  /** Requests with the id of another delivery. */
  #differing = 0;
  /** Rows that were not newer than what the table has. */
  #stale = 0;
  readonly #session: CommitSession;
  readonly #table: TableStatements;
  readonly #transactions: DecodedTransactions;
  readonly #options: Pick<StageContext, 'observe' | 'limits'>;
  #search: ValueSearch | null = null;
  /** Documents go whole into one column: no questions can be asked about their values. */
  readonly #whole: boolean;

  constructor(
    session: CommitSession,
    table: TableStatements,
    options: Pick<StageContext, 'observe' | 'limits'>,
  ) {
    this.#session = session;
    this.#table = table;
    this.#transactions = new DecodedTransactions(session, table);
    this.#options = options;
    this.#whole = table.target.shape.writeMode === 'copy';
  }

  /** Reports values and deliveries, once the rows are stored. */
  tell(): void {
    const { observe } = this.#options;
    const { target: table } = this.#table;
    if (this.#nulled > 0) observe({ kind: 'values.nulled', table, values: this.#nulled });
    if (this.#repeated > 0) observe({ kind: 'deliveries.repeated', table, deliveries: this.#repeated });
    if (this.#differing > 0) observe({ kind: 'deliveries.differ', table, deliveries: this.#differing });
    if (this.#stale > 0) observe({ kind: 'rows.stale', table, rows: this.#stale });
  }

  /** Made when the engine has refused a value. */
  get #probes(): ValueSearch {
    const { groupProbesMax } = this.#options.limits;
    return (this.#search ??= new ValueSearch(this.#send, this.#table, this.#session.facts, groupProbesMax));
  }

  readonly #send: CommitSession['send'] = (messages, expected) => this.#session.send(messages, expected);

  refuse(member: Rows): Outcome | null {
    if (this.#table.deletes || member.deletes?.includes(1) !== true) return null;
    return { ...aborted(withoutKey), row: member.deletes.indexOf(1) };
  }

  async store(members: readonly Rows[], whole = false): Promise<StoreAttempt> {
    const store = (some: readonly Rows[]) => this.#transactions.store(some);
    if (this.#table.target.dedupe === undefined) return this.#counted(await store(members));
    return this.#counted(await storeOnce(members, store, this.#count, whole));
  }

  #counted(attempt: StoreAttempt): StoreAttempt {
    if (attempt.kind === 'committed') for (const rows of attempt.stale?.values() ?? []) this.#stale += rows;
    return attempt;
  }

  async storeEach(units: readonly (readonly Rows[])[]): Promise<readonly StoreAttempt[]> {
    const { dedupe, shape } = this.#table.target;
    // A server of Citus checks deferred constraints when it commits, and a rollback to a savepoint on one of them leaves Citus without
    // two-phase commit: there each unit has a transaction of its own.
    if (shape.distributedByCitus === true) {
      const attempts: StoreAttempt[] = [];
      for (const unit of units) attempts.push(await this.store(unit));
      return attempts;
    }
    const storeEach = (some: readonly (readonly Rows[])[]) => this.#transactions.storeEach(some);
    const attempts =
      dedupe === undefined
        ? (await storeEach(units)).attempts
        : await storeEachOnce(units, storeEach, this.#count);
    return attempts.map((attempt) => this.#counted(attempt));
  }

  readonly #count = (copies: number, differing: number): void => {
    this.#repeated += copies;
    this.#differing += differing;
  };

  stands(): Promise<Outcome | null> {
    return this.#transactions.takesNoRows();
  }

  async explain(member: Rows, failed: Failed): Promise<Outcome> {
    if (isDelivered(failed)) return differs;
    const { shape } = this.#table.target;
    if (
      failed.sqlstate === '23505' &&
      shape.key.length === 0 &&
      (await this.#session.hasKey(this.#table.target))
    )
      return aborted(refusal('table_changed'));
    const misfit = mayBeMisfit(failed) && !this.#whole ? await this.#probes.first(member) : null;
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
    const current = await (suspect ? this.stands() : this.#transactions.confirm());
    if (current !== null) return members.map(() => current);
    const nulls = target.shape.onTypeError === 'null';
    if (this.#whole || isDelivered(failed) || !mayBeMisfit(failed) || (members.length === 1 && !nulls))
      return members;
    const questions = nulls ? this.#options.limits.groupNulledProbesMax : probesOf(members);
    const probes = new ValueSearch(this.#send, this.#table, this.#session.facts, questions);
    const sifted: (Rows | Outcome)[] = [...members];
    for (const i of await probes.failing(members)) {
      const member = members[i];
      if (member !== undefined)
        sifted[i] = nulls ? await this.#withNulls(member, probes) : await this.#misfit(member);
    }
    return sifted;
  }

  async #withNulls(member: Rows, probes: ValueSearch): Promise<Rows> {
    const { document } = this.#table.target.shape;
    // The document is the row: without it nothing that was sent would be stored.
    const onTypeError = (await probes.all(member)).filter(({ column }) => column.name !== document);
    this.#nulled += onTypeError.length;
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
      if (tried > this.#options.limits.groupTriedRowsMax) return null;
      const some = { ...member, count: middle };
      const failed = await this.#transactions.wouldFail([some]);
      if (failed !== null && outcomeOf(failed) !== null) return null;
      if (failed === null) good = middle;
      else bad = middle;
      const left = this.#session.leftMs;
      if (bad - good > 1 && left < 2 * (before - left)) return null;
      before = left;
    }
    return bad - 1;
  }
}

/** Questions that it may take to find all members that do not fit: each is asked about alone, and before that among others. */
function probesOf(members: readonly Rows[]): number {
  return 2 * members.length + 32;
}

/** Whether it can come from decoding: from a value, or a domain's constraint, rather than from one of the table's. */
function mayBeMisfit({ sqlstate }: Failed): boolean {
  return !['23503', '23505', '23P01'].includes(sqlstate);
}
