/**
 * One connection that works on one group: sends its transactions, each in one write, and knows how much time is left.
 * Returns the outcome of each; a connection that was lost is not used again.
 */
import type { PoolClient } from 'pg';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { isUndecided } from './newest-statements.ts';
import { refusal } from '../errors/refusals.ts';
import { claimSteps } from './deliveries.ts';
import { aborted, failedHere, isInDoubt, isRaised, outcomeOf } from './error-cause.ts';
import { connectionOf } from './commit-connection.ts';
import type { CommitConnection, SessionFacts } from './commit-connection.ts';
import { isPlain } from './lock-table.ts';
import type { PreparedStatements, PreparedStatement } from './prepared.ts';
import { roundTrip } from './round-trip.ts';
import type { Failed, LostConnection, EngineReply } from './round-trip.ts';
import { toRuns } from './group-statements.ts';
import { executeSteps, settingSteps, statementsOf } from './table-statements.ts';
import type { TransactionSettings, StatementStep, TableStatements } from './table-statements.ts';
import { asAttempt, committed, foundBy, isForgotten, standing, told } from './interpret-reply.ts';
import type { StoreAttempt, UnitAttempts } from './interpret-reply.ts';
import { flushMessage, queryMessage, syncMessage } from './wire-message.ts';
import { cleanUp, markOf, nothing, pathIsSafe, savepoint } from './session-reset.ts';
import type { ResetSettings } from './session-reset.ts';

export interface SessionOptions {
  readonly client: PoolClient;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly deadline: number;
  /** Engine-side bound on one statement, in ms; null: that of the connection. */
  readonly statementTimeoutMs: number | null;
  /** A pooler lends the session to others between transactions: nothing is known of its settings. */
  readonly shared: boolean;
  /** Called when the engine refuses to write. */
  readonly readOnly?: () => void;
  /** The fate of a transaction whose end was lost with the connection; null: unknown. Called at most once. */
  readonly fateOf: (xid: string) => Promise<TransactionEnd | null>;
  /** The same, asked on this connection, which has answered. */
  readonly fateHere: (xid: string) => Promise<TransactionEnd | null>;
}

/** Rows of several tables. */
export interface SharedRows {
  /** What is sent before anything is locked. */
  readonly opening: StatementStep;
  /** Statements of the tables that the connection keeps. */
  readonly own: readonly PreparedStatement[];
  readonly messages: readonly Buffer[];
  /** How many statements are executed. */
  readonly count: number;
}

/** How a transaction has ended. */
export type TransactionEnd = 'committed' | 'aborted';

export class CommitSession {
  readonly #options: SessionOptions;
  readonly #connection: CommitConnection;
  readonly #prepared: PreparedStatements;
  #usable = true;
  /** One row per statement: set when the engine reports that one statement met a row twice. */
  #singly = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#connection = connectionOf(options.client);
    this.#prepared = this.#connection.prepared;
  }

  get facts(): SessionFacts {
    return this.#connection.facts;
  }

  /** Whether the connection may be lent again. */
  get usable(): boolean {
    return this.#usable;
  }

  /** Whether others use it between transactions. */
  get shared(): boolean {
    return this.#options.shared;
  }

  /** Whether nothing that the session remembers by name is used: between two transactions it may be another one. */
  get isNameless(): boolean {
    return this.#options.shared || this.#prepared.isForgetful;
  }

  get leftMs(): number {
    return this.#options.deadline - this.#options.clock();
  }

  /** The settings of each transaction. */
  settings({ waitsForDisk }: Target): TransactionSettings {
    const { statementTimeoutMs: timeoutMs, shared } = this.#options;
    const commit = waitsForDisk ? (shared ? 'at least on' : 'as it is') : 'off';
    return { commit, timeoutMs };
  }

  /** What synchronous_commit has to be when the transaction ends, whatever code has set. */
  commitOf({ waitsForDisk }: Target): string {
    return waitsForDisk ? this.facts.commit : 'off';
  }

  /** Sends messages with so many answers (see roundTrip); never rejects, and fails at once when no time is left. */
  async send(messages: Iterable<Buffer>, expected: readonly number[]): Promise<EngineReply[]> {
    if (!this.#usable) return expected.map(() => failedHere('08003', 'the connection was lost'));
    const left = this.leftMs;
    if (left <= 0) return expected.map(() => failedHere('57014', 'deadline'));
    const replies = await this.#exchange(messages, expected, left);
    if (replies.some((reply) => reply.kind === 'lost')) this.#usable = false;
    // The server has become a standby: this connection remains one to a standby.
    if (replies.some((reply) => reply.kind === 'failed' && reply.sqlstate === '25006' && !isRaised(reply))) {
      this.#usable = false;
      this.#options.readOnly?.();
    }
    return replies;
  }

  /** What code has left in the session is removed first, in a transaction of its own. */
  async #exchange(
    messages: Iterable<Buffer>,
    expected: readonly number[],
    left: number,
  ): Promise<EngineReply[]> {
    const { client } = this.#options;
    const reset = this.#connection.takeReset();
    if (reset === null) return roundTrip(client, messages, expected, left);
    const all = inTurn([queryMessage(reset.sql)], messages);
    const [done, ...replies] = await roundTrip(client, all, [reset.count, ...expected], left);
    if (done?.kind !== 'done') this.#usable = false;
    return replies;
  }

  /** The outcome of a transaction: if its end was lost, or left in doubt, the server is asked for it. */
  async settled(reply: EngineReply): Promise<StoreAttempt> {
    if (reply.kind === 'done') return { kind: 'committed' };
    if (reply.kind === 'failed' && !isInDoubt(reply)) return reply;
    const fate = reply.xid === null ? null : await this.#fateOf(reply, reply.xid);
    if (fate === 'committed') return { kind: 'committed' };
    if (reply.kind === 'failed')
      return fate === 'aborted' ? reply : { kind: 'lost', reason: `${reply.sqlstate} ${reply.message}` };
    if (fate === 'aborted') return failedHere('08006', `rolled back: ${reply.reason}`);
    return reply;
  }

  #fateOf({ kind }: EngineReply, xid: string): Promise<TransactionEnd | null> {
    const { fateOf, fateHere } = this.#options;
    return kind === 'lost' ? fateOf(xid) : fateHere(xid);
  }

  /**
   * Stores rows by `statement`, which `then` executes; `before` locks and checks the table. If it fails, nothing is stored, and another way of
   * storing may tell better what is wrong with the rows or the table. `'not worth it'`: nothing was sent to the engine.
   */
  async storePrepared(
    statement: PreparedStatement,
    before: readonly StatementStep[],
    then: readonly StatementStep[],
  ): Promise<StoreAttempt | 'not worth it'> {
    if (this.isNameless || !this.#prepared.isWorthwhile(statement)) return 'not worth it';
    const steps = [...before, ...then];
    const messages = [
      ...this.#opening(before, this.#prepare(steps), true),
      ...this.#execute(then),
      syncMessage,
    ];
    const [reply = lost] = await this.send(messages, [steps.length]);
    if (reply.kind === 'done') this.#prepared.succeeded();
    if (isForgotten(reply)) this.#prepared.forgotten();
    return reply.kind === 'failed' ? this.settled(told(reply, steps, 0)) : this.settled(reply);
  }

  /**
   * Stores rows of several tables in one transaction: all of them, or none. `kept`: where the statements of `own` are kept; null:
   * there are none.
   */
  async storeShared(rows: SharedRows, kept: PreparedStatements | null): Promise<StoreAttempt> {
    const messages = [
      ...this.#prepare([rows.opening]),
      ...this.#execute([rows.opening]),
      // May wait for a lock on its table.
      ...(kept?.prepare(rows.own) ?? []),
      ...rows.messages,
      syncMessage,
    ];
    const [reply = lost] = await this.send([Buffer.concat(messages)], [rows.count]);
    for (const prepared of [this.#prepared, kept]) {
      if (reply.kind === 'done') prepared?.succeeded();
      if (isForgotten(reply)) prepared?.forgotten();
    }
    return this.settled(reply);
  }

  /** Stores the rows of these members in one transaction. `mayTry`: see TableStatements.steps. */
  async store(table: TableStatements, members: readonly Rows[], mayTry = true): Promise<StoreAttempt> {
    const rows = this.#steps(table, members, mayTry);
    const trials = rows.find((step) => step.trials !== undefined)?.trials;
    const before = this.#before(table, rows);
    const then = table.isHeldFor(rows) ? rows : [...rows, ...this.#after(table)];
    const steps = [...before, ...then];
    const first = this.#first;
    const last = this.#last(table.target);
    for (let tries = 1; ; tries++) {
      const opening = this.#opening(before, this.#prepare(steps), isLate(table));
      // The number of the transaction is sent before its commit begins.
      const messages = inTurn(first.messages, opening, this.#execute(then), last.messages, [
        flushMessage,
        syncMessage,
      ]);
      const [reply = lost] = await this.send(messages, [first.count + steps.length + last.count]);
      if (reply.kind === 'done') {
        this.#prepared.succeeded();
        trials?.passed();
        return committed(reply, steps, first.count, members);
      }
      if (reply.kind === 'failed') {
        if (isForgotten(reply) && tries === 1) {
          this.#prepared.forgotten();
          continue;
        }
        const known = told(reply, steps, first.count);
        if (known !== reply) return known;
        if (trials !== undefined && isUndecided(reply)) {
          trials.failed();
          return this.store(table, members, false);
        }
        if (reply.sqlstate === metTwice && !this.#singly) {
          this.#singly = true;
          return this.store(table, members);
        }
      }
      return this.settled(reply);
    }
  }

  /**
   * Stores the rows of these units in one transaction, each on its own: the failure of one of them undoes nothing of
   * the others. Returns one attempt for each, in order.
   */
  async storeEach(table: TableStatements, units: readonly (readonly Rows[])[]): Promise<UnitAttempts> {
    const all = (end: StoreAttempt) => ({ attempts: units.map(() => end), end });
    const steps = units.map((members) => this.#steps(table, members));
    const before = this.#before(table, steps.flat());
    const after = this.#after(table);
    const [first, last] = [this.#first, this.#last(table.target)];
    const mark = markOf(table.target, this.facts);
    const send = () => {
      const prepare = this.#prepare([...before, ...steps.flat(), ...after], true);
      const messages = [beginMessage, ...first.messages, ...this.#opening(before, prepare, isLate(table))];
      messages.push(syncMessage, mark.message);
      const expected = [1, first.count + before.length, mark.count];
      for (const unit of steps) {
        messages.push(...this.#execute(unit), syncMessage, mark.message, rollbackMessage);
        expected.push(unit.length, mark.count, 1);
      }
      messages.push(...this.#execute(after), ...last.messages, syncMessage, commitMessage);
      expected.push(after.length + last.count, 1);
      return this.send(messages, expected);
    };
    const replies = await send();
    const [confirmed = lost, ended = lost] = replies.slice(-2);
    const settled =
      ended.kind !== 'done' && confirmed.kind === 'done'
        ? await this.settled({
            ...ended,
            xid: confirmed.xid,
            ...(ended.kind === 'failed' && { atCommit: true }),
          })
        : ended;
    const opened = replies.slice(0, 3).find((reply) => reply.kind !== 'done');
    if (opened !== undefined) return all(told(asAttempt(opened), before, first.count));
    if (ended.kind === 'done' && ended.tag === 'COMMIT') this.#prepared.succeeded();
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
  async wouldFail(table: TableStatements, members: readonly Rows[]): Promise<Failed | null> {
    const rows = this.#steps(table, members);
    const before = this.#before(table, rows);
    const steps = [...before, ...rows];
    const first = this.#first;
    const mark = markOf(table.target, this.facts);
    const opening = this.#opening(before, this.#prepare(steps, true), isLate(table));
    const replies = await this.send(
      inTurn([beginMessage, ...first.messages], opening, this.#execute(rows), [
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
  async confirm(table: TableStatements): Promise<Outcome | null> {
    const first = this.#first;
    const steps = [table.confirm];
    const [reply = lost] = await this.send(
      [...first.messages, ...this.#prepare(steps, true), ...this.#execute(steps), syncMessage],
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
  async takesNoRows(table: TableStatements): Promise<Outcome | null> {
    const rows = table.noRows(this.facts, this.commitOf(table.target));
    const before = this.#before(table, rows);
    const then = [...rows, table.confirm];
    const steps = [...before, ...then];
    const first = this.#first;
    const opening = this.#opening(before, this.#prepare(steps, true), isLate(table));
    const [, reply = lost] = await this.send(
      inTurn([beginMessage, ...first.messages], opening, this.#execute(then), [syncMessage, abortMessage]),
      [1, first.count + steps.length, 1],
    );
    return standing(reply.kind === 'failed' ? told(reply, steps, first.count) : reply);
  }

  /** The same by a Query of `count` statements, of which the first opens a transaction and those at `checks` confirm the table. */
  async takesNoRowsBy(
    query: readonly Buffer[],
    count: number,
    checks: readonly number[],
  ): Promise<Outcome | null> {
    const [reply = lost] = await this.send([...query, abortMessage], [count, 1]);
    return standing(foundBy(reply, checks) ?? reply);
  }

  /** Whether the table has a primary key now. */
  async hasKey({ oid }: Target): Promise<boolean> {
    const has =
      'exists (select from pg_catalog.pg_index where indisprimary and indrelid operator(pg_catalog.=)';
    const sql = `select (case when ${has} ${oid}::pg_catalog.oid) then 'a key' else 'true' end)::pg_catalog.bool`;
    const [reply] = await this.send([queryMessage(sql)], [1]);
    return reply?.kind === 'failed' && reply.sqlstate === '22P02';
  }

  /** The first steps of every transaction. */
  #before(table: TableStatements, rows: readonly StatementStep[]): StatementStep[] {
    const { target } = table;
    return [...settingSteps(this.settings(target)), ...table.before(rows)];
  }

  #after(table: TableStatements): StatementStep[] {
    return table.after(this.facts);
  }

  get #first(): ResetSettings {
    return this.#options.shared ? pathIsSafe : nothing;
  }

  #last(target: Target): ResetSettings {
    return this.#options.shared && !isPlain(target) ? cleanUp(this.commitOf(target)) : nothing;
  }

  #steps(table: TableStatements, members: readonly Rows[], mayTry = false): StatementStep[] {
    const rowsMax = this.#singly ? 1 : Infinity;
    const runs = toRuns(members, { rowsMax, bytesMax: limits.groupBytesMax });
    const rows = table.steps(runs, this.facts, this.commitOf(table.target), mayTry);
    return [...claimSteps(table.target, members), ...rows];
  }

  /** `again`: everything, because the connection may have forgotten something. */
  #prepare(steps: readonly StatementStep[], again = false): Buffer[] {
    return this.isNameless ? [] : this.#prepared.prepare(statementsOf(steps), again);
  }

  /**
   * The first steps, and what has to be prepared. Preparing a statement locks the tables in it. `late`: that comes after the locks that the
   * first steps take, and after what they say.
   */
  #opening(before: readonly StatementStep[], prepare: readonly Buffer[], late: boolean): readonly Buffer[] {
    const first = [...this.#execute(before)];
    // As a rule everything is prepared already.
    if (prepare.length === 0) return first;
    const ofFirst = new Set(late ? before.flatMap(({ statement }) => statement?.messages ?? []) : prepare);
    const [early, after] = [true, false].map((is) => prepare.filter((it) => ofFirst.has(it) === is));
    return [...(early ?? []), ...first, ...(after ?? [])];
  }

  #execute(steps: readonly StatementStep[]): Iterable<Buffer> {
    return executeSteps(steps, this.isNameless);
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
const abortMessage = queryMessage('rollback');

const lost: LostConnection = { kind: 'lost', reason: 'no answer', xid: null };

function* inTurn(...parts: readonly Iterable<Buffer>[]): Generator<Buffer> {
  for (const part of parts) yield* part;
}
