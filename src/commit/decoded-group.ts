/**
 * How rows of any other table are stored: the engine decodes the documents, and prepared statements insert or upsert them, all of a group in one
 * transaction (decoded-transaction.ts). If they cannot be stored together, they are settled member by member (row-at-fault.ts); a sender is told which of its own values
 * does not fit, as far as the group's questions and time allow (refused-rows.ts).
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import { refusal } from '../errors/refusals.ts';
import { storeEachOnce, storeOnce } from './deliveries.ts';
import { DecodedTransaction } from './decoded-transaction.ts';
import { aborted } from './interpret-reply.ts';
import type { StoreAttempt, Failed } from './engine-reply.ts';
import { RefusedRows } from './refused-rows.ts';
import { RefusedTransactions } from './refused-transactions.ts';
import type { TriedGroup } from './row-at-fault.ts';
import type { CommitSession } from './session.ts';
import { TableStatements } from './table-statements.ts';

export const statementsOf = rememberedOf((target: Target) => new TableStatements(target));

const withoutKey = refusal(
  'row_refused',
  'a row can be deleted by its primary key only, and the table has none that is written',
);

/** The members of one group, tried in one session. */
export class DecodedGroup implements TriedGroup {
  readonly siftsMax = 1;
  readonly fruitlessMax = Infinity;
  /** Requests whose delivery was stored before. */
  #repeated = 0;
  /** Requests with the id of another delivery. */
  #differing = 0;
  /** Rows that were not newer than what the table has. */
  #stale = 0;
  readonly #table: TableStatements;
  readonly #transaction: DecodedTransaction;
  readonly #options: Pick<StageContext, 'observe' | 'limits'>;
  /** Made when the engine has refused a row. */
  #refusing: RefusedRows | null = null;
  #trying: RefusedTransactions | null = null;

  constructor(
    session: CommitSession,
    table: TableStatements,
    options: Pick<StageContext, 'observe' | 'limits'>,
  ) {
    this.#table = table;
    this.#transaction = new DecodedTransaction(session, table);
    this.#options = options;
  }

  /** Reports values and deliveries, once the rows are stored. */
  tell(): void {
    const { observe } = this.#options;
    const { target: table } = this.#table;
    const nulled = this.#refusing?.nulled ?? 0;
    if (nulled > 0) observe({ kind: 'values.nulled', table, values: nulled });
    if (this.#repeated > 0) observe({ kind: 'deliveries.repeated', table, deliveries: this.#repeated });
    if (this.#differing > 0) observe({ kind: 'deliveries.differ', table, deliveries: this.#differing });
    if (this.#stale > 0) observe({ kind: 'rows.stale', table, rows: this.#stale });
  }

  refuse(member: Rows): Outcome | null {
    if (this.#table.deletes || member.deletes?.includes(1) !== true) return null;
    return { ...aborted(withoutKey), row: member.deletes.indexOf(1) };
  }

  async store(members: readonly Rows[], whole = false): Promise<StoreAttempt> {
    const attempt =
      this.#table.target.dedupe === undefined
        ? await this.#transaction.store(members)
        : await storeOnce(members, (some) => this.#transaction.store(some), this.#count, whole);
    return this.#counted(attempt);
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
    const storeEach = (some: readonly (readonly Rows[])[]) => this.#trials.storeEach(some);
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
    return this.#trials.takesNoRows();
  }

  sift(members: readonly Rows[], failed: Failed): Promise<readonly (Rows | Outcome)[]> {
    return this.#refused.sift(members, failed);
  }

  explain(member: Rows, failed: Failed): Promise<Outcome> {
    return this.#refused.explain(member, failed);
  }

  get #refused(): RefusedRows {
    return (this.#refusing ??= new RefusedRows(this.#transaction, this.#trials, this.#options.limits));
  }

  get #trials(): RefusedTransactions {
    return (this.#trying ??= new RefusedTransactions(this.#transaction));
  }
}
