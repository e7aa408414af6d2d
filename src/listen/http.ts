/**
 * Webhooks over HTTP. Takes sockets on one address, and requests that come on them (http/exchange.ts); passes each to ingest as an `Arrival`, answers
 * according to the outcome, and reports what was answered. Itself refuses requests that never become an arrival: other paths and methods, requests while
 * draining. WebSockets begin here (websocket.ts). This is the hot path: whatever every request needs is made in advance (reply.ts), and everything else is
 * kept out of its way. Touches nothing but its sockets.
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Admission } from '../access/admission.ts';
import type { TlsSource } from '../access/tls-source.ts';
import type { BodyRules } from '../http/body.ts';
import { Exchange } from '../http/exchange.ts';
import type { Incoming } from '../http/exchange.ts';
import type { HttpHandler } from '../http/received-requests.ts';
import { HttpServer } from '../http/http-server.ts';
import { often } from '../http/plain-answer.ts';
import type { HandshakeOutcome, SenderHandshakes } from '../ingest/handshake.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { RequestStreams } from '../ingest/ingest-stream.ts';
import { isIngestTarget, isWebhookTarget, webhookPrefix, webhookTemplate } from '../ingest/routes.ts';
import type { Closable } from '../kit/closer.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import { limits as allLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observation, Observe, TableName } from '../observe/observations.ts';
import type { TracedRequest, Tracer } from '../telemetry/tracer.ts';
import type { Arrival } from '../types/request.ts';
import type { KeptApart, Outcome, Spooled } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { handshakeReply, preflightReply } from './handshake-reply.ts';
import { createRefusalReplies, failureReply } from './refusal-reply.ts';
import type { RefusalReplies } from './refusal-reply.ts';
import { keptApartReply, ownReply, reply, spooledReply } from './reply.ts';
import type { WebhookReply } from './reply.ts';
import { Backlogs } from './unacked.ts';
import { handshakeRefusal, originRule, WebSocketDoor } from './websocket.ts';
import type { OriginRule } from './websocket.ts';

export interface ListenerOptions {
  readonly host: string;
  /** 0 picks a free one; null: it does not listen, and gets its connections from `take`. */
  readonly port: number | null;
  readonly fd?: ListenAt['fd'];
  readonly ingest: Pick<Ingest, 'submit'>;
  /** Answers the handshakes of senders; null or absent: none is answered. */
  readonly handshakes?: Pick<SenderHandshakes, 'ask'> | null;
  /** Takes the batches of WebSockets; absent: there is no such door. */
  readonly streams?: Pick<RequestStreams, 'open'>;
  /** Origins whose pages may open a WebSocket, separated by commas; `*`: all. */
  readonly websocketOrigins?: string | null;
  readonly bodyBytesMax: number;
  /** false: every request is read by Node's parser. Default: true. */
  readonly fastPath?: boolean;
  readonly observe: Observe;
  /** ms since 1970 */
  readonly now: () => number;
  /** 0 ≤ random() < 1; spreads `Retry-After`. */
  readonly random?: () => number;
  readonly limits?: Limits;
  /** null or absent: plain HTTP. */
  readonly tls?: TlsSource | null;
  /** null or absent: everybody may connect, and no proxy is trusted. */
  readonly gate?: Admission | null;
  /** null or absent: no request is traced. */
  readonly tracer?: Tracer | null;
}

export async function openListener(options: ListenerOptions): Promise<Listener> {
  const listener = new Listener(options);
  await listener.open(options);
  return listener;
}

/** The webhook listener, and what it does with requests that it has received. */
export class Listener implements Closable, HttpHandler<WebhookExchange> {
  address = { host: '', port: 0 };
  readonly #limits: Limits;
  readonly #context: WebhookContext;
  readonly #server: HttpServer<WebhookExchange>;
  readonly #websockets: WebSocketDoor | null;
  #closing: Promise<void> | null = null;

  constructor(options: ListenerOptions) {
    const { observe, streams, now, gate = null, tls = null, tracer = null, bodyBytesMax } = options;
    const limits = options.limits ?? allLimits;
    this.#limits = limits;
    const mayOpen = streams === undefined ? null : originRule(options.websocketOrigins ?? null);
    this.#context = {
      ingest: options.ingest,
      handshakes: options.handshakes ?? null,
      observe,
      bodies: { bytesMax: bodyBytesMax, needsLength: true, pauseMs: null },
      bodiesOfGet: { bytesMax: bodyBytesMax, needsLength: false, pauseMs: null },
      refusalReply: createRefusalReplies(options.random ?? Math.random, limits.retryAfterSecondsMax),
      tracer,
      scheme: tls === null ? 'http' : 'https',
      mayOpen,
    };
    const bounds = {
      connectionsMax: limits.listenConnectionsMax,
      requestTimeoutMs: limits.requestTimeoutMs,
      silenceMs: null,
      inFlightBytesMax: limits.bodiesInFlightBytesMax,
      answersHalfClosed: true,
      impatient: refusal('overloaded'),
      fastPrefixes: options.fastPath === false ? null : [webhookPrefix],
    };
    const failed = (error: Error) => observe({ kind: 'request.failed', requestId: randomUUID(), error });
    this.#server = new HttpServer({ ...bounds, tls, gate, limits, now, failed }, this);
    const { context, events } = this.#server;
    const backlogs = new Backlogs(limits);
    const scheme = tls === null ? 'ws' : 'wss';
    this.#websockets =
      streams === undefined || mayOpen === null
        ? null
        : new WebSocketDoor({ ...context, observe, streams, backlogs, tracer, scheme }, mayOpen, events);
    events.offers = this.#websockets;
  }

  exchange(incoming: Incoming): WebhookExchange {
    return new WebhookExchange(this.#context, incoming);
  }

  serve(exchange: WebhookExchange, passedOver: Refusal | null): void {
    exchange.serve(passedOver);
  }

  words(why: Refusal): WebhookReply {
    const said = this.#context.refusalReply(why);
    const { status, code } = said;
    this.#context.observe({ kind: 'request.answered', table: null, status, code, rows: 0, seconds: 0 });
    return said;
  }

  /** How much is in flight at this moment. */
  get load(): { readonly connections: number; readonly bytesInFlight: number } {
    return this.#server.load;
  }

  async open({ host, port, fd }: Pick<ListenerOptions, 'host' | 'port' | 'fd'>): Promise<void> {
    if (port === null) this.#server.acceptPassedSockets();
    this.address = port === null ? { host, port: 0 } : await this.#server.listen({ host, port, fd });
  }

  /** Serves a connection that was accepted elsewhere, and from which nothing was read. */
  take(socket: Socket): void {
    this.#server.take(socket);
  }

  /** From now on new requests are answered 503 and idle connections are closed; running requests finish. */
  drain(): void {
    this.#server.connections.drain();
    this.#websockets?.drain();
  }

  /**
   * Stops listening, serves requests that are in flight on open connections, drains, waits for running requests up to
   * `limits.drainMs`, and closes every connection.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#server.connections.stopAccepting();
    this.drain();
    this.#websockets?.close();
    await this.#server.connections.close(this.#limits.drainMs);
  }
}

/** What all requests of one listener share. */
interface WebhookContext {
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

class WebhookExchange extends Exchange implements Arrival {
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

  /** Sends it through the stages, or refuses it. The answer follows when they have decided. `passedOver`: see HttpHandler. */
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
