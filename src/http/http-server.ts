/**
 * The sockets of a door that speaks HTTP. Takes connections over TCP or TLS, and the requests that the recogniser or Node's parser
 * reads from them (fast-connection.ts). Passes unambiguous requests to the door; has the door refuse others with `malformed_request`,
 * `encoding_unsupported`, `headers_too_large`, `path_too_long`, `expectation_failed`, `request_timeout`, `request_aborted`,
 * `method_not_allowed` (CONNECT) and `overloaded` (too many requests on one connection). Touches nothing but its sockets.
 */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Admission } from '../access/admission.ts';
import type { TlsSource } from '../access/tls-source.ts';
import { deferred } from '../kit/deferred.ts';
import { alsoAt, listenAt, type ListenAt } from '../kit/listen-at.ts';
import { longWork } from '../kit/time-slices.ts';
import { PerTurn } from '../kit/per-tick.ts';
import { nobodyWaits, quietTurn } from '../kit/idle-tick.ts';
import { within } from '../kit/timeout.ts';
import type { Limits } from '../config/limits.ts';
import { refusal, type Refusal } from '../errors/refusals.ts';
import { BytesInFlight } from './budget.ts';
import { Connection } from './connection.ts';
import type { LiveRequest } from './connection.ts';
import type { Exchange, ServerContext, HttpRequest, HttpResponse, Incoming } from './exchange.ts';
import { FastConnections } from './fast-connection.ts';
import { Inflations } from './inflation.ts';
import { withoutFetched } from './fetched-header.ts';
import { isHeadOfParserError, protocolRefusal, refusalForParserError } from './protocol.ts';
import { rawMessage } from './reply.ts';
import type { HttpReply } from './reply.ts';
import { answerHalfClosed, createHttpDoor } from './server.ts';
import type { NodeServer } from './server.ts';
import { WholeRequest } from './plain-request-parser.ts';

/** What a door does with requests. */
export interface HttpHandler<E extends Exchange> {
  exchange(incoming: Incoming): E;
  /** `passedOver`: why an offer to continue in another protocol was ignored. */
  serve(request: HttpRequest, exchange: E, passedOver: Refusal | null): void;
  /** The answer for a connection that has no request to answer. This call also reports it as answered. */
  words(why: Refusal, connection: Connection): HttpReply;
  /** null: every offer is ignored. */
  readonly offers: Offers | null;
}

/** What a door does with requests that offer to continue in another protocol. */
export interface Offers {
  /** null: the offer is taken; otherwise it is ignored, and an ordinary request follows. */
  refusal(request: IncomingMessage, connection: Connection): Refusal | null;
  take(request: IncomingMessage, socket: Socket, head: Buffer): void;
}

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

export class HttpServer<E extends Exchange> {
  readonly context: ServerContext;
  readonly #options: HttpServerOptions;
  readonly #handler: HttpHandler<E>;
  readonly #limits: Limits;
  readonly #servers: NodeServer[] = [];
  readonly #fast: FastConnections[] = [];
  readonly #connections = new Map<Socket, Connection>();
  /** The work at the end of a connection, and that of a request that did not wait for the previous answer. */
  readonly #endings: PerTurn;
  readonly #pipelined: PerTurn;
  readonly #emptied = deferred<void>();
  /** The listening sockets are closed. */
  #stopped = false;
  #closing: Promise<void> | null = null;
  /** Requests received, answered or not. */
  #begun = 0;

  constructor(options: HttpServerOptions, handler: HttpHandler<E>) {
    const { limits, gate, now } = options;
    this.#options = options;
    this.#handler = handler;
    this.#limits = limits;
    this.#endings = new PerTurn(limits.endingsPerTurnMax, setImmediate);
    this.#pipelined = new PerTurn(limits.pipelinedPerTurnMax, setImmediate);
    this.context = {
      limits,
      inFlight: new BytesInFlight(options.inFlightBytesMax),
      inflations: new Inflations(limits),
      bodyTurn: (bytes) => (bytes < limits.spacedBodyBytes ? null : longWork.turn(bytes)),
      now,
      gate,
      owed: 0,
      closingListener: false,
      draining: false,
    };
  }

  get load(): { readonly connections: number; readonly bytesInFlight: number } {
    return { connections: this.#connections.size, bytesInFlight: this.context.inFlight.held };
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
    this.#stopped = true;
    if (this.#connections.size === 0) return;
    // As long as requests arrive, the proxy has not gone elsewhere yet.
    let before = -1;
    for (let rounds = 0; this.#begun !== before && rounds < this.#limits.drainIdleRoundsMax; rounds++) {
      before = this.#begun;
      await within(this.#limits.drainIdleMs, this.#emptied.promise, undefined);
    }
    await quietTurn(() => this.#begun, this.#limits.closingTurnsMax);
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
    for (const { socket, idle, owed, upgraded, ending } of this.#connections.values()) {
      // A lingering connection ends by its own timer, one with unwritten bytes after these; one in the middle of its headers has no request yet.
      if (idle && owed === 0 && !upgraded && !ending && socket.writableLength === 0) socket.destroy();
    }
    this.#stopped = true;
    const timer = withinMs === null ? undefined : setTimeout(() => this.cutOff(), withinMs);
    if (this.#connections.size > 0) await this.#emptied.promise;
    await Promise.all(closed);
    clearTimeout(timer);
  }

  /** Ends every connection, whatever it still waits for. */
  cutOff(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
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
    http.connected((socket) => this.#connected(socket, http, fast));
    const of = ({ socket }: IncomingMessage) => this.#connections.get(socket);
    server.on('request', (request, response) => this.#request(of(request), request, response, false));
    server.on('checkContinue', (request, response) => this.#request(of(request), request, response, true));
    server.on('checkExpectation', (request, response) =>
      this.#exchange(of(request), request, response, true)?.refuse(refusal('expectation_failed'), true),
    );
    server.on('clientError', (error, socket) => this.#clientError(error, socket as Socket));
    server.on('connect', (_request, socket) =>
      this.refuseTunnel(socket as Socket, refusal('method_not_allowed')),
    );
    // Even if nothing is offered: left to itself, Node loses what followed such a request in the same read.
    server.on('upgrade', (request, socket, head) => this.#offered(http, request, socket as Socket, head));
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
      begin: (connection, request, answer) => this.#request(connection, request, answer, false),
      handOver: (socket) => parser.emit('connection', socket),
      expired: (socket) => this.#clientError(nothingCame, socket),
    });
    this.#fast.push(fast);
    return fast;
  }

  #connected(socket: Socket, { parser }: NodeServer, fast: FastConnections | null): void {
    const connection = new Connection(socket, this.#limits, this.#endings);
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      this.#connections.delete(socket);
      if (this.#stopped && this.#connections.size === 0) this.#emptied.resolve();
      // Nothing else ends the requests whose answers waited for earlier ones.
      for (let [it] = connection.pending; it !== undefined; [it] = connection.pending)
        this.#ended(connection, it);
      const { last } = connection;
      if (last?.received === false) this.#endings.run(() => last.fail(refusal('request_aborted')));
    });
    if (fast === null) parser.emit('connection', socket);
    else fast.add(socket, connection);
  }

  #request(
    connection: Connection | undefined,
    request: HttpRequest,
    response: HttpResponse,
    awaitsContinue: boolean,
  ): void {
    const exchange = this.#exchange(connection, request, response, awaitsContinue);
    if (exchange === null || connection === undefined) return;
    const passedOver = connection.takePassedOver();
    const doubt = request instanceof WholeRequest ? null : protocolRefusal(request, this.#limits);
    const broken = doubt ?? this.#impatience(connection);
    // A refusal that ends the connection is answered at once: nothing after it is a request any more.
    if (broken !== null) return exchange.refuse(broken, true);
    const serve = () => this.#handler.serve(request, exchange, passedOver);
    if (connection.owed > 1) this.#pipelined.run(serve);
    else serve();
  }

  /** null: the answer that closes this connection is already decided. */
  #exchange(
    connection: Connection | undefined,
    request: HttpRequest,
    response: HttpResponse,
    awaitsContinue: boolean,
  ): E | null {
    if (connection === undefined || connection.ending) return null;
    if (!(request instanceof WholeRequest)) withoutFetched(request);
    const exchange = this.#handler.exchange({
      context: this.context,
      connection,
      request,
      response,
      awaitsContinue,
    });
    connection.begin(exchange);
    this.context.owed += 1;
    this.#begun += 1;
    response.once('close', () => this.#ended(connection, exchange));
    return exchange;
  }

  #ended(connection: Connection, exchange: LiveRequest): void {
    if (!connection.end(exchange)) return;
    this.context.owed -= 1;
    exchange.ended();
    // The head of the last answer was written before it was known to be the last.
    if (this.context.draining && connection.owed === 0) connection.endWithMessage(null);
  }

  /** Each waiting request takes memory, and Node reads on to the end of what has arrived. */
  #impatience(connection: Connection): Refusal | null {
    if (connection.owed <= this.#limits.pipelinedRequestsMax) return null;
    connection.stopParsing();
    return this.#options.impatient;
  }

  /**
   * A request that offers to continue in another protocol, its body unread in `head` and in the socket. Node has released
   * the socket; the answers owed on it are written before anything else.
   */
  #offered(http: NodeServer, request: IncomingMessage, socket: Socket, head: Buffer): void {
    const { offers } = this.#handler;
    const connection = this.#connections.get(socket);
    connection?.releaseParser();
    withoutFetched(request);
    const failed = () => void socket.destroy();
    socket.on('error', failed);
    if (connection === undefined) return void socket.destroy();
    const decide = () => {
      // What follows the last answer of a connection is read and dropped.
      if (connection.ending) return void socket.resume();
      const refused = protocolRefusal(request, this.#limits) ?? offers?.refusal(request, connection);
      if (offers !== null && refused === null) {
        connection.upgraded = true;
        return offers.take(request, socket, head);
      }
      // The offer is ignored. If Node had been told so in advance, it would lose what followed the request in the same
      // read (llhttp pauses there, and its position is ignored), and continue in the middle of something.
      connection.passedOver = refused ?? null;
      socket.off('error', failed);
      socket.setTimeout(0);
      socket.unshift(Buffer.concat([withoutOffer(request), head]));
      http.parser.emit('connection', socket);
    };
    if (connection.last === null) decide();
    else connection.last.whenWritten(decide);
  }

  /** For bytes that are no HTTP, arrive too slowly, or have too large headers. */
  #clientError(error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket): void {
    const connection = this.#connections.get(socket);
    // Without a connection, a TLS handshake has failed: HTTP cannot be spoken.
    if (connection === undefined || !socket.writable || /^(ECONNRESET|EPIPE)$/.test(error.code ?? '')) {
      socket.destroy();
      return;
    }
    if (connection.ending || connection.broken) return;
    connection.broken = true;
    const why = refusalForParserError(error);
    const last = connection.last?.received === false ? connection.last : null;
    this.#endings.run(() => {
      if (last === null) this.#refuseConnection(connection, why, isHeadOfParserError(error));
      else last.fail(why);
    });
  }

  /** Ends a connection that Node's HTTP server has released, with a message. */
  refuseTunnel(socket: Socket, why: Refusal): void {
    const connection = this.#connections.get(socket);
    connection?.releaseParser();
    // Node has released the socket: its errors must be handled here, and they only end it.
    socket.on('error', () => socket.destroy());
    if (connection === undefined) socket.destroy();
    else this.#refuseConnection(connection, why);
    socket.resume();
  }

  #refuseConnection(connection: Connection, why: Refusal, isHead = false): void {
    if (connection.ending) return;
    const reply = this.#handler.words(why, connection);
    connection.endWithMessage(() => rawMessage(isHead ? { ...reply, body: '' } : reply, this.context.now()));
  }
}

/**
 * The bytes, up to its body, of a request that offered an upgrade and is served as an ordinary one: without the
 * offer, which a server may ignore (RFC 9110 §7.8). `curl --http2` and Java's HttpClient offer h2c with every POST.
 */
function withoutOffer(request: IncomingMessage): Buffer {
  const { method, url, httpVersion, rawHeaders } = request;
  let head = `${method} ${url} HTTP/${httpVersion}\r\n`;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
  }
  return Buffer.from(`${head}\r\n`, 'latin1');
}
