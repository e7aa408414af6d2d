/**
 * What is kept of the requests to one database: rows of headgate.rejected_requests and of headgate.handshakes, counts of answers and of ignored members.
 * Takes refused requests and the counts; writes them over one connection of its own, which also trims the tables, and runs the retries that owners ask
 * for. Never throws: what cannot be written is counted and dropped.
 *
 * States of a journal, changed by `#run` alone:
 *   connecting  no connection; requests wait in the queue, which is bounded.
 *   serving     one thing after another: write what waits, run retries, trim; then sleep until there is more.
 *   closed      final; what was still waiting has been written if that was quick, and is counted otherwise.
 *
 *   connecting ──connected──► serving ──connection lost, or a statement failed──► connecting     any ──close──► closed
 *
 * Requests whose statement failed are counted and dropped: whether they are stored is not worth finding out.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { QueryResult } from 'pg';
import type { AskedHandshake, RejectedRequest, RetryRejected, StoredRefusal } from '../types/journal.ts';
import { describe } from './redact.ts';
import type { Engine } from '../engine/engine.ts';
import { cutOff, hangUp } from '../engine/close-client.ts';
import { backoffMs } from '../kit/backoff.ts';
import { plainTransaction } from '../kit/plain-settings.ts';
import type { StageContext } from '../observe/context.ts';
import { runRetry } from './retries.ts';
import {
  addIgnored,
  addTraffic,
  forgetDeliveries,
  handshakeValues,
  insertHandshakes,
  insertRejected,
  insertValues,
  settleRetries,
  takeRetries,
  trimHandshakes,
  trimRejected,
} from './statements.ts';
import type { TakenRow, WrittenRow } from './statements.ts';
import { IgnoredCounts } from './ignored-keys.ts';
import { TrafficCounts } from './traffic.ts';
import type { DatabaseCounts } from './traffic.ts';
import { RefusalReasons } from './refusal-reason.ts';
import type { Kept } from './refusal-reason.ts';
import type { Limits } from '../config/limits.ts';

type WaitingLimits = Pick<
  Limits,
  | 'rejectedBodyBytesMax'
  | 'rejectedReasonCharsMax'
  | 'rejectedWaitingMax'
  | 'rejectedWaitingBytesMax'
  | 'rejectedBatchRowsMax'
  | 'rejectedBatchBytesMax'
  | 'requestCostBytes'
>;

interface WaitingEntry {
  readonly request: RejectedRequest;
  readonly body: Buffer | null;
  readonly bodyBytes: number | null;
  readonly bytes: number;
}

export class Waiting {
  readonly #limits: WaitingLimits;
  readonly #entries: WaitingEntry[] = [];
  #bytes = 0;

  constructor(limits: WaitingLimits) {
    this.#limits = limits;
  }

  get length(): number {
    return this.#entries.length;
  }

  /** False: there is no room. Copies the part of the body that is kept, and does not hold the rest. */
  push(request: RejectedRequest): boolean {
    const limits = this.#limits;
    const keeps = Math.min(request.body?.length ?? 0, limits.rejectedBodyBytesMax);
    const bytes = limits.requestCostBytes + textBytes(request) + keeps;
    if (this.#entries.length >= limits.rejectedWaitingMax) return false;
    if (this.#bytes + bytes > limits.rejectedWaitingBytesMax) return false;
    // A slice would keep the whole body in memory as long as it waits.
    const body = request.body === null ? null : Buffer.from(request.body.subarray(0, keeps));
    const bodyBytes = request.body?.length ?? null;
    this.#entries.push({ request: { ...request, body: null }, body, bodyBytes, bytes });
    this.#bytes += bytes;
    return true;
  }

  /** Removes and returns the next ones for one statement, the oldest first. */
  takeBatch(): readonly Kept[] {
    const { rejectedBatchRowsMax, rejectedBatchBytesMax } = this.#limits;
    const batch: Kept[] = [];
    let bytes = 0;
    for (const entry of this.#entries) {
      bytes += entry.bytes;
      if (batch.length > 0 && (batch.length >= rejectedBatchRowsMax || bytes > rejectedBatchBytesMax)) break;
      const { request } = entry;
      batch.push({ request, description: describe(request, entry.body, entry.bodyBytes, this.#limits) });
    }
    for (const entry of this.#entries.splice(0, batch.length)) this.#bytes -= entry.bytes;
    return batch;
  }
}

function textBytes({ requestTarget, rawHeaders }: RejectedRequest): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, requestTarget.length);
}

/** What the journals of all databases share. */
export interface JournalParts extends StageContext {
  readonly engine: Pick<Engine, 'clientConfig'>;
  /** null: another process of this Headgate runs the retries. */
  readonly retry: RetryRejected | null;
  /** Is told what has been written. */
  readonly stored: (rows: readonly StoredRefusal[]) => void;
  /** Rows and days that are kept; 0 rows: no refused requests, and no counts of answers. */
  readonly rowsMax: number;
  readonly days: number;
}

export class Journal implements DatabaseCounts {
  readonly #database: string;
  readonly #parts: JournalParts;
  readonly #waiting: Waiting;
  /** Written together with other writes, or on a look for retries. */
  readonly ignored: IgnoredCounts;
  /** Written now and then, and at the end. */
  readonly traffic: TrafficCounts;
  /** Handshakes that wait to be written. */
  readonly #asked: AskedHandshake[] = [];
  readonly #why: RefusalReasons;
  readonly #ended: Promise<void>;
  readonly #closing = new AbortController();
  #client: Client | null = null;
  /** Aborted to end a sleep. */
  #sleep = new AbortController();
  /** There may be something to do that arrived after the last look. */
  #woken = false;
  #insertedSinceTrim = 0;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;
  #forgotAtMs = Number.NEGATIVE_INFINITY;
  #said = false;

  constructor(database: string, parts: JournalParts) {
    this.#database = database;
    this.#parts = parts;
    this.#waiting = new Waiting(parts.limits);
    this.ignored = new IgnoredCounts(parts.limits);
    this.traffic = new TrafficCounts(parts.limits);
    this.#why = new RefusalReasons(parts.limits, parts.clock);
    this.#ended = this.#run();
  }

  /** False: there is no room for it. */
  push(request: RejectedRequest): boolean {
    if (this.#closing.signal.aborted || !this.#waiting.push(request)) return false;
    this.wake();
    return true;
  }

  /** False: there is no room for it. */
  asked(handshake: AskedHandshake): boolean {
    if (this.#closing.signal.aborted || this.#asked.length >= this.#parts.limits.handshakesWaitingMax)
      return false;
    this.#asked.push(handshake);
    this.wake();
    return true;
  }

  /** Writes what waits, for at most `engineFarewellMs`, and closes the connection to the database. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.wake();
    const late = setTimeout(() => {
      if (this.#client !== null) cutOff(this.#client);
    }, this.#parts.limits.engineFarewellMs);
    await this.#ended;
    clearTimeout(late);
    this.#forget('engine', this.#waiting.length);
    this.#forgetAsked(this.#asked.length);
  }

  async #run(): Promise<void> {
    const database = this.#database;
    const { limits, observe } = this.#parts;
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      try {
        await this.#connected(() => (failures = 0));
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        if (!this.#said) observe({ kind: 'rejected.unwritable', database, reason });
        this.#said = true;
        failures += 1;
        const pauseMs = backoffMs(failures, limits.engineBackoffMinMs, limits.engineBackoffMs, Math.random);
        await delay(pauseMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** One connection from its start to its end. */
  async #connected(onWorking: () => void): Promise<void> {
    const database = this.#database;
    const { engine, limits } = this.#parts;
    const client = new Client({
      ...engine.clientConfig(database),
      application_name: 'headgate rejected requests',
      connectionTimeoutMillis: limits.rejectedStatementMs,
      query_timeout: limits.rejectedStatementMs,
    });
    const lost = new Promise<never>((_, reject) => {
      client.on('error', reject);
      client.once('end', () => reject(new Error('the connection to the database was closed')));
    });
    // The race below may end before this promise does.
    lost.catch(() => {});
    this.#client = client;
    try {
      await client.connect();
      await Promise.race([this.#serve(client, onWorking), lost]);
    } finally {
      this.#client = null;
      // What slept on this connection must not be what the next event wakes.
      this.#sleep.abort();
      await hangUp(client);
    }
  }

  async #serve(client: Client, onWorking: () => void): Promise<void> {
    const { signal } = this.#closing;
    for (;;) {
      this.#woken = false;
      const closing = signal.aborted;
      await this.#write(client);
      await this.#writeAsked(client);
      const now = this.#parts.clock();
      const ignored = this.ignored.take(now, closing);
      if (ignored !== null) await this.#query(client, addIgnored, [...ignored]);
      const traffic = this.traffic.take(now, closing);
      if (traffic !== null) await this.#query(client, addTraffic, [...traffic]);
      if (closing) return;
      if (this.#parts.retry !== null) await this.#retryAll(client, this.#parts.retry);
      await this.#trimIfDue(client);
      await this.#forgetDeliveriesIfDue(client);
      onWorking();
      this.#said = false;
      await this.#untilWoken();
      if (this.#client !== client) return;
    }
  }

  /** There may be something to do: any number of calls cause one look. */
  wake(): void {
    this.#woken = true;
    this.#sleep.abort();
  }

  async #untilWoken(): Promise<void> {
    if (this.#woken) return;
    this.#sleep = new AbortController();
    const { rejectedHeartbeatMs } = this.#parts.limits;
    await delay(rejectedHeartbeatMs, undefined, { signal: this.#sleep.signal, ref: false }).catch(() => {});
  }

  async #write(client: Client): Promise<void> {
    const database = this.#database;
    const { observe } = this.#parts;
    for (let batch = this.#waiting.takeBatch(); batch.length > 0; batch = this.#waiting.takeBatch()) {
      try {
        const values = insertValues(await this.#why.tell(batch, this.#closing.signal));
        const { rows } = await this.#query<WrittenRow>(client, insertRejected, values);
        this.#insertedSinceTrim += rows.length;
        observe({ kind: 'rejected.stored', database, rows: rows.length });
        this.#parts.stored(rows.map((row) => refusalOf(database, row)));
        this.#forget('engine', batch.length - rows.length);
      } catch (error) {
        this.#forget('engine', batch.length);
        throw error;
      }
    }
  }

  async #writeAsked(client: Client): Promise<void> {
    const batch = this.#asked.splice(0);
    if (batch.length === 0) return;
    try {
      const { rowCount } = await this.#query(client, insertHandshakes, handshakeValues(batch));
      this.#forgetAsked(batch.length - (rowCount ?? 0));
      await this.#query(client, trimHandshakes, []);
    } catch (error) {
      this.#forgetAsked(batch.length);
      throw error;
    }
  }

  /**
   * One statement in a transaction of its own, bounded by the engine, in which names that others have made cannot precede
   * PostgreSQL's, and values are written and read in one form. Nothing is set for longer, or prepared: a pooler may lend the session to others.
   */
  async #query<T extends object>(client: Client, text: string, values: unknown[]): Promise<QueryResult<T>> {
    const { rejectedStatementMs } = this.#parts.limits;
    await client.query(
      `begin isolation level read committed; ${plainTransaction}; set local statement_timeout = ${rejectedStatementMs}`,
    );
    // A statement that fails ends the connection, and the transaction with it.
    const result = await client.query<T>(text, values);
    await client.query('commit');
    return result;
  }

  #forget(why: 'queue' | 'engine', rows: number): void {
    const database = this.#database;
    const { observe } = this.#parts;
    if (rows > 0) observe({ kind: 'rejected.dropped', database, why, rows });
  }

  #forgetAsked(rows: number): void {
    const database = this.#database;
    const { observe } = this.#parts;
    if (rows > 0) observe({ kind: 'handshakes.dropped', database, why: 'engine', rows });
  }

  async #trimIfDue(client: Client): Promise<void> {
    const { rowsMax, days, limits, clock } = this.#parts;
    const many = this.#insertedSinceTrim > 0 && this.#insertedSinceTrim * 20 >= rowsMax;
    if (!many && clock() - this.#trimmedAtMs < limits.rejectedTrimMs) return;
    this.#trimmedAtMs = clock();
    this.#insertedSinceTrim = 0;
    await this.#query(client, trimRejected, [rowsMax, limits.rejectedBytesMax, days]);
  }

  /** Deletes expired ids of deliveries, and expired tombstones, a part at a time until none is left. */
  async #forgetDeliveriesIfDue(client: Client): Promise<void> {
    const { limits, clock } = this.#parts;
    const { deliveriesForgetMs, deliveriesForgottenMax: most } = limits;
    if (clock() - this.#forgotAtMs < deliveriesForgetMs) return;
    this.#forgotAtMs = clock();
    let went = Infinity;
    while (went >= most && !this.#closing.signal.aborted) {
      const { rows } = await this.#query<{ went: string }>(client, forgetDeliveries, [most]);
      went = Number(rows[0]?.went ?? 0);
    }
  }

  async #retryAll(client: Client, retry: RetryRejected): Promise<void> {
    const database = this.#database;
    const { observe, limits } = this.#parts;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const { rows } = await this.#query<TakenRow>(client, takeRetries, [limits.rejectedRetriesMax]);
      if (rows.length === 0) return;
      // UPDATE … RETURNING keeps no order.
      const taken = rows.toSorted((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : 1));
      const settled = await Promise.all(taken.map((row) => runRetry(row, database, retry)));
      const columns = [
        taken.map(({ id }) => id),
        settled.map(({ outcome }) => outcome),
        settled.map(({ reason }) => reason),
        settled.map(({ engineError }) => engineError),
      ];
      await this.#query(client, settleRetries, columns);
      taken.forEach(({ id }, i) => {
        const outcome = settled[i]?.outcome;
        if (outcome !== undefined) observe({ kind: 'rejected.retried', database, id, outcome });
      });
    }
  }
}

function refusalOf(
  database: string,
  { id, oid, code, received_at: at, remote_address: remoteAddress }: WrittenRow,
): StoredRefusal {
  return { id, database, oid: Number(oid), code, arrivedAtMs: at.getTime(), remoteAddress };
}
