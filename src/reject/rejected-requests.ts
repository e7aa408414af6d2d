/**
 * Keeps refused requests for the owners of their tables: headgate.rejected_requests. Takes requests that were refused, returns nothing, and never delays
 * or changes an answer: what is not worth keeping, comes too fast, or does not fit into memory is counted
 * and dropped. Refuses nothing. Each served database has a `Journal` (journal.ts), which writes them, and runs the retries that owners ask for.
 */
import { RateLimit } from '../access/rate-limit.ts';
import { isWorthKeeping } from '../errors/refusals.ts';
import type { Readers } from '../observe/context.ts';
import type { AskedHandshake, RejectedRequest } from '../types/journal.ts';
import { Journal } from './journal.ts';
import type { JournalParts } from './journal.ts';
import type { CountedAnswer } from './traffic.ts';

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
