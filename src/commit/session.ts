/**
 * One connection that works on one group: sends its transactions, each in one write, and knows how much time is left.
 * Returns the outcome of each; a connection that was lost is not used again.
 *
 * Everything that a transaction needs is written at once; the engine says that it is ready once for every Query and every Sync in it, and each of
 * these answers becomes one reply (`roundTrip`): `done` only if the backend has said that it is idle again and every statement had completed;
 * `failed` if the backend refused with an ERROR and is ready again, which ends an implicit transaction with nothing stored; `lost` for
 * everything else (the connection ended, even after an ERROR; a FATAL; silence past the deadline), when nobody knows. What was
 * committed on this server alone, because somebody cut short the wait for its standby, is `lost`, too: it may be gone with the server.
 *
 * A statement may return the number of its transaction in a row of its own, `xid 1234`: with it, another connection can be
 * asked for the fate of a transaction whose end was lost. Another row, `stale 0 7`, says which rows were not newer, as the tag `INSERT 0 0` does of one.
 */
import type { PoolClient, ClientBase, Connection, DatabaseError } from 'pg';
import type { Target } from '../types/target.ts';
import { failedHere, isInDoubt, isRaised, told, isForgotten, handedOn } from './interpret-reply.ts';
import type { StoreAttempt, LostConnection, EngineReply, StalePlaces } from './engine-reply.ts';
import { connectionOf, executeSteps, statementsOf } from './commit-connection.ts';
import type {
  CommitConnection,
  Reset,
  SessionFacts,
  PreparedStatements,
  PreparedStatement,
  StatementStep,
} from './commit-connection.ts';
import type { TransactionSettings } from './transaction-statements.ts';
import { queryMessage, syncMessage } from './wire-message.ts';
import { cutOff } from '../engine/close-client.ts';

/** Of groups (GroupSession), or of requests from the disk (hand-over.ts). */
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
  readOnly(): void;
  /** The fate of a transaction whose end was lost with the connection; null: unknown. Called at most once. */
  fateOf(xid: string): Promise<TransactionEnd | null>;
  /** The same, asked on this connection, which has answered. */
  fateHere(xid: string): Promise<TransactionEnd | null>;
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
    const reset = this.#connection.takeReset();
    const replies =
      reset === null
        ? await roundTrip(this.#options.client, messages, expected, left)
        : await this.#afterReset(reset, messages, expected, left);
    if (replies.some((reply) => reply.kind === 'lost')) this.#usable = false;
    // The server has become a standby: this connection remains one to a standby.
    if (replies.some((reply) => reply.kind === 'failed' && reply.sqlstate === '25006' && !isRaised(reply))) {
      this.#usable = false;
      this.#options.readOnly();
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
    const [done, ...replies] = await roundTrip(this.#options.client, all, [count, ...expected], left);
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
    return kind === 'lost' ? this.#options.fateOf(xid) : this.#options.fateHere(xid);
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

/**
 * Writes `messages`, which hold one Query or Sync for each number in `expected`: how many statements complete before
 * it. Waits at most `timeoutMs`; a connection that stays silent is destroyed.
 *
 * An array is written at once. Any other iterable is read and written as fast as the engine takes it, and must end with
 * what the last answer answers: nothing else is written on the connection before that.
 */
export function roundTrip(
  client: ClientBase,
  messages: Iterable<Buffer>,
  expected: readonly number[],
  timeoutMs: number,
): Promise<EngineReply[]> {
  return new Promise((resolve) => {
    const replies: EngineReply[] = [];
    const end = (reply: EngineReply) => {
      replies.push(reply);
      // After an answer that never came, none will follow.
      if (reply.kind === 'lost') while (replies.length < expected.length) replies.push(reply);
      if (replies.length < expected.length) return listen([]);
      clearTimeout(timer);
      client.off('notice', notice);
      resolve(replies);
    };
    // node-postgres knows one ReadyForQuery per query object: the first object writes everything, and each of the others takes
    // its place before the engine's next message is read.
    let answer: RoundTripQuery;
    const listen = (write: Iterable<Buffer>) => {
      const isLast = replies.length === expected.length - 1;
      answer = new RoundTripQuery(client, write, expected[replies.length] ?? 0, isLast, end);
      client.query(answer);
    };
    const notice = (said: ServerMessage) => answer.heard(said);
    client.on('notice', notice);
    const timer = setTimeout(() => {
      cutOff(client);
      answer.lose('the engine did not answer in time');
    }, timeoutMs);
    listen(messages);
  });
}

/** How much is queued in a socket before it has taken what it was given, in bytes. */
const writeAheadBytesMax = 1024 * 1024;

/**
 * Whether the engine gave up waiting for a standby (pg_cancel_backend). Its text is translated and its SQLSTATE is that of
 * any warning; the function that raises it has one name in every version (src/backend/replication/syncrep.c).
 */
function isCutShort({ routine }: ServerMessage): boolean {
  return routine === 'SyncRepWaitForLSN';
}

/** A notice of the engine, or an ERROR. */
type ServerMessage = {
  readonly [
    field in 'routine' | 'code' | 'message' | 'constraint' | 'table' | 'column' | 'position' | 'where'
  ]?: string | undefined;
};

/**
 * The routine by which it says that the one server that stores the rows has not committed. What that server has said comes
 * before, as a WARNING: it is then as certain as an ERROR of the coordinator's own commit (Citus, transaction/remote_transaction.c).
 */
const notCommitted = 'ErrorIfPostCommitFailedShardPlacements';

/** A query object for node-postgres that reads up to one ReadyForQuery. */
class RoundTripQuery {
  readonly #client: ClientBase;
  readonly #messages: Iterable<Buffer>;
  readonly #statements: number;
  readonly #isLast: boolean;
  readonly #end: (reply: EngineReply) => void;
  #completed = 0;
  #tag = '';
  #xid: string | null = null;
  #stale: StalePlaces[] | null = null;
  #isCutShort = false;
  /** The ERROR of the engine, until it is ready again. */
  #error: DatabaseError | null = null;
  /** What another server has said, as a warning of the engine. */
  #elsewhere: ServerMessage | null = null;
  /** Whether the statement that is running has returned a row. */
  #hasRow = false;
  #ended = false;

  constructor(
    client: ClientBase,
    messages: Iterable<Buffer>,
    statements: number,
    isLast: boolean,
    end: (reply: EngineReply) => void,
  ) {
    this.#client = client;
    this.#messages = messages;
    this.#statements = statements;
    this.#isLast = isLast;
    this.#end = end;
  }

  heard(said: ServerMessage): void {
    if (isCutShort(said)) this.#isCutShort = true;
    if (said.routine === handedOn) this.#elsewhere = said;
  }

  lose(reason: string): void {
    this.#finish({ kind: 'lost', reason, xid: this.#xid });
  }

  submit({ stream }: Connection): void {
    const ahead = Array.isArray(this.#messages) ? Infinity : writeAheadBytesMax;
    const messages = this.#messages[Symbol.iterator]();
    const pump = () => {
      stream.cork();
      let bytes = 0;
      let next = messages.next();
      for (; next.done !== true; next = messages.next()) {
        stream.write(next.value);
        bytes += next.value.length;
        if (bytes > ahead) break;
      }
      stream.uncork();
      if (next.done === true) return;
      if (stream.writableNeedDrain) stream.once('drain', pump);
      else setImmediate(pump);
    };
    pump();
  }

  handleCommandComplete(message: { readonly text?: string }): void {
    // Of one row: it was not newer, if that can be.
    if (message.text === 'INSERT 0 0') (this.#stale ??= []).push({ completed: this.#completed, places: [0] });
    this.#completed++;
    this.#hasRow = false;
    this.#tag = message.text ?? '';
  }

  handleReadyForQuery(): void {
    if (this.#isCutShort) return this.lose('the wait for the standby was cut short');
    // All statements have completed, or this is not the answer to what was sent.
    if (this.#completed < this.#statements)
      return this.lose('the backend was ready without completing the statements');
    // Nothing is committed while a transaction is open.
    if (this.#isLast && this.#client.getTransactionStatus() !== 'I')
      return this.lose('the backend was left in a transaction');
    const done = { kind: 'done', tag: this.#tag, xid: this.#xid } as const;
    this.#finish(this.#stale === null ? done : { ...done, stale: this.#stale });
  }

  /** The engine is ready again, after an ERROR. */
  readonly #ready = (): void => {
    if (this.#error === null) return;
    const error = (this.#error.routine === notCommitted ? this.#elsewhere : null) ?? this.#error;
    if (this.#isLast && this.#client.getTransactionStatus() !== 'I')
      return this.lose('the backend was left in a transaction');
    // The last statement of a Query completes after the commit; that it has returned its row shows that it has ended.
    const left = this.#statements - this.#completed;
    this.#finish({
      kind: 'failed',
      sqlstate: error.code ?? '',
      message: error.message ?? '',
      completed: this.#completed,
      atCommit: left === 0 || (left === 1 && this.#hasRow),
      xid: this.#xid,
      constraint: error.constraint ?? null,
      table: error.table ?? null,
      column: error.column ?? null,
      placed: error.position !== undefined,
      where: error.where ?? '',
      routine: error.routine ?? null,
    });
  };

  handleError(error: Error | DatabaseError): void {
    if (!('severity' in error) || error.code === undefined) return this.lose(error.message);
    this.#error = error;
    // node-postgres takes an ERROR for the end of a query, and passes on nothing of what follows. That may be the end of
    // the connection: a FATAL, even one after an ERROR, may come after the commit that it interrupts.
    const { connection } = this.#client as unknown as { readonly connection: Connection };
    connection.on('readyForQuery', this.#ready);
    this.#client.on('error', this.#gone);
    this.#client.on('end', this.#gone);
  }

  readonly #gone = (): void => this.lose(`${this.#error?.code ?? ''} ${this.#error?.message ?? ''}`);

  handleCopyInResponse(): void {
    // The rows have already been sent.
  }

  handleRowDescription(): void {
    // See handleDataRow.
  }

  /** What else the statements return is ignored. */
  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#hasRow = true;
    for (const field of fields) {
      this.#xid = /^xid (\d+)$/.exec(field ?? '')?.[1] ?? this.#xid;
      if (field?.startsWith('stale ') === true)
        (this.#stale ??= []).push({
          completed: this.#completed,
          places: field.slice(6).split(' ').map(Number),
        });
    }
  }

  handleEmptyQuery(): void {
    // No statement is ever empty.
  }

  handlePortalSuspended(): void {
    // Portals are executed for all of their rows.
  }

  handleCopyData(): void {
    // The engine sends none during COPY FROM.
  }

  #finish(reply: EngineReply): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#error !== null) {
      const { connection } = this.#client as unknown as { readonly connection: Connection };
      connection.off('readyForQuery', this.#ready);
      this.#client.off('error', this.#gone);
      this.#client.off('end', this.#gone);
    }
    this.#end(reply);
  }
}
