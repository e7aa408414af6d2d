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
import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../engine/engine.ts';
import { backoffMs } from '../kit/backoff.ts';
import type { AskedHandshake, RejectedRequest, RetryRejected } from '../types/journal.ts';
import { HandshakeRows } from './handshakes.ts';
import { addIgnored, IgnoredCounts } from './ignored-keys.ts';
import { JournalSession } from './journal-session.ts';
import { RejectedRows } from './rejected-rows.ts';
import type { RejectedRowsContext } from './rejected-rows.ts';
import { runAskedRetries } from './retries.ts';
import { addTraffic, TrafficCounts } from './traffic.ts';

/** What the journals of all databases share. */
export interface JournalParts extends RejectedRowsContext {
  readonly engine: Pick<Engine, 'clientConfig'>;
  /** `Retry.store` of ingest/retry.ts; null: another process of this Headgate runs the retries. */
  readonly retry: RetryRejected | null;
}

export class Journal {
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
