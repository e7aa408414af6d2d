/**
 * The sockets of a door that speaks HTTP. Takes connections over TCP or TLS, and the requests that the recogniser or Node's parser
 * reads from them (fast-connection.ts). Passes unambiguous requests to the door; has the door refuse others with `malformed_request`,
 * `encoding_unsupported`, `headers_too_large`, `path_too_long`, `expectation_failed`, `request_timeout`, `request_aborted`,
 * `method_not_allowed` (CONNECT) and `overloaded` (too many requests on one connection). Touches nothing but its sockets.
 */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import type { Admission } from '../access/admission.ts';
import type { TlsSource } from '../access/tls-source.ts';
import { alsoAt, listenAt, type ListenAt } from '../kit/listen-at.ts';
import { nobodyWaits, quietTurn } from '../kit/idle-tick.ts';
import { within } from '../kit/promises.ts';
import type { Limits } from '../config/limits.ts';
import { refusal, type Refusal } from '../errors/refusals.ts';
import { BytesInFlight } from './budget.ts';
import { FastConnections } from './fast-connections.ts';
import { Inflations } from './inflation.ts';
import { answerHalfClosed, createHttpDoor } from './server.ts';
import type { NodeServer } from './server.ts';
import { ParserEvents } from './parser-events.ts';
import type { Offers } from './parser-events.ts';
import { ReceivedRequests } from './requests.ts';
import type { HttpHandler, LiveRequest, ServerContext } from './requests.ts';

export interface HttpServerOptions {
  /** How the targets of requests begin that are read without Node's parser; null: Node's parser reads all requests. */
  readonly fastPrefixes: readonly string[] | null;
  /** null: plain HTTP. */
  readonly tls: TlsSource | null;
  /** null: everybody may connect, and no proxy is trusted. */
  readonly gate: Admission | null;
  readonly limits: Limits;
  readonly connectionsMax: number;
  readonly requestTimeoutMs: number;
  /** How long a connection may be silent in both directions, in ms; null: the other bounds are enough. */
  readonly silenceMs: number | null;
  /** For all requests, whether they are being read or processed. */
  readonly inFlightBytesMax: number;
  /** Whether a sender that closes its own half after a request still reads its answer; otherwise it has left. */
  readonly answersHalfClosed: boolean;
  /** The answer to one request too many on a connection. */
  readonly impatient: Refusal;
  /** ms since 1970 */
  readonly now: () => number;
  /** Called when accepting a connection failed, e.g. for want of file descriptors; the other connections continue. */
  readonly failed: (error: Error) => void;
}

/** As Node reports it. */
const nothingCame = Object.assign(new Error('no request came'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

export class HttpServer<E extends LiveRequest> {
  readonly context: ServerContext;
  readonly #options: HttpServerOptions;
  readonly #limits: Limits;
  readonly #servers: NodeServer[] = [];
  readonly #fast: FastConnections[] = [];
  readonly #requests: ReceivedRequests<E>;
  readonly #events: ParserEvents<E>;
  #closing: Promise<void> | null = null;

  /** `offers`: null: every offer to continue in another protocol is ignored. */
  constructor(options: HttpServerOptions, handler: HttpHandler<E>, offers: Offers | null) {
    const { limits, gate, now } = options;
    this.#options = options;
    this.#limits = limits;
    this.context = {
      limits,
      inFlight: new BytesInFlight(options.inFlightBytesMax),
      inflations: new Inflations(limits),
      now,
      gate,
      owed: 0,
      closingListener: false,
      draining: false,
    };
    this.#requests = new ReceivedRequests(this.context, handler, options.impatient);
    this.#events = new ParserEvents(this.context, handler, this.#requests, offers);
  }

  get load(): { readonly connections: number; readonly bytesInFlight: number } {
    return { connections: this.#requests.connections.size, bytesInFlight: this.context.inFlight.held };
  }

  /** Ends a connection that Node's HTTP server has released, with a message. */
  refuseTunnel(socket: Socket, why: Refusal): void {
    this.#events.refuseTunnel(socket, why);
  }

  /** Port 0 picks a free one. */
  async listen(at: ListenAt): Promise<{ readonly host: string; readonly port: number }> {
    const bound = await this.#listen(at);
    for (const other of await alsoAt(at, bound)) await this.#listen(other).catch(() => undefined);
    return { host: bound.address, port: bound.port };
  }

  /** Instead of listening: connections are passed to `take`. */
  acceptPassedSockets(): void {
    this.#create();
  }

  /** Serves a connection that was accepted elsewhere, and from which nothing was read. */
  take(socket: Socket): void {
    // As Node's HTTP servers do: a sender that closes its own half after a request still reads the answer.
    socket.allowHalfOpen = true;
    this.#servers[0]?.sockets.emit('connection', socket);
  }

  /**
   * A proxy may be sending a request on an open connection at this moment. Closing it would break off the request, and the proxy could not
   * know whether to repeat it. So new connections are refused, which every proxy may take elsewhere, and on open ones the next answer says
   * that it is the last. When this resolves, the caller must close those that are still idle at once.
   */
  async stopAccepting(): Promise<void> {
    this.context.closingListener = true;
    for (const { sockets } of this.#servers) {
      await nobodyWaits(sockets, this.#limits.closingTurnsMax);
      sockets.close();
    }
    this.#requests.stopped = true;
    if (this.#requests.connections.size === 0) return;
    // As long as requests arrive, the proxy has not gone elsewhere yet.
    let before = -1;
    for (
      let rounds = 0;
      this.#requests.begun !== before && rounds < this.#limits.drainIdleRoundsMax;
      rounds++
    ) {
      before = this.#requests.begun;
      await within(this.#limits.drainIdleMs, this.#requests.emptied.promise, undefined);
    }
    await quietTurn(() => this.#requests.begun, this.#limits.closingTurnsMax);
  }

  /** From now on the door refuses requests; connections that owe no answer are ended. */
  drain(): void {
    if (this.context.draining) return;
    this.context.draining = true;
    for (const { parser } of this.#servers) parser.closeIdleConnections();
    for (const fast of this.#fast) fast.endIdle();
  }

  /** Stops listening; resolves when every connection has ended. Connections that have not within `withinMs` are cut off (null: none is). */
  close(withinMs: number | null): Promise<void> {
    this.#closing ??= this.#close(withinMs);
    return this.#closing;
  }

  async #close(withinMs: number | null): Promise<void> {
    // Requests that have begun are answered, and only Node's parser can tell which have.
    const held = this.#fast.map((fast) => fast.leaveHeld()).includes(true);
    if (held) await new Promise(setImmediate);
    this.drain();
    const closed = this.#servers.map((http) => {
      http.endHandshakes();
      http.parser.close();
      return new Promise<void>((resolve) => void http.sockets.close(() => resolve()));
    });
    for (const { socket, idle, pending, upgraded, ending } of this.#requests.connections.values()) {
      // A lingering connection ends by its own timer, one with unwritten bytes after these; one in the middle of its headers has no request yet.
      if (idle && pending.length === 0 && !upgraded && !ending && socket.writableLength === 0)
        socket.destroy();
    }
    this.#requests.stopped = true;
    const timer = withinMs === null ? undefined : setTimeout(() => this.cutOff(), withinMs);
    if (this.#requests.connections.size > 0) await this.#requests.emptied.promise;
    await Promise.all(closed);
    clearTimeout(timer);
  }

  /** Ends every connection, whatever it still waits for. */
  cutOff(): void {
    for (const socket of this.#requests.connections.keys()) socket.destroy();
  }

  async #listen(at: ListenAt): Promise<AddressInfo> {
    const { sockets } = this.#create();
    const listening = once(sockets, 'listening');
    sockets.listen({ ...listenAt(at), backlog: 4096 });
    await listening;
    sockets.on('error', (error) => this.#options.failed(error));
    return sockets.address() as AddressInfo;
  }

  #create(): NodeServer {
    const { requestTimeoutMs, connectionsMax, silenceMs, tls, answersHalfClosed } = this.#options;
    const http = createHttpDoor({ ...this.#limits, requestTimeoutMs, connectionsMax }, tls);
    const { parser: server } = http;
    this.#servers.push(http);
    if (answersHalfClosed) answerHalfClosed(server);
    if (silenceMs !== null) server.setTimeout(silenceMs);
    const fast = this.#createFast(http);
    http.connected((socket) => {
      const connection = this.#requests.connected(socket);
      if (fast === null) server.emit('connection', socket);
      else fast.add(socket, connection);
    });
    server.on('request', (request, response) => this.#events.request(request, response, false));
    server.on('checkContinue', (request, response) => this.#events.request(request, response, true));
    server.on('checkExpectation', (request, response) => this.#events.expectation(request, response));
    server.on('clientError', (error, socket) => this.#events.unreadable(error, socket as Socket));
    server.on('connect', (_request, socket) =>
      this.#events.refuseTunnel(socket as Socket, refusal('method_not_allowed')),
    );
    // Even if nothing is offered: left to itself, Node loses what followed such a request in the same read.
    server.on('upgrade', (request, socket, head) =>
      this.#events.offered(http, request, socket as Socket, head),
    );
    return http;
  }

  #createFast({ parser }: NodeServer): FastConnections | null {
    const { fastPrefixes: prefixes, silenceMs, answersHalfClosed } = this.#options;
    if (prefixes === null) return null;
    const fast = new FastConnections({
      prefixes,
      limits: this.#limits,
      silenceMs,
      answersHalfClosed,
      requests: this.#requests,
      handOver: (socket) => parser.emit('connection', socket),
      expired: (socket) => this.#events.unreadable(nothingCame, socket),
    });
    this.#fast.push(fast);
    return fast;
  }
}
