/**
 * One webhook request over HTTP. Passes it to ingest as an `Arrival`, answers according to the outcome, and reports what was answered. Itself refuses
 * requests that never become an arrival: other paths and methods, requests while draining. This is the hot path: whatever every request needs is made in
 * advance (reply.ts). Touches nothing but its connection.
 */
import { randomUUID } from 'node:crypto';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { BodyRules } from '../http/body.ts';
import { Exchange } from '../http/exchange.ts';
import type { Incoming } from '../http/exchange.ts';
import { often } from '../http/plain-answer.ts';
import type { HandshakeOutcome, SenderHandshakes } from '../ingest/handshake.ts';
import type { Ingest } from '../ingest/ingest.ts';
import { isIngestTarget, isWebhookTarget, webhookTemplate } from '../ingest/routes.ts';
import type { Observation, Observe, TableName } from '../observe/observations.ts';
import type { TracedRequest, Tracer } from '../telemetry/tracer.ts';
import type { Arrival } from '../types/request.ts';
import type { KeptApart, Outcome, Spooled } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { handshakeReply, preflightReply } from './handshake-reply.ts';
import { failureReply } from './refusal-reply.ts';
import type { RefusalReplies } from './refusal-reply.ts';
import { keptApartReply, ownReply, reply, spooledReply } from './reply.ts';
import type { WebhookReply } from './reply.ts';
import { handshakeRefusal } from './websocket.ts';
import type { OriginRule } from './websocket.ts';

/** What all requests of one listener share. */
export interface WebhookContext {
  readonly ingest: Pick<Ingest, 'submit'>;
  /** null: no handshake is answered. */
  readonly handshakes: Pick<SenderHandshakes, 'ask'> | null;
  readonly observe: Observe;
  readonly bodies: BodyRules;
  /** For GET: without a length there is no body. */
  readonly bodiesOfGet: BodyRules;
  readonly refusalReply: RefusalReplies;
  /** null: no request is traced. */
  readonly tracer: Pick<Tracer, 'begin' | 'end'> | null;
  readonly scheme: 'http' | 'https';
  /** Who may open a WebSocket; null: there is no such door. */
  readonly mayOpen: OriginRule | null;
}

export class WebhookExchange extends Exchange implements Arrival {
  readonly #room: WebhookContext;
  /** null: it is not traced. */
  readonly span: TracedRequest | null;
  #table: (TableName & Pick<Target, 'answers'>) | null = null;
  /** Of a request that is no POST: whoever looks for handshakes may have read it already. */
  #body: Buffer | Promise<Buffer> | null = null;

  constructor(room: WebhookContext, incoming: Incoming) {
    super(incoming);
    this.#room = room;
    this.span = room.tracer === null ? null : room.tracer.begin(this);
  }

  get traceparent(): string | undefined {
    return this.span?.traceparent;
  }

  /** Sends it through the stages, or refuses it. The answer follows when they have decided. `passedOver`: why a WebSocket that it offers cannot be opened; null, as a rule: it offers none. */
  serve(passedOver: Refusal | null): void {
    const { context, target } = this;
    const { mayOpen } = this.#room;
    const unwelcome = context.gate?.refuses(this.remoteAddress) ?? null;
    if (unwelcome !== null) return this.refuse(unwelcome);
    if (mayOpen !== null && isIngestTarget(target)) {
      const why = handshakeRefusal(this.request, mayOpen) ?? refusal('upgrade_required');
      return this.refuse(passedOver ?? why);
    }
    if (!isWebhookTarget(target)) return this.refuse(refusal('not_found'));
    if (this.method !== 'POST') return this.#askOrRefuse();
    if (context.draining) return this.refuse(draining, true);
    const why = this.share.take(context.limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    this.#store();
  }

  /** Answers, and whoever is told of the request, name its table. */
  found(table: TableName & Pick<Target, 'answers'>): void {
    this.#table = table;
  }

  #store(): void {
    this.#room.ingest.submit(this).then(
      (outcome) => this.#decided(outcome),
      (error: unknown) => this.#refuseFor(error),
    );
  }

  override refuse(why: Refusal, closes = false): void {
    this.closes ||= closes;
    this.#answer(this.#room.refusalReply(why));
  }

  body(keepsEncoded = false): Buffer | Promise<Buffer> {
    const { bodies, bodiesOfGet } = this.#room;
    if (this.method === 'POST') return this.readBody(bodies, keepsEncoded);
    return (this.#body ??= this.readBody(this.method === 'GET' ? bodiesOfGet : bodies, keepsEncoded));
  }

  #decided(outcome: Outcome | HandshakeOutcome | Spooled | KeptApart): void {
    switch (outcome.kind) {
      case 'committed': {
        const own = this.#table?.answers?.committed ?? null;
        const { rows, stale, held, isCopy } = outcome;
        const said = own === null ? committedReply(rows, stale) : ownReply(rows, own, this);
        return this.#answer(said, held, stale, isCopy);
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

  #refuseFor(error: unknown): void {
    if (error instanceof Refused) return this.refuse(error.refusal);
    const requestId = randomUUID();
    this.#answer(failureReply(requestId));
    this.#room.observe({ kind: 'request.failed', requestId, error });
  }

  /** `isCopy`: its sender is told what was told of the delivery before; nothing else counts its rows again. */
  #answer(answer: WebhookReply, held?: string, stale?: number, isCopy?: true): void {
    this.write(answer, this.method === 'GET' && answer.code !== 'handshake' ? notCached : null);
    const said = {
      kind: 'request.answered' as const,
      table: this.#table,
      status: answer.status,
      code: answer.code,
      rows: isCopy === true ? 0 : answer.rows,
      remoteAddress: this.remoteAddress,
      bytes: this.announcedBytes,
      seconds: this.seconds,
      arrivedAtMs: this.arrivedAtMs,
    };
    if (this.#table === null) return this.#observe({ ...said, path: pathOf(this.target) });
    const more = stale === undefined ? said : { ...said, stale };
    this.#observe(held === undefined ? more : { ...more, held });
  }

  #observe(said: RequestAnswered): void {
    const { observe, tracer, scheme } = this.#room;
    const { span } = this;
    if (span === null || tracer === null) return observe(said);
    const { table, status, code } = said;
    const route = isWebhookTarget(this.target) ? webhookTemplate : null;
    tracer.end(span, this, { table, route, scheme, status, code });
    observe({ ...said, traceId: span.traceId });
  }

  /**
   * Requests other than POST are for tables that answer handshakes, or take such methods; preflights only if they are a handshake (CloudEvents).
   * HEAD asks, and never stores.
   */
  #askOrRefuse(): void {
    const isOptions = this.method === 'OPTIONS';
    const otherwise = (why: Refusal) => (isOptions ? this.#preflight() : this.refuse(why));
    const asks = !isOptions || this.headers['webhook-request-origin'] !== undefined;
    if (asks) this.#ask(otherwise);
    else otherwise(refusal('method_not_allowed'));
  }

  /** Answers a browser that asks whether it may post from its page. No request was refused or stored: nothing is reported. */
  #preflight(): void {
    this.write(preflightReply(this.headers['access-control-request-headers']));
  }

  /** Answered if its table answers such handshakes, stored if it takes them; if neither, calls `otherwise` with the refusal. */
  #ask(otherwise: (why: Refusal) => void): void {
    const { handshakes } = this.#room;
    if (handshakes === null) return otherwise(refusal('method_not_allowed'));
    const why = this.share.take(this.context.limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    handshakes.ask(this).then(
      (asked) => {
        if (asked === 'stored') return this.context.draining ? this.refuse(draining, true) : this.#store();
        if ('kind' in asked) return this.#decided(asked);
        this.share.release();
        otherwise(asked);
      },
      (error: unknown) => this.#refuseFor(error),
    );
  }
}

type RequestAnswered = Extract<Observation, { kind: 'request.answered' }>;

const draining = refusal('draining');

/** What was answered to a GET could be answered by a cache the next time. */
const notCached = ['Cache-Control', 'no-store'] as const;

const pathCharsMax = 200;

function pathOf(target: string): string {
  const at = target.indexOf('?');
  return target.slice(0, at < 0 ? pathCharsMax : Math.min(at, pathCharsMax));
}

const oneRow = often(reply(200, 'committed', 1, '{"rows":1}'));

/** `stale`: rows that were not newer than what the table has. */
function committedReply(rows: number, stale?: number): WebhookReply {
  if (stale !== undefined) return reply(200, 'committed', rows, `{"rows":${rows},"stale":${stale}}`);
  return rows === 1 ? oneRow : reply(200, 'committed', rows, `{"rows":${rows}}`);
}
