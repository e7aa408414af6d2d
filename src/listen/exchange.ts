/**
 * One webhook request and its answer. Passes the request to ingest as an `Arrival`, answers according to the outcome,
 * and reports what was answered.
 */
import { randomUUID } from 'node:crypto';
import { Exchange } from '../http/exchange.ts';
import type { Incoming } from '../http/exchange.ts';
import type { BodyRules } from '../http/body.ts';
import type { HandshakeOutcome, SenderHandshakes } from '../ingest/handshake.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { Arrival } from '../types/request.ts';
import type { KeptApart, Outcome, Spooled } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import type { Refusal } from '../errors/refusals.ts';
import { Refused } from '../errors/refusals.ts';
import type { RefusalReplies, WebhookReply } from './reply.ts';
import {
  committedReply,
  failureReply,
  handshakeReply,
  keptApartReply,
  ownReply,
  preflightReply,
  spooledReply,
} from './reply.ts';

/** What all exchanges of one listener share. */
export interface WebhookContext {
  readonly ingest: Pick<Ingest, 'submit'>;
  /** null: no handshake is answered. */
  readonly handshakes: Pick<SenderHandshakes, 'ask'> | null;
  readonly observe: Observe;
  readonly bodies: BodyRules;
  readonly refusalReply: RefusalReplies;
}

export class WebhookExchange extends Exchange implements Arrival {
  readonly #room: WebhookContext;
  #table: (TableName & Pick<Target, 'answers'>) | null = null;

  constructor(room: WebhookContext, incoming: Incoming) {
    super(incoming);
    this.#room = room;
  }

  /** Sends the request through the stages. The answer follows when they have decided. */
  run(): void {
    const why = this.share.take(this.context.limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    this.#ingest().then(
      (outcome) => this.#decided(outcome),
      (error: unknown) => this.#refuseFor(error),
    );
  }

  override refuse(why: Refusal, closes = false): void {
    if (closes) this.close();
    this.#answer(this.#room.refusalReply(why));
  }

  /** Answers a browser that asks whether it may post from its page. No request was refused or stored: nothing is reported. */
  preflight(): void {
    this.write(preflightReply(this.headers['access-control-request-headers']));
  }

  body(keepsEncoded = false): Buffer | Promise<Buffer> {
    return this.readBody(this.#room.bodies, keepsEncoded);
  }

  /** A request that is no POST: answered if its table answers such handshakes; if it does not, calls `otherwise`. */
  ask(otherwise: () => void): void {
    const { handshakes } = this.#room;
    if (handshakes === null) return otherwise();
    const why = this.share.take(this.context.limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    handshakes.ask(this).then(
      (asked) => {
        if (asked !== null) return this.#decided(asked);
        this.share.release();
        otherwise();
      },
      (error: unknown) => this.#refuseFor(error),
    );
  }

  #decided(outcome: Outcome | HandshakeOutcome | Spooled | KeptApart): void {
    switch (outcome.kind) {
      case 'committed': {
        const own = this.#table?.answers?.committed ?? null;
        const { rows, stale, held } = outcome;
        const reply = own === null ? committedReply(rows, stale) : ownReply(rows, own, this);
        return this.#answer(reply, held, stale);
      }
      case 'spooled': {
        const own = this.#table?.answers?.committed ?? null;
        return this.#answer(spooledReply(outcome, own, this), outcome.held);
      }
      case 'kept apart':
        return this.#answer(keptApartReply(outcome, this.#table?.answers?.committed ?? null, this));
      case 'asked':
        this.#table = outcome.target;
        return this.#answer(handshakeReply(outcome.answer));
      default:
        if (outcome.kind === 'askedTooOften') this.#table = outcome.target;
        return this.refuse(outcome.refusal);
    }
  }

  /** A bug that throws before there is a promise is answered like any other bug. */
  #ingest(): Promise<Outcome | HandshakeOutcome | Spooled | KeptApart> {
    try {
      return this.#room.ingest.submit(this, { target: (target) => void (this.#table = target) });
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

  #answer(reply: WebhookReply, held?: string, stale?: number): void {
    this.write(reply);
    const said = {
      kind: 'request.answered' as const,
      table: this.#table,
      status: reply.status,
      code: reply.code,
      rows: reply.rows,
      remoteAddress: this.remoteAddress,
      bytes: this.announcedBytes,
      seconds: this.seconds,
      arrivedAtMs: this.arrivedAtMs,
    };
    if (this.#table === null) return this.#room.observe({ ...said, path: pathOf(this.target) });
    const more = stale === undefined ? said : { ...said, stale };
    this.#room.observe(held === undefined ? more : { ...more, held });
  }
}

const pathCharsMax = 200;

function pathOf(target: string): string {
  const at = target.indexOf('?');
  return target.slice(0, at < 0 ? pathCharsMax : Math.min(at, pathCharsMax));
}
