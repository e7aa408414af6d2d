/**
 * Stores a body in a transaction of its own: one chunk after the other, while the next one is being read; committed after the last one, rolled back
 * on any failure before. The socket is read only as fast as the engine takes rows. Refuses with `overloaded` when `eventsStreamsMax` are running, or
 * `eventsStreamsOfTokensMax` with tokens, as the body refuses, and with `deadline` if the engine needs more than `eventsDeadlineMs` after the last byte.
 *
 * The transaction stores rows of one table, chunk by chunk. Takes Rows; nothing takes effect before `commit`; refuses with
 * LineRefused for the first row that the engine refuses (with on_error=skip such rows are left out and listed), `table_changed`,
 * `table_unusable`, `engine_unavailable`, `version_missing`, `deadline` and `commit_unknown`. Uses one connection, which it gives back.
 *
 * A chunk that fails is retried in halves, each after a savepoint, until the rows at fault are isolated.
 */
import type { DatabaseError, PoolClient } from 'pg';
import { cutOff } from '../engine/close-client.ts';
import { notConnected } from '../engine/connection-failure.ts';
import { isConnectionLost, sqlstateOf } from '../engine/sqlstate.ts';
import type { Column } from '../types/shape.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { freeBuffer, freeStore } from '../kit/free-buffer.ts';
import { limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import type { Closer } from '../kit/closer.ts';
import { resources } from '../kit/cores.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { CommitPools } from '../commit/commit-pools.ts';
import type { CommitEngine } from '../commit/commit-pools.ts';
import { messageOf } from '../commit/engine-reply.ts';
import { failedHere, isInDoubt, unusable, verdictOf } from '../commit/interpret-reply.ts';
import { isVersionMissing, misfitRefusal, rowRefusal } from '../commit/refusal-messages.ts';
import { connectionOf } from '../commit/commit-connection.ts';
import { partMessages, streamStatements } from '../commit/stream-statements.ts';
import type { PartSql, StreamSql, StreamStatements } from '../commit/stream-statements.ts';
import { askOn } from '../commit/transaction-status.ts';
import type { RowRange } from '../commit/wire-message.ts';
import { LineRefused, lineOf, reasonOf } from './line-refused.ts';
import { Skipped } from './skipped-lines.ts';
import { runMessages } from './sql-run.ts';
import type { LargeBody } from './large-body.ts';
import type { EventAnswer, EventRequest } from './event-store.ts';

/**
 * A role, database or server that limits idle or long transactions would end those of slow senders. Their duration is bounded here
 * instead; only 0 stops the running clock of `transaction_timeout` (17 and later).
 */
const patienceSql = `select pg_catalog.set_config(s.name, w.value, true)
  from (values ('idle_in_transaction_session_timeout', '${limits.eventsUploadMs}'), ('transaction_timeout', '0')) as w (name, value)
  join pg_catalog.pg_settings s on s.name operator(pg_catalog.=) w.name
  where s.setting operator(pg_catalog.<>) '0'`;

/** What all transactions of large bodies share. */
interface StreamStages {
  /** One connection for each large body in flight. */
  readonly pools: CommitPools;
  /**
   * Limits how many chunks the engine stores at once: taking turns leaves processors and log to small requests, and takes no
   * longer.
   */
  readonly turns: Semaphore;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

interface FailedRow {
  readonly sqlstate: string;
  readonly message: string;
  readonly constraint: string | null;
  readonly column: string | null;
  /** The engine's function that raised it. */
  readonly routine: string | null;
}

class EventTransaction {
  readonly #client: PoolClient;
  readonly #stages: StreamStages;
  readonly #target: Target;
  readonly #skipped: Skipped | null;
  readonly #sql: StreamStatements;
  #rows = 0;
  /** Of these, rows that were not newer than what the table has. */
  #stale = 0;
  #confirmed = false;
  /** The table itself was found to accept rows. */
  #stands = false;
  /** The transaction's number. */
  #xid: string | null = null;
  /** When the sender is answered that it took too long; Infinity while it is still sending. */
  #deadline: number;
  /** What the engine is working on. */
  #working: Promise<void> = Promise.resolve();
  #ending = false;
  /** `broken`: the connection cannot be borrowed again. */
  #state: 'open' | 'committed' | 'broken' = 'open';

  private constructor(
    client: PoolClient,
    stages: StreamStages,
    target: Target,
    skipped: Skipped | null,
    untilMs: number,
  ) {
    this.#client = client;
    this.#deadline = untilMs;
    this.#stages = stages;
    this.#target = target;
    this.#skipped = skipped;
    this.#sql = streamStatements(target, connectionOf(client).facts, stages.pools.isShared(client));
  }

  /** `skipped` collects the rows that are left out; null: the first bad row ends the transaction. `untilMs`: as of `LargeBodies.store`. */
  static async begin(
    stages: StreamStages,
    target: Target,
    skipped: Skipped | null,
    untilMs: number,
  ): Promise<EventTransaction> {
    const client = await stages.pools.connectFor(target).catch((error: unknown) => {
      if (error instanceof LoginRefused) throw new Refused(unusable(error.message));
      throw error instanceof Refused ? error : notConnected(error);
    });
    const transaction = new EventTransaction(client, stages, target, skipped, untilMs);
    try {
      await transaction.#begin();
    } catch (error) {
      await transaction.end();
      throw error;
    }
    return transaction;
  }

  async #begin(): Promise<void> {
    await this.#run('begin isolation level read committed');
    await this.#run(patienceSql);
    for (const sql of this.#sql.first) await this.#check(sql);
  }

  get rows(): number {
    return this.#rows - this.#stale;
  }

  get stale(): number {
    return this.#stale;
  }

  /** The last byte has arrived, and the sender waits. */
  hurry(ms: number): void {
    this.#deadline = Math.min(this.#deadline, this.#stages.clock() + ms);
  }

  /** One call at a time. */
  store(rows: Rows): Promise<void> {
    this.#working = this.#stages.turns.run(limits.eventsTurnMs, () => this.#storeAndConfirm(rows));
    return this.#working;
  }

  async #storeAndConfirm(rows: Rows): Promise<void> {
    if (this.#isPlain && this.#confirmed) await this.#confirm();
    await this.#store(rows, 0, rows.count);
    // A transaction that has written to a table keeps it from changing until it ends, but its owner may give it an index that runs code.
    if (this.#rows === 0 || (this.#confirmed && !this.#isPlain)) return;
    await this.#confirm();
    this.#confirmed = true;
  }

  async #confirm(): Promise<void> {
    const { text, values } = this.#sql.confirm;
    try {
      const { rows } = await this.#query(text, values);
      for (const value of Object.values(rows[0] ?? {}))
        this.#xid = /^xid (\d+)$/.exec(String(value))?.[1] ?? this.#xid;
    } catch (error) {
      throw sqlstateOf(error) === '22P02' ? new Refused('table_changed') : this.#failure(error);
    }
  }

  /** Rows are stored with the rights of the gateway's role, which must not run anything of the owner's. */
  get #isPlain(): boolean {
    return this.#target.code.as === 'writer';
  }

  async commit(): Promise<void> {
    await this.#runAfter(this.#sql.last);
    try {
      const { command } = await this.#query('commit');
      if (command !== 'COMMIT') throw new Refused('internal');
      this.#state = 'committed';
    } catch (error) {
      this.#state = 'broken';
      if (error instanceof Refused) throw error;
      if (await this.#isCommitted(error)) {
        this.#state = 'committed';
        return;
      }
      // A deferred constraint: the engine does not report which row violated it.
      throw this.#unplaced(error);
    }
  }

  /** After rows: 22P02 says that the table is not what it was. */
  async #runAfter(statements: readonly StreamSql[]): Promise<void> {
    for (const { text, values } of statements)
      await this.#query(text, values).catch((error: unknown) => {
        throw sqlstateOf(error) === '22P02' ? new Refused('table_changed') : this.#unplaced(error);
      });
  }

  /** Perhaps the fault of a row, of which the engine does not say which one it is. */
  #unplaced(error: unknown): Error {
    const failed = asFailedRow(error);
    if (error instanceof Refused || !this.#mayBeRow(failed)) return this.#failure(error);
    const { code, message } = explain(failed, null);
    return new Refused(code, message);
  }

  /** The outcome of a COMMIT that failed; throws `commit_unknown` if it cannot be known. */
  async #isCommitted(error: unknown): Promise<boolean> {
    if (sqlstateOf(error) === null) throw new Refused('commit_unknown');
    // An ERROR is final once the engine answers the next query; a FATAL error, even one that follows it, may come too late.
    await this.#query('select').catch(() => {
      throw new Refused('commit_unknown');
    });
    if (!isInDoubt({ ...asFailed(asFailedRow(error)), atCommit: true })) return false;
    const leftMs = () => Math.min(limits.eventsDeadlineMs, this.#deadline - this.#stages.clock());
    const xid = this.#xid;
    const asking = xid === null ? null : askOn(this.#client, { ...this.#target, xid }, { leftMs });
    const fate = await asking?.catch(() => null);
    if (fate !== 'committed' && fate !== 'aborted') throw new Refused('commit_unknown');
    return fate === 'committed';
  }

  /** Rolls back what is not committed, and gives the connection back. Never rejects. */
  async end(): Promise<void> {
    // A row stored after the rollback would be a transaction of its own.
    this.#ending = true;
    await this.#working.catch(() => {});
    if (this.#state === 'open') await this.#rollback().catch(() => (this.#state = 'broken'));
    this.#client.release(this.#state === 'broken');
  }

  async #store(rows: Rows, from: number, to: number): Promise<void> {
    await this.#run('savepoint headgate');
    let said: string | null;
    try {
      const { messages, value } = await this.#send(this.#sql.store(someOf(rows, from, to)));
      said = value;
      for (const message of messages) freeBuffer(message);
    } catch (error) {
      if (sqlstateOf(error) === null || !this.#mayBeRow(asFailedRow(error))) throw this.#failure(error);
      await this.#run('rollback to savepoint headgate');
      if (verdictOf(asFailedRow(error)) === 'suspect') await this.#stand();
      if (to - from === 1) return this.#refuse(rows, from, asFailedRow(error));
      const middle = from + Math.floor((to - from) / 2);
      await this.#store(rows, from, middle);
      return this.#store(rows, middle, to);
    }
    await this.#runAfter(this.#sql.stored);
    await this.#run('release savepoint headgate');
    this.#rows += to - from;
    if (said?.startsWith('stale ') === true) this.#stale += said.split(' ').length - 1;
  }

  #mayBeRow(failed: FailedRow): boolean {
    return /^(row|suspect)$/.test(verdictOf(failed));
  }

  /** Throws if not even zero rows can be stored: then the cause is the table, or the right to write to it. */
  async #stand(): Promise<void> {
    if (this.#stands) return;
    await this.#run('savepoint headgate');
    try {
      await this.#send(this.#sql.store({ documents: none, from: 0, to: 0, without: null }));
    } catch (error) {
      throw this.#failure(error);
    }
    await this.#runAfter(this.#sql.stored);
    await this.#confirm();
    await this.#run('rollback to savepoint headgate');
    this.#stands = true;
  }

  async #refuse(rows: Rows, row: number, failed: FailedRow): Promise<void> {
    const it = explain(failed, await this.#misfit(rows, row, failed));
    const line = lineOf(rows, row);
    if (this.#skipped === null) throw new LineRefused(it, line);
    this.#skipped.add(line, reasonOf(it.message));
  }

  /** The first column whose value the engine cannot read. */
  async #misfit(rows: Rows, row: number, { sqlstate }: FailedRow): Promise<Column | null> {
    if (sqlstate.startsWith('23') && sqlstate !== '23514') return null;
    const document = someOf(rows, row, row + 1);
    for (const column of this.#target.shape.columns) {
      await this.#run('savepoint headgate');
      try {
        await this.#send(this.#sql.probe(column, document));
      } catch (error) {
        if (sqlstateOf(error) === null) throw this.#failure(error);
        await this.#run('rollback to savepoint headgate');
        if (sqlstateOf(error) === sqlstate) return column;
      }
    }
    return null;
  }

  /** Throws if the table, or who may write to it, is not what was expected. */
  async #check({ text, values }: StreamSql): Promise<void> {
    try {
      await this.#query(text, values);
    } catch (error) {
      const state = sqlstateOf(error);
      if (state === '22P02' || state === 'HG001') throw new Refused('table_changed');
      if (state === 'HG003') throw new Refused(unusable((error as Error).message));
      throw this.#failure(error);
    }
  }

  async #run(text: string, values: StreamSql['values'] = []): Promise<void> {
    try {
      await this.#query(text, values);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async #rollback(): Promise<void> {
    const timer = setTimeout(() => cutOff(this.#client), limits.gatewayCancelMs);
    try {
      await this.#client.query('rollback');
    } finally {
      clearTimeout(timer);
    }
  }

  #query(
    text: string,
    values: StreamSql['values'] = [],
  ): Promise<{ readonly command: string; readonly rows: readonly object[] }> {
    return this.#inTime(() => this.#client.query<object>({ text, values: [...values] }));
  }

  /** Returns the messages sent, which the engine has read, and the value that it returned. */
  async #send(
    sql: PartSql,
  ): Promise<{ readonly messages: readonly Buffer[]; readonly value: string | null }> {
    const messages = partMessages(sql);
    const value = await this.#inTime(() => runMessages(this.#client, messages));
    return { messages, value };
  }

  /** Does not wait for a silent engine: its own statement timeout is slightly shorter. */
  async #inTime<T>(ask: () => Promise<T>): Promise<T> {
    const left = Math.min(limits.eventsDeadlineMs, this.#deadline - this.#stages.clock());
    if (left <= 0 || this.#ending) throw new Refused('deadline');
    const timer = setTimeout(() => cutOff(this.#client), left + limits.gatewayCancelMs);
    try {
      return await ask();
    } finally {
      clearTimeout(timer);
    }
  }

  #failure(error: unknown): Error {
    if (error instanceof Refused) return error;
    const state = sqlstateOf(error);
    if (state === null && !isConnectionLost(error)) return error as Error;
    if (isConnectionLost(error)) this.#state = 'broken';
    if (state === null) return new Refused('engine_unavailable');
    switch (verdictOf(asFailedRow(error))) {
      case 'table':
      case 'suspect':
        return new Refused('table_changed');
      case 'conflict':
      case 'beyond':
      case 'row':
        return new Refused('engine_unavailable');
      case 'engine':
        return new Refused(state === '57014' ? 'deadline' : 'engine_unavailable');
      case 'bug':
        return error as Error;
    }
  }
}

function asFailed(row: FailedRow) {
  return { ...failedHere(row.sqlstate, row.message), ...row };
}

/** The refusal for a row that the engine refuses; `misfit`: the column whose value the engine could not read. */
function explain(row: FailedRow, misfit: Column | null): Refusal {
  const failed = asFailed(row);
  if (misfit === null && isVersionMissing(failed)) return refusal('version_missing');
  return misfit === null ? rowRefusal(failed) : misfitRefusal({ row: 0, column: misfit, failed });
}

function asFailedRow(error: unknown): FailedRow {
  const { code = '', constraint, column, routine } = error as DatabaseError;
  return {
    sqlstate: code,
    message: messageOf(error as DatabaseError),
    constraint: constraint ?? null,
    column: column ?? null,
    routine: routine ?? null,
  };
}

const none = { bytes: Buffer.of(), spans: new Uint32Array() };

function someOf({ documents }: Rows, from: number, to: number): RowRange {
  return { documents, from, to, without: null };
}

export class LargeBodies {
  /** Separate from the lanes' connections: one of these is held for as long as a body takes to arrive. */
  readonly pools: CommitPools;
  readonly #stages: StreamStages;
  /** One for each large body in flight … */
  readonly #slots = new Semaphore(limits.eventsStreamsMax);
  /** … and one more for each with a token of CREATE TOKEN. */
  readonly #slotsOfTokens = new Semaphore(limits.eventsStreamsOfTokensMax);

  /** Closed by `closer`. `clock`: monotonic, ms. */
  constructor(engine: CommitEngine, clock: () => number, closer: Closer) {
    const pools = new CommitPools(engine, {
      commitConnectionsMax: limits.eventsStreamsMax,
      commitStatementTimeoutMs: limits.eventsDeadlineMs,
    });
    closer.add('connections of large bodies', () => pools.close());
    this.pools = pools;
    const turns = new Semaphore(Math.max(1, Math.floor(resources().cores / 2)));
    this.#stages = { pools, turns, clock };
  }

  /** `untilMs`: of the clock, when the sender is answered if it waits already; Infinity: it is still sending. Throws Refused and LineRefused. */
  async store(target: Target, request: EventRequest, body: LargeBody, untilMs: number): Promise<EventAnswer> {
    const skipped = request.skips ? new Skipped(limits.eventsSkippedMax) : null;
    const done = this.#takeSlot(request.isOfToken === true);
    const transaction = await EventTransaction.begin(this.#stages, target, skipped, untilMs).catch(
      (error: unknown) => {
        done();
        throw error;
      },
    );
    try {
      await storeAll(transaction, body, target, skipped);
      await transaction.commit();
      const { rows, stale } = transaction;
      return { rows, skipped, ...(stale > 0 && { stale }) };
    } finally {
      await transaction.end();
      done();
    }
  }

  /** Returns what gives it back; throws Refused. */
  #takeSlot(isOfToken: boolean): () => void {
    const one = this.#slots.takeNow();
    if (one === null) throw new Refused('overloaded', 'too many large bodies are being stored');
    if (!isOfToken) return one;
    const another = this.#slotsOfTokens.takeNow();
    if (another !== null)
      return () => {
        one();
        another();
      };
    one();
    throw new Refused('overloaded', 'too many large bodies with tokens are being stored');
  }
}

/** The engine stores one chunk while the next one is read and decoded. */
async function storeAll(
  transaction: EventTransaction,
  body: LargeBody,
  target: Target,
  skipped: Skipped | null,
): Promise<void> {
  let storing: Promise<void> = Promise.resolve();
  // From then on the sender waits: also while rows before the last ones are stored, or tried one by one.
  const arrived = () => transaction.hurry(limits.eventsDeadlineMs);
  for await (const rows of body.chunks(target, skipped, arrived)) {
    await storing;
    storing = transaction.store(rows).then(() => freeStore(rows.documents.bytes));
    // Awaited in the next round; until then a rejection must not count as unhandled.
    storing.catch(() => {});
  }
  await storing;
}
