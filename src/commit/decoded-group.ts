/**
 * How rows of any other table are stored: the engine decodes the documents, and prepared statements insert or upsert them, all of a group in one
 * transaction and one write. As a rule, on Headgate's own engine and without a key or code, these are two statements: one that locks the table and asks
 * whether it is still the same (`lockAndConfirmStep`), and the rows (`storeStatement`); nothing is set or reset around them. If they cannot be stored together, they are settled member by member (row-at-fault.ts); a sender is told which of its own
 * values does not fit, as far as the group's questions and time allow (refused-rows.ts).
 */
import type { Outcome, Rows } from '../types/rows.ts';
import type { StageContext } from '../observe/context.ts';
import { refusal } from '../errors/refusals.ts';
import type { StatementStep } from './statement-step.ts';
import { claimSteps, storeEachOnce, storeOnce } from './deliveries.ts';
import { aborted, isForgotten, told } from './interpret-reply.ts';
import { committed, isUndecided } from './newest-statements.ts';
import { RefusedRows } from './refused-rows.ts';
import { RefusedTransactions } from './refused-transactions.ts';
import { lost } from './engine-reply.ts';
import type { Failed, StoreAttempt } from './engine-reply.ts';
import type { TriedGroup } from './row-at-fault.ts';
import { inTurn } from './session.ts';
import type { CommitSession } from './session.ts';
import type { TableStatements } from './table-statements.ts';
import { resetAfter, resetBefore, settingSteps } from './transaction-statements.ts';
import { flushMessage, syncMessage } from './wire-message.ts';

const withoutKey = refusal(
  'row_refused',
  'a row can be deleted by its primary key only, and the table has none that requests fill',
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
  readonly #session: CommitSession;
  /** One row per statement: set when the engine reports that one statement met a row twice. */
  #singly = false;
  readonly #options: Pick<StageContext, 'observe' | 'limits'>;
  /** Made when the engine has refused a row. */
  #refusing: RefusedRows | null = null;
  #trying: RefusedTransactions | null = null;

  constructor(
    session: CommitSession,
    table: TableStatements,
    options: Pick<StageContext, 'observe' | 'limits'>,
  ) {
    this.#session = session;
    this.#table = table;
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
        ? await this.#store(members)
        : await storeOnce(members, (some) => this.#store(some), this.#count, whole);
    return this.#counted(attempt);
  }

  /** In one transaction. `mayTry`: see TableStatements.steps; only for tables with `version`. */
  async #store(members: readonly Rows[], mayTry = true): Promise<StoreAttempt> {
    const { target } = this.#table;
    const session = this.#session;
    const rows = this.#steps(members, mayTry);
    const trials = rows.find((step) => step.trials !== undefined)?.trials;
    const before = [...settingSteps(session.settings(target)), ...this.#table.before(rows)];
    const then = [...rows, ...this.#table.after(session.facts, rows)];
    const steps = [...before, ...then];
    const first = resetBefore(session.shared);
    const last = resetAfter(session.shared, target, session.commitOf(target));
    for (let tries = 1; ; tries++) {
      const opening = session.opening(before, steps, this.#table.preparesLate);
      // One implicit transaction, which the Sync commits. The engine sends its number before the commit begins: that is what the Flush is for.
      const messages = inTurn(first.messages, opening, session.execute(then), last.messages, [
        flushMessage,
        syncMessage,
      ]);
      const [reply = lost] = await session.send(messages, [first.count + steps.length + last.count]);
      if (reply.kind === 'done') {
        session.prepared.succeeded();
        trials?.passed();
        return reply.stale === undefined
          ? { kind: 'committed' }
          : committed(reply, steps, first.count, members);
      }
      if (reply.kind === 'failed') {
        if (isForgotten(reply) && tries === 1) {
          session.prepared.forgotten();
          continue;
        }
        const known = told(reply, steps, first.count);
        if (known !== reply) return known;
        if (trials !== undefined && isUndecided(reply)) {
          trials.failed();
          return this.#store(members, false);
        }
        if (reply.sqlstate === metTwice && !this.#singly) {
          this.#singly = true;
          return this.#store(members);
        }
      }
      return session.settled(reply);
    }
  }

  /** The steps that store the rows of these members. */
  #steps(members: readonly Rows[], mayTry: boolean): StatementStep[] {
    const { target } = this.#table;
    const { facts } = this.#session;
    const rowsMax = this.#singly ? 1 : Infinity;
    const rows = this.#table.steps(members, rowsMax, facts, this.#session.commitOf(target), mayTry);
    return [...claimSteps(target, members), ...rows];
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
    return (this.#refusing ??= new RefusedRows(
      this.#session,
      this.#table,
      this.#trials,
      this.#options.limits,
    ));
  }

  get #trials(): RefusedTransactions {
    return (this.#trying ??= new RefusedTransactions(this.#session, this.#table, (members) =>
      this.#steps(members, false),
    ));
  }
}

/** One statement met the same row twice: keys that differ in a document are one key to the engine. */
const metTwice = '21000';
