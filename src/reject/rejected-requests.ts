/**
 * Keeps refused requests for the owners of their tables: headgate.rejected_requests. Takes requests that were refused, returns nothing, and never delays
 * or changes an answer: what is not worth keeping, comes too fast, or does not fit into memory is counted
 * and dropped. Refuses nothing. Each served database has a `Journal`, which writes them, and runs the retries that owners ask for.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { RateLimit } from '../access/rate-limit.ts';
import type { Engine } from '../engine/engine.ts';
import { isWorthKeeping } from '../errors/refusals.ts';
import { backoffMs } from '../kit/backoff.ts';
import type { Readers } from '../observe/context.ts';
import type { AskedHandshake, RejectedRequest, RetryRejected } from '../types/journal.ts';
import { HandshakeRows } from './handshakes.ts';
import { addIgnored, IgnoredCounts } from './ignored-keys.ts';
import { JournalSession } from './journal-session.ts';
import { RejectedRows } from './rejected-rows.ts';
import type { RejectedRowsContext } from './rejected-rows.ts';
import { runAskedRetries } from './retries.ts';
import { addTraffic, TrafficCounts } from './traffic.ts';
import type { CountedAnswer } from './traffic.ts';

/** What the journals of all databases share. */
interface JournalParts extends RejectedRowsContext {
  readonly engine: Pick<Engine, 'clientConfig'>;
  /** `Retry.store` of ingest/retry.ts; null: another process of this Headgate runs the retries. */
  readonly retry: RetryRejected | null;
}

export class Rejects {
  readonly #parts: JournalParts;
  readonly #journals = new Map<string, Journal>();
  /** Of requests that VALIDATE had not accepted, and of handshakes. */
  readonly #rate: RateLimit;
  /** Of those that it had: forged requests must not use up the rate of authentic ones. */
  readonly #authenticRate: RateLimit;
  readonly #count = (answered: CountedAnswer): void => {
    const { table } = answered;
    if (table?.oid !== undefined)
      this.#counting(table.database)?.traffic.add(table.oid, answered, Date.now());
  };
  /** Counts answers, and documents that were stored without some of their members; nothing else is of interest. */
  readonly readers: Readers = {
    'request.answered': this.#count,
    'batch.answered': this.#count,
    'keys.ignored': (ignored) => {
      const { database, oid } = ignored.table;
      if (oid !== undefined) this.#counting(database)?.ignored.add(oid, ignored);
    },
  };
  #closed = false;

  constructor(parts: JournalParts) {
    this.#parts = parts;
    const {
      rejectedPerSecond: count,
      rejectedBurst,
      rejectedAuthenticBurst,
      rejectedTablesMax,
    } = parts.limits;
    const rateOf = (burst: number) => new RateLimit({ count, perMs: 1_000, burst }, rejectedTablesMax);
    this.#rate = rateOf(rejectedBurst);
    this.#authenticRate = rateOf(rejectedAuthenticBurst);
  }

  /**
   * From now on requests to tables of this database are kept; its catalog exists. If none are, one process of a Headgate still runs retries, of
   * requests that were kept because they were accepted, and forgets ids of deliveries.
   */
  serve(database: string): void {
    if (this.#journals.has(database)) return;
    if (this.#parts.rowsMax > 0 || this.#parts.retry !== null) this.#open(database);
  }

  /** An owner has called headgate.retry_rejected() in this database: the catalog was notified, or has looked. The journal then runs them (retries.ts). */
  retryAsked(database: string): void {
    if (!this.#journals.has(database)) this.#open(database);
    this.#journals.get(database)?.wake();
  }

  #open(database: string): void {
    if (this.#closed) return;
    this.#journals.set(database, new Journal(database, this.#parts));
  }

  /** What is observed of tables of a database that is not served is not counted. */
  #counting(database: string): Journal | undefined {
    return this.#parts.rowsMax > 0 ? this.#journals.get(database) : undefined;
  }

  /** Closes the connection to a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const journal = this.#journals.get(database);
    this.#journals.delete(database);
    await journal?.close();
  }

  keep(request: RejectedRequest): void {
    const { rowsMax, clock, observe } = this.#parts;
    if (rowsMax === 0 || !isWorthKeeping(request.refusal.code)) return;
    const { database, oid } = request.target;
    const rate = request.authenticated ? this.#authenticRate : this.#rate;
    const drop = (why: 'rate' | 'queue', rows: number) =>
      observe({ kind: 'rejected.dropped', database, why, rows });
    if (rate.take(`${oid}/${database}`, clock()) > 0) return drop('rate', 1);
    const dropped = this.#journals.get(database)?.push(request) ?? 1;
    if (dropped > 0) drop('queue', dropped);
  }

  /** A sender's handshake, for headgate.handshakes. */
  asked(handshake: AskedHandshake): void {
    const { rowsMax, clock, observe } = this.#parts;
    if (rowsMax === 0) return;
    const { database, oid } = handshake.target;
    const drop = (why: 'rate' | 'queue') => observe({ kind: 'handshakes.dropped', database, why, rows: 1 });
    if (this.#rate.take(`${oid}/asked/${database}`, clock()) > 0) drop('rate');
    else if (this.#journals.get(database)?.asked(handshake) !== true) drop('queue');
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#journals.keys()].map((database) => this.release(database)));
  }
}

/**
 * What is kept of the requests to one database: rows of headgate.rejected_requests and of headgate.handshakes, counts of answers and of ignored members.
 * Takes refused requests and the counts; writes them over one connection of its own, which also trims the tables, forgets ids of deliveries that have
 * expired, and runs the retries that owners ask for. Never throws: what cannot be written is counted and dropped.
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
class Journal {
  readonly #database: string;
  readonly #parts: JournalParts;
  readonly #rejected: RejectedRows;
  readonly #handshakes: HandshakeRows;
  /** Written together with other writes, or on a look for retries. */
  readonly ignored: IgnoredCounts;
  /** Written now and then, and at the end. */
  readonly traffic: TrafficCounts;
  readonly #ended: Promise<void>;
  readonly #closing = new AbortController();
  #session: JournalSession | null = null;
  /** Aborted to end a sleep. */
  #sleep = new AbortController();
  /** There may be something to do that arrived after the last look. */
  #woken = false;
  /** Since it last worked. */
  #failures = 0;
  #forgotAtMs = Number.NEGATIVE_INFINITY;

  constructor(database: string, parts: JournalParts) {
    this.#database = database;
    this.#parts = parts;
    this.#rejected = new RejectedRows(database, parts);
    this.#handshakes = new HandshakeRows(database, parts);
    this.ignored = new IgnoredCounts(parts.limits);
    this.traffic = new TrafficCounts(parts.limits);
    this.#ended = this.#run();
  }

  /** Returns how many there is no room for: this one, or others. */
  push(request: RejectedRequest): number {
    if (this.#closing.signal.aborted) return 1;
    const dropped = this.#rejected.push(request);
    this.wake();
    return dropped;
  }

  /** False: there is no room for it. */
  asked(handshake: AskedHandshake): boolean {
    if (this.#closing.signal.aborted || !this.#handshakes.push(handshake)) return false;
    this.wake();
    return true;
  }

  /** There may be something to do: any number of calls cause one look, by `#serve`. */
  wake(): void {
    this.#woken = true;
    this.#sleep.abort();
  }

  async #serve(session: JournalSession): Promise<void> {
    const { signal } = this.#closing;
    const { retry, limits, observe } = this.#parts;
    for (;;) {
      this.#woken = false;
      const closing = signal.aborted;
      await this.#rejected.write(session, signal);
      await this.#handshakes.write(session);
      const now = this.#parts.clock();
      const ignored = this.ignored.take(now, closing);
      if (ignored !== null) await session.query(addIgnored, [...ignored]);
      const traffic = this.traffic.take(now, closing);
      if (traffic !== null) await session.query(addTraffic, [...traffic]);
      if (closing) return;
      if (retry !== null)
        await runAskedRetries({ database: this.#database, retry, limits, observe }, session, signal);
      await this.#rejected.trimIfDue(session);
      await this.#forgetDeliveries(session);
      this.#failures = 0;
      await this.#untilWoken();
      if (this.#session !== session) return;
    }
  }

  /** Ids that have expired, and tombstones: now and then, a part at a time, so that each statement is short, until none is left. */
  async #forgetDeliveries(session: JournalSession): Promise<void> {
    const { limits, clock } = this.#parts;
    const { deliveriesForgetMs, deliveriesForgottenMax: most } = limits;
    if (clock() - this.#forgotAtMs < deliveriesForgetMs) return;
    this.#forgotAtMs = clock();
    let went = Infinity;
    while (went >= most && !this.#closing.signal.aborted) {
      const { rows } = await session.query<{ went: string }>(forgetDeliveries, [most]);
      went = Number(rows[0]?.went ?? 0);
    }
  }

  async #untilWoken(): Promise<void> {
    if (this.#woken) return;
    this.#sleep = new AbortController();
    const { rejectedHeartbeatMs } = this.#parts.limits;
    await delay(rejectedHeartbeatMs, undefined, { signal: this.#sleep.signal, ref: false }).catch(() => {});
  }

  async #run(): Promise<void> {
    const database = this.#database;
    const { limits, observe } = this.#parts;
    while (!this.#closing.signal.aborted) {
      try {
        await this.#connected();
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        if (this.#failures === 0) observe({ kind: 'rejected.unwritable', database, reason });
        this.#failures += 1;
        const pauseMs = backoffMs(
          this.#failures,
          limits.engineBackoffMinMs,
          limits.engineBackoffMs,
          Math.random,
        );
        await delay(pauseMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** One connection from its start to its end. */
  async #connected(): Promise<void> {
    const session = new JournalSession(this.#database, this.#parts.engine, this.#parts.limits);
    this.#session = session;
    try {
      await session.connect();
      await Promise.race([this.#serve(session), session.lost]);
    } finally {
      this.#session = null;
      // What slept on this connection must not be what the next event wakes.
      this.#sleep.abort();
      await session.close();
    }
  }

  /** Writes what waits, for at most `engineFarewellMs`, and closes the connection to the database. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.wake();
    const late = setTimeout(() => this.#session?.cutOff(), this.#parts.limits.engineFarewellMs);
    await this.#ended;
    clearTimeout(late);
    this.#rejected.close();
    this.#handshakes.close();
  }
}

/** $1: how many ids, and how many tombstones, of each table. Returns the larger number of those that went. */
export const forgetDeliveries = `
with unhurried as materialized (select pg_catalog.set_config('synchronous_commit', 'off', true))
select greatest(headgate.forget_old('headgate.delivery', 'stored_at', 'dedupe', $1::int),
  headgate.forget_old('headgate.tombstone', 'deleted_at', 'version', $1::int)) as went from unhurried`;
