/**
 * One connection that works on one group: sends its transactions, each in one write, and knows how much time is left.
 * Returns the outcome of each; a connection that was lost is not used again.
 */
import type { PoolClient } from 'pg';
import type { Outcome } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { failedHere, isInDoubt, isRaised, foundBy, standing, told, isForgotten } from './interpret-reply.ts';
import { connectionOf, executeSteps, statementsOf } from './commit-connection.ts';
import type {
  CommitConnection,
  SessionFacts,
  PreparedStatements,
  PreparedStatement,
  StatementStep,
} from './commit-connection.ts';
import { roundTrip } from './round-trip.ts';
import type { LostConnection, EngineReply } from './round-trip.ts';
import type { TransactionSettings } from './table-statements.ts';
import type { StoreAttempt } from './interpret-reply.ts';
import { queryMessage, syncMessage } from './wire-message.ts';

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
  /** The statements that exist on the connection. */
  readonly prepared: PreparedStatements;
  #usable = true;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#connection = connectionOf(options.client);
    this.prepared = this.#connection.prepared;
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
    return this.#options.shared || this.prepared.isForgetful;
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
    if (this.isNameless || !this.prepared.isWorthwhile(statement)) return 'not worth it';
    const steps = [...before, ...then];
    const messages = [...this.opening(before, this.prepare(steps), true), ...this.execute(then), syncMessage];
    const [reply = lost] = await this.send(messages, [steps.length]);
    if (reply.kind === 'done') {
      this.prepared.succeeded();
      return { kind: 'committed' };
    }
    if (isForgotten(reply)) this.prepared.forgotten();
    return this.settled(reply.kind === 'failed' ? told(reply, steps, 0) : reply);
  }

  /**
   * Stores rows of several tables in one transaction: all of them, or none. `kept`: where the statements of `own` are kept; null:
   * there are none.
   */
  async storeShared(rows: SharedRows, kept: PreparedStatements | null): Promise<StoreAttempt> {
    const messages = [
      ...this.prepare([rows.opening]),
      ...this.execute([rows.opening]),
      // May wait for a lock on its table.
      ...(kept?.prepare(rows.own) ?? []),
      ...rows.messages,
      syncMessage,
    ];
    const [reply = lost] = await this.send([Buffer.concat(messages)], [rows.count]);
    for (const prepared of [this.prepared, kept]) {
      if (reply.kind === 'done') prepared?.succeeded();
      if (isForgotten(reply)) prepared?.forgotten();
    }
    return this.settled(reply);
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

  /** `again`: everything, because the connection may have forgotten something. */
  prepare(steps: readonly StatementStep[], again = false): Buffer[] {
    return this.isNameless ? [] : this.prepared.prepare(statementsOf(steps), again);
  }

  /**
   * The first steps, and what has to be prepared. Preparing a statement locks the tables in it. `late`: that comes after the locks that the
   * first steps take, and after what they say.
   */
  opening(before: readonly StatementStep[], prepare: readonly Buffer[], late: boolean): readonly Buffer[] {
    const first = [...this.execute(before)];
    // As a rule everything is prepared already.
    if (prepare.length === 0) return first;
    const ofFirst = new Set(late ? before.flatMap(({ statement }) => statement?.messages ?? []) : prepare);
    const [early, after] = [true, false].map((is) => prepare.filter((it) => ofFirst.has(it) === is));
    return [...(early ?? []), ...first, ...(after ?? [])];
  }

  execute(steps: readonly StatementStep[]): Iterable<Buffer> {
    return executeSteps(steps, this.isNameless);
  }
}

export const abortMessage = queryMessage('rollback');

export const lost: LostConnection = { kind: 'lost', reason: 'no answer', xid: null };

export function* inTurn(...parts: readonly Iterable<Buffer>[]): Generator<Buffer> {
  for (const part of parts) yield* part;
}
