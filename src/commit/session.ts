/**
 * One connection at work on one group: sends its transactions, each in one write, and knows how much time is left.
 * Gives what became of each; a connection that was lost is not used again.
 */
import type { PoolClient } from 'pg';
import { faultOf } from '../engine/sqlstate.ts';
import type { Outcome, Rows, Target } from '../flow.ts';
import { limits } from '../limits.ts';
import { refusal } from '../refusals.ts';
import { aborted, judgeGroup, tableChanged } from './judge.ts';
import { PreparedStatements } from './prepared.ts';
import type { Statement } from './prepared.ts';
import { roundTrip } from './round-trip.ts';
import type { Failed, Lost, Reply } from './round-trip.ts';
import { toRuns } from './runs.ts';
import { numberMessages, numberStatement } from './single-row.ts';
import { executeSteps, settingSteps } from './table-statements.ts';
import type { Settings, Step, TableStatements } from './table-statements.ts';
import { flushMessage, queryMessage, syncMessage } from './wire-message.ts';

/** What became of some rows that were tried. */
export type Attempt =
  | { readonly kind: 'committed' }
  | Failed
  | { readonly kind: 'lost'; readonly reason: string };

export interface SessionOptions {
  readonly client: PoolClient;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly deadline: number;
  /** Engine-side bound on one statement, in ms; null: the one that the connection has. */
  readonly statementTimeoutMs: number | null;
  /** The session is lent to others between transactions: nothing is known of its settings. */
  readonly shared: boolean;
  /** Told when the engine refuses to write. */
  readonly readOnly?: () => void;
  /** What became of a transaction whose end was lost with the connection; null: nobody knows. Called at most once. */
  readonly fateOf: (xid: string) => Promise<Fate | null>;
}

/** How a transaction has ended. */
export type Fate = 'committed' | 'aborted';

const prepared = new WeakMap<PoolClient, PreparedStatements>();

export class Session {
  readonly #options: SessionOptions;
  readonly #prepared: PreparedStatements;
  #usable = true;
  /** One row a statement: set when the engine says that one statement met a row twice. */
  #singly = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    const known = prepared.get(options.client) ?? new PreparedStatements();
    prepared.set(options.client, known);
    this.#prepared = known;
  }

  /** Whether the connection may be lent again. */
  get usable(): boolean {
    return this.#usable;
  }

  get leftMs(): number {
    return this.#options.deadline - this.#options.clock();
  }

  /** What has to be set for each transaction. */
  settings({ waitsForDisk }: Target): Settings {
    const { statementTimeoutMs: timeoutMs, shared } = this.#options;
    const commit = waitsForDisk ? (shared ? 'at least on' : 'as it is') : 'off';
    return { commit, timeoutMs };
  }

  /** Sends messages with so many answers (see roundTrip); never fails, and fails at once when no time is left. */
  async send(messages: Iterable<Buffer>, expected: readonly number[]): Promise<Reply[]> {
    if (!this.#usable) return expected.map(() => failed('08003', 'the connection was lost'));
    const left = this.leftMs;
    if (left <= 0) return expected.map(() => failed('57014', 'deadline'));
    const replies = await roundTrip(this.#options.client, messages, expected, left);
    if (replies.some((reply) => reply.kind === 'lost')) this.#usable = false;
    // The server became a standby: this connection stays one to a standby.
    if (replies.some((reply) => reply.kind === 'failed' && reply.sqlstate === '25006')) {
      this.#usable = false;
      this.#options.readOnly?.();
    }
    return replies;
  }

  /** What became of a transaction: where its end was lost, another connection is asked. */
  async settled(reply: Reply): Promise<Attempt> {
    if (reply.kind !== 'lost') return asAttempt(reply);
    const fate = reply.xid === null ? null : await this.#options.fateOf(reply.xid);
    if (fate === 'committed') return { kind: 'committed' };
    if (fate === 'aborted') return failed('08006', `rolled back: ${reply.reason}`);
    return reply;
  }

  /**
   * Stores one row by a prepared statement; null: nothing is stored, and there may be something about the row or the
   * table that another way of storing it tells better. `'not worth it'`: nothing was asked of the engine.
   */
  async storeSingle(
    statement: Statement,
    execute: readonly Buffer[],
  ): Promise<Attempt | 'not worth it' | null> {
    if (!this.#prepared.isWorthwhile(statement)) return 'not worth it';
    const prepare = this.#prepared.prepare([numberStatement, statement]);
    // Already preparing the other one may wait for a lock on the table.
    const first = prepare[0] === numberStatement.messages[0] ? numberStatement.messages.length : 0;
    const messages = [
      ...prepare.slice(0, first),
      ...numberMessages,
      ...prepare.slice(first),
      ...execute,
      syncMessage,
    ];
    const [reply = lost] = await this.send(messages, [2]);
    if (reply.kind === 'lost') return this.settled(reply);
    if (reply.kind === 'failed') {
      if (reply.sqlstate === statementMissing) this.#prepared.forgotten();
      return faultOf(reply.sqlstate) === 'transient' ? reply : null;
    }
    this.#prepared.succeeded();
    return { kind: 'committed' };
  }

  /** Stores the rows of these members in one transaction. */
  async store(table: TableStatements, members: readonly Rows[]): Promise<Attempt> {
    const rows = this.#steps(table, members);
    const steps = [...this.#before(table, rows), ...rows, table.confirm];
    for (let tries = 1; ; tries++) {
      const statements = steps.map((step) => step.statement);
      const prepare = this.#prepared.prepare(statements);
      // The number of the transaction is sent out before its commit begins.
      const messages = inTurn(prepare, executeSteps(steps), [flushMessage, syncMessage]);
      const [reply = lost] = await this.send(messages, [steps.length]);
      if (reply.kind === 'done') {
        this.#prepared.succeeded();
        return { kind: 'committed' };
      }
      if (reply.kind === 'failed') {
        if (reply.sqlstate === statementMissing && tries === 1) {
          this.#prepared.forgotten();
          continue;
        }
        if (reply.completed === steps.length - 1 && reply.sqlstate === '22P02')
          return failed(tableChanged, 'the table has changed');
        if (reply.sqlstate === metTwice && !this.#singly) {
          this.#singly = true;
          return this.store(table, members);
        }
      }
      return this.settled(reply);
    }
  }

  /**
   * Stores the rows of these units in one transaction, each on its own: what one of them fails with undoes nothing of
   * the others. One attempt for each, in order.
   */
  async storeEach(table: TableStatements, units: readonly (readonly Rows[])[]): Promise<Attempt[]> {
    const steps = units.map((members) => this.#steps(table, members));
    const before = this.#before(table, steps.flat());
    const messages = [beginMessage, ...this.#prepareAgain([...before, ...steps.flat(), table.confirm])];
    messages.push(...executeSteps(before), syncMessage, savepointMessage);
    const expected = [1, before.length, 2];
    for (const unit of steps) {
      messages.push(...executeSteps(unit), syncMessage, savepointMessage, rollbackMessage);
      expected.push(unit.length, 2, 1);
    }
    messages.push(...executeSteps([table.confirm]), syncMessage, commitMessage);
    expected.push(1, 1);
    const replies = await this.send(messages, expected);
    const [confirmed = lost, ended = lost] = replies.slice(-2);
    const committed =
      ended.kind === 'lost' && confirmed.kind === 'done'
        ? await this.settled({ ...ended, xid: confirmed.xid })
        : ended;
    const opened = replies.slice(0, 3).find((reply) => reply.kind !== 'done');
    if (opened !== undefined) return units.map(() => asAttempt(opened));
    if (ended.kind === 'done' && ended.tag === 'COMMIT') this.#prepared.succeeded();
    return units.map((_, i) => {
      const [stored = lost, checked = lost] = replies.slice(3 + 3 * i);
      // A table that has changed refuses nobody.
      if (confirmed.kind === 'failed')
        return confirmed.sqlstate === '22P02' ? failed(tableChanged, 'the table has changed') : confirmed;
      if (stored.kind === 'failed') return stored;
      if (checked.kind === 'failed') return checked;
      if (committed.kind === 'done' && committed.tag !== 'COMMIT')
        return failed('40000', 'the transaction was rolled back');
      return asAttempt(committed);
    });
  }

  /** What storing these rows would fail with, or null; stores nothing. */
  async wouldFail(table: TableStatements, members: readonly Rows[]): Promise<Failed | null> {
    const rows = this.#steps(table, members);
    const steps = [...this.#before(table, rows), ...rows];
    const prepare = [beginMessage, ...this.#prepareAgain(steps)];
    const replies = await this.send(
      inTurn(prepare, executeSteps(steps), [syncMessage, checkMessage, abortMessage]),
      [1, steps.length, 1, 1],
    );
    return replies.find((reply) => reply.kind === 'failed') ?? null;
  }

  /** null: the table is the one of the target; otherwise the outcome of rows that were made for it. */
  async confirm(table: TableStatements): Promise<Outcome | null> {
    const { statement, messages } = table.confirm;
    const [reply = lost] = await this.send(
      [...this.#prepared.prepare([statement], true), ...messages(), syncMessage],
      [1],
    );
    if (reply.kind === 'done') return null;
    if (reply.kind === 'lost') return aborted(refusal('engine_unavailable'));
    return judgeGroup(reply) ?? aborted(refusal('table_changed'));
  }

  /** Whether the table has a primary key now. */
  async hasKey({ oid }: Target): Promise<boolean> {
    const has = 'exists (select from pg_catalog.pg_index where indisprimary and indrelid';
    const sql = `select (case when ${has} = ${oid}) then 'a key' else 'true' end)::bool`;
    const [reply] = await this.send([queryMessage(sql)], [1]);
    return reply?.kind === 'failed' && reply.sqlstate === '22P02';
  }

  /** What every transaction begins with. */
  #before(table: TableStatements, rows: readonly Step[]): Step[] {
    return [...settingSteps(this.settings(table.target)), ...table.lock(rows)];
  }

  #steps(table: TableStatements, members: readonly Rows[]): Step[] {
    const rowsMax = this.#singly ? 1 : Infinity;
    return table.steps(toRuns(members, { rowsMax, bytesMax: limits.groupBytesMax }));
  }

  /** Where much depends on it, nothing is left to what the connection may have forgotten. */
  #prepareAgain(steps: readonly Step[]): Buffer[] {
    return this.#prepared.prepare(
      steps.map((step) => step.statement),
      true,
    );
  }
}

const statementMissing = '26000';
/** One statement met the same row twice: keys that differ in a document are one key to the engine. */
const metTwice = '21000';

const savepoint = 'headgate';
const beginMessage = queryMessage('begin isolation level read committed');
/**
 * After a unit that succeeded this marks where it ended, and after one that failed it fails too: either way going back
 * to the latest mark leaves exactly the units that succeeded.
 */
const savepointMessage = queryMessage(`set constraints all immediate; savepoint ${savepoint}`);
const rollbackMessage = queryMessage(`rollback to savepoint ${savepoint}`);
const checkMessage = queryMessage('set constraints all immediate');
const commitMessage = queryMessage('commit');
const abortMessage = queryMessage('rollback');

const lost: Lost = { kind: 'lost', reason: 'no answer', xid: null };

function* inTurn(...parts: readonly Iterable<Buffer>[]): Generator<Buffer> {
  for (const part of parts) yield* part;
}

function asAttempt(reply: Reply | Attempt): Attempt {
  return reply.kind === 'done' ? { kind: 'committed' } : reply;
}

function failed(sqlstate: string, message: string): Failed {
  return {
    kind: 'failed',
    sqlstate,
    message,
    completed: 0,
    constraint: null,
    column: null,
    placed: false,
    where: '',
  };
}
