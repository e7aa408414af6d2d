/**
 * The session of one connection that stores rows: sends its transactions, each in one write (round-trip.ts), and knows how much time is left. Returns
 * the outcome of each; a connection that was lost is not used again.
 */
import type { PoolClient } from 'pg';
import type { Limits } from '../config/limits.ts';
import type { StageContext } from '../observe/context.ts';
import type { Target } from '../types/target.ts';
import { connectionOf } from './commit-connection.ts';
import { executeSteps, statementsOf } from './statement-step.ts';
import type { CommitConnection, Reset, SessionFacts } from './commit-connection.ts';
import type { PreparedStatement, PreparedStatements } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import type { CommitPools } from './commit-pools.ts';
import { failedHere, isForgotten, isInDoubt, isRaised, told } from './interpret-reply.ts';
import { lost } from './engine-reply.ts';
import { roundTrip } from './round-trip.ts';
import type { EngineReply, StoreAttempt } from './engine-reply.ts';
import type { TransactionEnd } from './transaction-status.ts';
import type { TransactionSettings } from './transaction-statements.ts';
import { queryMessage, syncMessage } from './wire-message.ts';

export interface CommitContext extends StageContext {
  readonly pools: CommitPools;
}

export class CommitSession {
  readonly client: PoolClient;
  /** A pooler lends the session to others between transactions: nothing is known of its settings. */
  readonly shared: boolean;
  /** The statements that exist on the connection. */
  readonly prepared: PreparedStatements;
  protected readonly context: CommitContext;
  protected readonly target: Target;
  readonly #connection: CommitConnection;
  readonly #deadline: number;
  /** Engine-side bound on one statement, in ms; null: that of the connection. */
  readonly #timeoutMs: number | null;
  #usable = true;

  /** `ackTimeoutMs`: how long whoever waits for the transactions does, since `startedMs`. */
  constructor(
    context: CommitContext,
    target: Target,
    client: PoolClient,
    startedMs: number,
    ackTimeoutMs: number,
  ) {
    this.client = client;
    this.shared = context.pools.isShared(client);
    this.context = context;
    this.target = target;
    this.#connection = connectionOf(client);
    this.prepared = this.#connection.prepared;
    this.#deadline = startedMs + ackTimeoutMs;
    this.#timeoutMs = statementTimeoutMs(ackTimeoutMs, this.shared, context.limits);
  }

  get facts(): SessionFacts {
    return this.#connection.facts;
  }

  /** Whether the connection may be lent again. */
  get usable(): boolean {
    return this.#usable;
  }

  /** Whether nothing that the session remembers by name is used: between two transactions it may be another one. */
  get isNameless(): boolean {
    return this.shared || this.prepared.isForgetful;
  }

  get leftMs(): number {
    return this.#deadline - this.context.clock();
  }

  /** The settings of each transaction. */
  settings({ waitsForDisk }: Target): TransactionSettings {
    const commit = waitsForDisk ? (this.shared ? 'at least on' : 'as it is') : 'off';
    return { commit, timeoutMs: this.#timeoutMs };
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
    // null, as a rule: only a session in which code has run is reset.
    const reset = this.#connection.takeReset();
    const replies =
      reset === null
        ? await roundTrip(this.client, messages, expected, left)
        : await this.#afterReset(reset, messages, expected, left);
    if (replies.some((reply) => reply.kind === 'lost')) this.#usable = false;
    // The server has become a standby: this connection remains one to a standby.
    if (replies.some((reply) => reply.kind === 'failed' && reply.sqlstate === '25006' && !isRaised(reply))) {
      this.#usable = false;
      this.context.pools.readOnly(this.target);
    }
    return replies;
  }

  /** What code has left in the session is removed first, in a transaction of its own. */
  async #afterReset(
    { sql, count }: Reset,
    messages: Iterable<Buffer>,
    expected: readonly number[],
    left: number,
  ): Promise<EngineReply[]> {
    const all = inTurn([queryMessage(sql)], messages);
    const [done, ...replies] = await roundTrip(this.client, all, [count, ...expected], left);
    if (done?.kind !== 'done') this.#usable = false;
    return replies;
  }

  /** The outcome of a transaction: if its end was lost, or left in doubt, the server is asked for it. */
  async settled(reply: EngineReply): Promise<StoreAttempt> {
    if (reply.kind === 'done') return { kind: 'committed' };
    if (reply.kind === 'failed' && !isInDoubt(reply)) return reply;
    const { kind, xid } = reply;
    const fate = xid === null ? null : await (kind === 'lost' ? this.fateOf(xid) : this.fateHere(xid));
    if (fate === 'committed') return { kind: 'committed' };
    if (reply.kind === 'failed')
      return fate === 'aborted' ? reply : { kind: 'lost', reason: `${reply.sqlstate} ${reply.message}` };
    if (fate === 'aborted') return failedHere('08006', `rolled back: ${reply.reason}`);
    return reply;
  }

  /** The fate of a transaction whose end was lost with the connection; null: unknown, as for requests from the disk, whose position will tell. Called at most once. */
  protected fateOf(_xid: string): Promise<TransactionEnd | null> {
    return unknown;
  }

  /** The same, asked on this connection, which has answered. */
  protected fateHere(_xid: string): Promise<TransactionEnd | null> {
    return unknown;
  }

  /**
   * Stores rows by `statement`, which `then` executes; `before` locks and checks the table. There is no BEGIN: all of it is one implicit transaction,
   * which the Sync at its end commits, and `committed` means that the engine has said so. If it fails, nothing is stored, and another way of
   * storing may tell better what is wrong with the rows or the table. `'not worth it'`: nothing was sent to the engine, because the connection
   * prepares nothing, or has no room for one more statement.
   */
  async storePrepared(
    statement: PreparedStatement,
    before: readonly StatementStep[],
    then: readonly StatementStep[],
  ): Promise<StoreAttempt | 'not worth it'> {
    if (this.isNameless || !this.prepared.isWorthwhile(statement)) return 'not worth it';
    const steps = [...before, ...then];
    const messages = [...this.opening(before, steps, true), ...this.execute(then), syncMessage];
    const [reply = lost] = await this.send(messages, [steps.length]);
    if (reply.kind === 'done') {
      this.prepared.succeeded();
      return { kind: 'committed' };
    }
    if (isForgotten(reply)) this.prepared.forgotten();
    return this.settled(reply.kind === 'failed' ? told(reply, steps, 0) : reply);
  }

  /** `again`: everything, because the connection may have forgotten something. */
  prepare(steps: readonly StatementStep[], again = false): Buffer[] {
    return this.isNameless ? [] : this.prepared.prepare(statementsOf(steps), again);
  }

  /**
   * The first steps, and what has to be prepared for all of them. Preparing a statement locks the tables in it. `late`: that comes after the locks that
   * the first steps take, and after what they say. `again`: see `prepare`.
   */
  opening(
    before: readonly StatementStep[],
    steps: readonly StatementStep[],
    late: boolean,
    again = false,
  ): readonly Buffer[] {
    const prepare = this.prepare(steps, again);
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

const unknown = Promise.resolve(null);

export const abortMessage = queryMessage('rollback');

export function* inTurn(...parts: readonly Iterable<Buffer>[]): Generator<Buffer> {
  for (const part of parts) yield* part;
}

/** As a rule null: the connection's own setting is enough, because the group waits no longer than a single webhook or, in the gateway, than any events. */
function statementTimeoutMs(
  ackTimeoutMs: number,
  shared: boolean,
  { ackDeadlineMs, commitStatementTimeoutMs }: Pick<Limits, 'ackDeadlineMs' | 'commitStatementTimeoutMs'>,
): number | null {
  if (ackTimeoutMs <= ackDeadlineMs) return shared ? commitStatementTimeoutMs : null;
  return ackTimeoutMs - (ackDeadlineMs - commitStatementTimeoutMs);
}
