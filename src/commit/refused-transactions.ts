/**
 * The transactions of decoded rows that were refused together: each unit of them behind a savepoint, or none stored, to see what the engine says.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { refusal } from '../errors/refusals.ts';
import { runsNoCode } from './plan-lock.ts';
import type { SessionFacts } from './commit-connection.ts';
import type { StatementStep } from './statement-step.ts';
import { aborted, failedHere, outcomeOf, standing, tableChangedBy, told } from './interpret-reply.ts';
import { committed } from './newest-statements.ts';
import type { EngineReply, Failed, StoreAttempt, UnitAttempts } from './engine-reply.ts';
import { abortMessage, inTurn } from './session.ts';
import { lost } from './engine-reply.ts';
import type { CommitSession } from './session.ts';
import { resetAfter, resetBefore, safePath, settingSteps } from './transaction-statements.ts';
import type { TableStatements } from './table-statements.ts';
import { queryMessage, syncMessage } from './wire-message.ts';

export class RefusedTransactions {
  readonly #session: CommitSession;
  readonly #table: TableStatements;
  readonly #stepsOf: (members: readonly Rows[]) => StatementStep[];

  /** `stepsOf`: the steps that store the rows of some members. */
  constructor(
    session: CommitSession,
    table: TableStatements,
    stepsOf: (members: readonly Rows[]) => StatementStep[],
  ) {
    this.#session = session;
    this.#table = table;
    this.#stepsOf = stepsOf;
  }

  /** The first steps of every transaction. */
  #before(rows: readonly StatementStep[]): StatementStep[] {
    const settings = this.#session.settings(this.#table.target);
    return [...settingSteps(settings), ...this.#table.before(rows)];
  }

  #opening(before: readonly StatementStep[], steps: readonly StatementStep[]): readonly Buffer[] {
    return this.#session.opening(before, steps, this.#table.preparesLate, true);
  }

  /**
   * Stores the rows of these units in one transaction, each on its own: the failure of one of them undoes nothing of
   * the others. Returns one attempt for each, in order.
   */
  async storeEach(units: readonly (readonly Rows[])[]): Promise<UnitAttempts> {
    const all = (end: StoreAttempt) => ({ attempts: units.map(() => end), end });
    const steps = units.map((members) => this.#stepsOf(members));
    const before = this.#before(steps.flat());
    const after = this.#table.after(this.#session.facts, null);
    const { shared } = this.#session;
    const { target } = this.#table;
    const first = resetBefore(shared);
    const last = resetAfter(shared, target, this.#session.commitOf(target));
    const mark = markOf(this.#table.target, this.#session.facts);
    const messages = [
      beginMessage,
      ...first.messages,
      ...this.#opening(before, [...before, ...steps.flat(), ...after]),
    ];
    messages.push(syncMessage, mark.message);
    const expected = [1, first.count + before.length, mark.count];
    for (const unit of steps) {
      messages.push(...this.#session.execute(unit), syncMessage, mark.message, rollbackMessage);
      expected.push(unit.length, mark.count, 1);
    }
    messages.push(...this.#session.execute(after), ...last.messages, syncMessage, commitMessage);
    expected.push(after.length + last.count, 1);
    const replies = await this.#session.send(messages, expected);
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
    const rows = this.#stepsOf(members);
    const before = this.#before(rows);
    const steps = [...before, ...rows];
    const first = resetBefore(this.#session.shared);
    const mark = markOf(this.#table.target, this.#session.facts);
    const opening = this.#opening(before, steps);
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
    const first = resetBefore(this.#session.shared);
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
    return outcomeOf(reply) ?? tableChangedBy(reply);
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
    const first = resetBefore(this.#session.shared);
    const opening = this.#opening(before, steps);
    const [, reply = lost] = await this.#session.send(
      inTurn([beginMessage, ...first.messages], opening, this.#session.execute(then), [
        syncMessage,
        abortMessage,
      ]),
      [1, first.count + steps.length, 1],
    );
    return standing(reply.kind === 'failed' ? told(reply, steps, first.count) : reply);
  }
}

const savepoint = 'headgate';
const beginMessage = queryMessage('begin isolation level read committed');
const rollbackMessage = queryMessage(`rollback to savepoint ${savepoint}`);
const commitMessage = queryMessage('commit');

/**
 * After a unit that succeeded this marks its end, and after one that failed it fails, too: either way rolling back
 * to the latest mark keeps exactly the units that succeeded. Code that fires late sees the path that other code has seen.
 */
function markOf(target: Target, facts: SessionFacts): { readonly message: Buffer; readonly count: number } {
  const mark = `savepoint ${savepoint}`;
  const fire = 'set constraints all immediate';
  const inTurn = (...all: readonly string[]) => ({
    message: queryMessage(all.join('; ')),
    count: all.length,
  });
  if (runsNoCode(target)) return inTurn(fire, mark);
  const path = (to: string) => `select pg_catalog.set_config('search_path', ${quoteLiteral(to)}, true)`;
  return inTurn(path(facts.path), fire, path(safePath), mark);
}

function asAttempt(reply: EngineReply | StoreAttempt): StoreAttempt {
  return reply.kind === 'done' ? { kind: 'committed' } : reply;
}
