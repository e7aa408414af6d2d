/**
 * The transactions of rows that the engine decodes, in one session: all rows together, each unit behind a savepoint, or none, to see what
 * the engine says. Takes a session and the statements of a table; returns how each transaction has ended, and never rejects.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import { limits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import { claimSteps } from './deliveries.ts';
import {
  aborted,
  failedHere,
  outcomeOf,
  asAttempt,
  committed,
  standing,
  told,
  isForgotten,
} from './interpret-reply.ts';
import { settingSteps, toRuns } from './table-statements.ts';
import type { TableStatements } from './table-statements.ts';
import type { StoreAttempt, UnitAttempts, Failed } from './interpret-reply.ts';
import { isUndecided } from './newest-statements.ts';
import { abortMessage, inTurn, lost } from './session.ts';
import type { CommitSession } from './session.ts';
import { cleanUp, markOf, nothing, pathIsSafe, savepoint } from './session-reset.ts';
import type { ResetSettings } from './session-reset.ts';
import { isPlain } from './commit-connection.ts';
import type { StatementStep } from './commit-connection.ts';
import { flushMessage, queryMessage, syncMessage } from './wire-message.ts';

export class DecodedTransactions {
  readonly #session: CommitSession;
  readonly #table: TableStatements;
  /** One row per statement: set when the engine reports that one statement met a row twice. */
  #singly = false;

  constructor(session: CommitSession, table: TableStatements) {
    this.#session = session;
    this.#table = table;
  }

  /** Stores the rows of these members in one transaction. `mayTry`: see TableStatements.steps. */
  async store(members: readonly Rows[], mayTry = true): Promise<StoreAttempt> {
    const rows = this.#steps(members, mayTry);
    const trials = rows.find((step) => step.trials !== undefined)?.trials;
    const before = this.#before(rows);
    const then = this.#table.isHeldFor(rows) ? rows : [...rows, ...this.#after()];
    const steps = [...before, ...then];
    const first = this.#first;
    const last = this.#last;
    for (let tries = 1; ; tries++) {
      const opening = this.#session.opening(before, this.#session.prepare(steps), isLate(this.#table));
      // The number of the transaction is sent before its commit begins.
      const messages = inTurn(first.messages, opening, this.#session.execute(then), last.messages, [
        flushMessage,
        syncMessage,
      ]);
      const [reply = lost] = await this.#session.send(messages, [first.count + steps.length + last.count]);
      if (reply.kind === 'done') {
        this.#session.prepared.succeeded();
        trials?.passed();
        return reply.stale === undefined
          ? { kind: 'committed' }
          : committed(reply, steps, first.count, members);
      }
      if (reply.kind === 'failed') {
        if (isForgotten(reply) && tries === 1) {
          this.#session.prepared.forgotten();
          continue;
        }
        const known = told(reply, steps, first.count);
        if (known !== reply) return known;
        if (trials !== undefined && isUndecided(reply)) {
          trials.failed();
          return this.store(members, false);
        }
        if (reply.sqlstate === metTwice && !this.#singly) {
          this.#singly = true;
          return this.store(members);
        }
      }
      return this.#session.settled(reply);
    }
  }

  /**
   * Stores the rows of these units in one transaction, each on its own: the failure of one of them undoes nothing of
   * the others. Returns one attempt for each, in order.
   */
  async storeEach(units: readonly (readonly Rows[])[]): Promise<UnitAttempts> {
    const all = (end: StoreAttempt) => ({ attempts: units.map(() => end), end });
    const steps = units.map((members) => this.#steps(members));
    const before = this.#before(steps.flat());
    const after = this.#after();
    const [first, last] = [this.#first, this.#last];
    const mark = markOf(this.#table.target, this.#session.facts);
    const send = () => {
      const prepare = this.#session.prepare([...before, ...steps.flat(), ...after], true);
      const messages = [
        beginMessage,
        ...first.messages,
        ...this.#session.opening(before, prepare, isLate(this.#table)),
      ];
      messages.push(syncMessage, mark.message);
      const expected = [1, first.count + before.length, mark.count];
      for (const unit of steps) {
        messages.push(...this.#session.execute(unit), syncMessage, mark.message, rollbackMessage);
        expected.push(unit.length, mark.count, 1);
      }
      messages.push(...this.#session.execute(after), ...last.messages, syncMessage, commitMessage);
      expected.push(after.length + last.count, 1);
      return this.#session.send(messages, expected);
    };
    const replies = await send();
    const [confirmed = lost, ended = lost] = replies.slice(-2);
    const settled =
      ended.kind !== 'done' && confirmed.kind === 'done'
        ? await this.#session.settled({
            ...ended,
            xid: confirmed.xid,
            ...(ended.kind === 'failed' && { atCommit: true }),
          })
        : ended;
    const opened = replies.slice(0, 3).find((reply) => reply.kind !== 'done');
    if (opened !== undefined) return all(told(asAttempt(opened), before, first.count));
    if (ended.kind === 'done' && ended.tag === 'COMMIT') this.#session.prepared.succeeded();
    // If the table has changed, nobody is refused.
    if (confirmed.kind === 'failed') return all(told(confirmed, after, 0));
    const end =
      settled.kind === 'done' && settled.tag !== 'COMMIT'
        ? failedHere('40000', 'the transaction was rolled back')
        : asAttempt(settled);
    const attempts = units.map((_, i) => {
      const [stored = lost, checked = lost] = replies.slice(3 + 3 * i);
      const why = stored.kind === 'failed' ? told(stored, steps[i] ?? [], 0) : checked;
      if (why.kind === 'failed') return why;
      const isStored = end.kind === 'committed' && stored.kind === 'done';
      return isStored ? committed(stored, steps[i] ?? [], 0, units[i] ?? []) : end;
    });
    return { attempts, end };
  }

  /** The failure of storing these rows, or null; stores nothing. */
  async wouldFail(members: readonly Rows[]): Promise<Failed | null> {
    const rows = this.#steps(members);
    const before = this.#before(rows);
    const steps = [...before, ...rows];
    const first = this.#first;
    const mark = markOf(this.#table.target, this.#session.facts);
    const opening = this.#session.opening(before, this.#session.prepare(steps, true), isLate(this.#table));
    const replies = await this.#session.send(
      inTurn([beginMessage, ...first.messages], opening, this.#session.execute(rows), [
        syncMessage,
        mark.message,
        abortMessage,
      ]),
      [1, first.count + steps.length, mark.count, 1],
    );
    const failed = replies.find((reply) => reply.kind === 'failed');
    return failed === undefined ? null : told(failed, steps, first.count);
  }

  /** null: the table is the one of the target; otherwise the outcome of rows that were made for the target. */
  async confirm(): Promise<Outcome | null> {
    const first = this.#first;
    const steps = [this.#table.confirm];
    const [reply = lost] = await this.#session.send(
      [
        ...first.messages,
        ...this.#session.prepare(steps, true),
        ...this.#session.execute(steps),
        syncMessage,
      ],
      [first.count + 1],
    );
    if (reply.kind === 'done') return null;
    if (reply.kind === 'lost') return aborted(refusal('engine_unavailable'));
    return outcomeOf(reply) ?? aborted(refusal('table_changed'));
  }

  /**
   * Stores no rows, in the way in which rows are stored, and undoes what statement triggers do then. null: the table is
   * the one of the target, Headgate may write to it and the engine accepts transactions; otherwise the outcome of rows.
   */
  async takesNoRows(): Promise<Outcome | null> {
    const rows = this.#table.noRows(this.#session.facts, this.#session.commitOf(this.#table.target));
    const before = this.#before(rows);
    const then = [...rows, this.#table.confirm];
    const steps = [...before, ...then];
    const first = this.#first;
    const opening = this.#session.opening(before, this.#session.prepare(steps, true), isLate(this.#table));
    const [, reply = lost] = await this.#session.send(
      inTurn([beginMessage, ...first.messages], opening, this.#session.execute(then), [
        syncMessage,
        abortMessage,
      ]),
      [1, first.count + steps.length, 1],
    );
    return standing(reply.kind === 'failed' ? told(reply, steps, first.count) : reply);
  }

  /** The first steps of every transaction. */
  #before(rows: readonly StatementStep[]): StatementStep[] {
    const { target } = this.#table;
    return [...settingSteps(this.#session.settings(target)), ...this.#table.before(rows)];
  }

  #after(): StatementStep[] {
    return this.#table.after(this.#session.facts);
  }

  get #first(): ResetSettings {
    return this.#session.shared ? pathIsSafe : nothing;
  }

  get #last(): ResetSettings {
    const { target } = this.#table;
    return this.#session.shared && !isPlain(target) ? cleanUp(this.#session.commitOf(target)) : nothing;
  }

  #steps(members: readonly Rows[], mayTry = false): StatementStep[] {
    const rowsMax = this.#singly ? 1 : Infinity;
    const runs = toRuns(members, { rowsMax, bytesMax: limits.groupBytesMax });
    const rows = this.#table.steps(
      runs,
      this.#session.facts,
      this.#session.commitOf(this.#table.target),
      mayTry,
    );
    return [...claimSteps(this.#table.target, members), ...rows];
  }
}

/** Where a deletion waits for everybody else (lock-table.ts), nobody waits in a circle so. */
function isLate({ target }: TableStatements): boolean {
  return target.shape.newest !== undefined;
}

/** One statement met the same row twice: keys that differ in a document are one key to the engine. */
const metTwice = '21000';

const beginMessage = queryMessage('begin isolation level read committed');
const rollbackMessage = queryMessage(`rollback to savepoint ${savepoint}`);
const commitMessage = queryMessage('commit');
