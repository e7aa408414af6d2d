/**
 * The webhook listener. Takes sockets on one address; makes an exchange of each request that comes on them (webhook-exchange.ts), which does the rest.
 * WebSockets begin here (websocket.ts). Touches nothing but its sockets.
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Admission } from '../access/admission.ts';
import type { TlsSource } from '../access/tls-source.ts';
import type { Connection } from '../http/connection.ts';
import type { Incoming } from '../http/exchange.ts';
import { HttpServer } from '../http/http-server.ts';
import type { HttpHandler } from '../http/received-requests.ts';
import type { SenderHandshakes } from '../ingest/handshake.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { RequestStreams } from '../ingest/ingest-stream.ts';
import { webhookPrefix } from '../ingest/routes.ts';
import type { Closable } from '../kit/closer.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import { limits as allLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { createRefusalReplies } from './refusal-reply.ts';
import type { WebhookReply } from './reply.ts';
import { Backlogs } from './unacked.ts';
import { WebhookExchange } from './webhook-exchange.ts';
import type { WebhookContext } from './webhook-exchange.ts';
import { originRule, WebSocketDoor } from './websocket.ts';

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

/** The webhook listener. */
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

  words(why: Refusal, { remoteAddress }: Pick<Connection, 'remoteAddress'>): WebhookReply {
    const reply = this.#context.refusalReply(why);
    const { status, code } = reply;
    const said = { table: null, status, code, rows: 0, seconds: 0, remoteAddress };
    this.#context.observe({ kind: 'request.answered', ...said });
    return reply;
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
