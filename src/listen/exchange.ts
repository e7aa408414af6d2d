/**
 * One webhook request and its answer. Hands the request to the ingest sentence as an `Arrival`, answers what comes of it,
 * and says what was answered.
 */
import { randomUUID } from 'node:crypto';
import { Exchange } from '../http/exchange.ts';
import type { Incoming } from '../http/exchange.ts';
import type { BodyRules } from '../http/body.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { Arrival, Outcome } from '../tables/flow.ts';
import type { Observe, TableName } from '../tables/observations.ts';
import type { Refusal } from '../tables/refusals.ts';
import { Refused } from '../tables/refusals.ts';
import type { RefusalReplies, Reply } from './reply.ts';
import { committedReply, failureReply, preflightReply } from './reply.ts';

/** What all exchanges of one listener share. */
export interface Room {
  readonly ingest: Ingest;
  readonly observe: Observe;
  readonly bodies: BodyRules;
  readonly refusalReply: RefusalReplies;
}

export class WebhookExchange extends Exchange implements Arrival {
  readonly #room: Room;
  #table: TableName | null = null;

  constructor(room: Room, incoming: Incoming) {
    super(incoming);
    this.#room = room;
  }

  /** Sends the request through the stages. The answer follows when they have decided. */
  run(): void {
    const why = this.share.take(this.hall.limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    this.#ingest().then(
      (outcome) =>
        outcome.kind === 'committed'
          ? this.#answer(committedReply(outcome.rows))
          : this.refuse(outcome.refusal),
      (error: unknown) => this.#refuseFor(error),
    );
  }

  override refuse(why: Refusal, closes = false): void {
    if (closes) this.close();
    this.#answer(this.#room.refusalReply(why));
  }

  /** Answers a browser that asks whether it may post from its page. No request was refused or stored: nothing is said. */
  preflight(): void {
    this.write(preflightReply(this.headers['access-control-request-headers']));
  }

  body(): Promise<Buffer> {
    return this.readBody(this.#room.bodies);
  }

  /** A bug that throws before there is a promise is answered like any other. */
  #ingest(): Promise<Outcome> {
    try {
      return this.#room.ingest(this, { target: (name) => void (this.#table = name) });
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #refuseFor(error: unknown): void {
    if (error instanceof Refused) return this.refuse(error.refusal);
    const requestId = randomUUID();
    this.#answer(failureReply(requestId));
    this.#room.observe({ kind: 'request.failed', requestId, error });
  }

  #answer(reply: Reply): void {
    this.write(reply);
    this.#room.observe({
      kind: 'request.answered',
      table: this.#table,
      status: reply.status,
      code: reply.code,
      rows: reply.rows,
      remoteAddress: this.remoteAddress,
      seconds: this.seconds,
    });
  }
}
