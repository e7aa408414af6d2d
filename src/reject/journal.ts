/**
 * What is kept of the requests to one database: rows of headgate.rejected_requests and of headgate.handshakes, counts of answers and of ignored members.
 * Takes refused requests and the counts; writes them over one connection of its own, which also trims the tables, and runs the retries that owners ask
 * for (retries.ts). Never throws: what cannot be written is counted and dropped.
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
import type { AskedHandshake, RejectedRequest } from '../types/journal.ts';
import type { Engine } from '../engine/engine.ts';
import { backoffMs } from '../kit/backoff.ts';
import { DeliveryRetention } from './delivery-retention.ts';
import { HandshakeRows } from './handshakes.ts';
import { addIgnored, IgnoredCounts } from './ignored-keys.ts';
import { JournalSession } from './journal-session.ts';
import { RejectedRows } from './rejected-rows.ts';
import type { RejectedRowsContext } from './rejected-rows.ts';
import { runAskedRetries } from './retries.ts';
import type { RetryContext } from './retries.ts';
import { addTraffic } from './traffic-statement.ts';
import { TrafficCounts } from './traffic.ts';

/** What the journals of all databases share. */
export interface JournalParts extends RejectedRowsContext, RetryContext {
  readonly engine: Pick<Engine, 'clientConfig'>;
}

export class Journal {
  readonly #database: string;
  readonly #parts: JournalParts;
  readonly #rejected: RejectedRows;
  readonly #handshakes: HandshakeRows;
  readonly #deliveries: DeliveryRetention;
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

  constructor(database: string, parts: JournalParts) {
    this.#database = database;
    this.#parts = parts;
    this.#rejected = new RejectedRows(database, parts);
    this.#handshakes = new HandshakeRows(database, parts);
    this.#deliveries = new DeliveryRetention(parts);
    this.ignored = new IgnoredCounts(parts.limits);
    this.traffic = new TrafficCounts(parts.limits);
    this.#ended = this.#run();
  }

  /** False: there is no room for it. */
  push(request: RejectedRequest): boolean {
    if (this.#closing.signal.aborted || !this.#rejected.push(request)) return false;
    this.wake();
    return true;
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
      await runAskedRetries(session, this.#database, this.#parts, signal);
      await this.#rejected.trimIfDue(session);
      await this.#deliveries.forgetIfDue(session, signal);
      this.#failures = 0;
      await this.#untilWoken();
      if (this.#session !== session) return;
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
