/**
 * The webhook listener. Takes sockets on one address, gives each request to the ingest sentence as an
 * `Arrival`, and writes its answer. Refuses by itself what never becomes an arrival: malformed HTTP, other paths
 * and methods, requests while draining. Touches nothing but its sockets. This is the hot path: what every
 * request needs is made in advance (reply.ts), everything else happens off to the side.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { Connection } from '../access/connection.ts';
import type { Gate } from '../access/gate.ts';
import { answerHalfClosed, createHttpServer } from '../access/http-server.ts';
import type { HttpServer } from '../access/http-server.ts';
import { isHeadOfParserError, protocolRefusal, refusalForParserError } from '../access/protocol.ts';
import type { TlsSource } from '../access/tls-source.ts';
import type { Handshakes } from '../ingest/handshake.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { OpenStream } from '../ingest/ingest-stream.ts';
import type { Closable } from '../kit/closer.ts';
import { deferred } from '../kit/deferred.ts';
import { PerTurn } from '../kit/per-turn.ts';
import { quietTurn } from '../kit/quiet-turn.ts';
import { Spaced } from '../kit/spaced.ts';
import type { Limits } from '../tables/limits.ts';
import { limits as allLimits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import type { Refusal } from '../tables/refusals.ts';
import { refusal } from '../tables/refusals.ts';
import { Inflations } from './content-encoding.ts';
import type { Room } from './exchange.ts';
import { Exchange } from './exchange.ts';
import type { OriginRule } from './handshake.ts';
import { BytesInFlight } from './in-flight.ts';
import { handshakeRefusal, originRule, withoutOffer } from './handshake.ts';
import { createRefusalReplies, rawMessage } from './reply.ts';
import { isIngestTarget, isWebhookTarget } from './routes.ts';
import { Backlogs } from './unacked.ts';
import { WebSocketDoor } from './websocket.ts';

export interface ListenerOptions {
  readonly host: string;
  /** 0 picks a free one; null: it does not listen, and is handed its connections (`take`). */
  readonly port: number | null;
  readonly ingest: Ingest;
  /** Answers the questions of senders; null, or not given: nobody does. */
  readonly handshakes?: Handshakes | null;
  /** Takes the batches of WebSockets; without it there is no such door. */
  readonly openStream?: OpenStream;
  /** Origins whose pages may open a WebSocket, parted by commas; `*`: all. */
  readonly websocketOrigins?: string | null;
  readonly bodyBytesMax: number;
  readonly observe: Observe;
  /** ms since 1970 */
  readonly now: () => number;
  /** 0 ≤ random() < 1; spreads `Retry-After`. */
  readonly random?: () => number;
  readonly limits?: Limits;
  /** null, or not given: plain HTTP. */
  readonly tls?: TlsSource | null;
  /** null, or not given: everybody may come, and no proxy is believed. */
  readonly gate?: Gate | null;
}

export interface Listener extends Closable {
  readonly address: { readonly host: string; readonly port: number };
  /** How much is in flight at this moment. */
  readonly load: { readonly connections: number; readonly bytesInFlight: number };
  /** Serves a connection that was accepted elsewhere, of which nothing was read. */
  take(socket: Socket): void;
  /** From now on new requests are answered 503 and idle connections are closed; running requests finish. */
  drain(): void;
  /**
   * Stops listening, serves what is on its way on open connections, drains, waits for running requests up to
   * `limits.drainMs`, and closes every connection.
   */
  close(): Promise<void>;
}

export async function openListener(options: ListenerOptions): Promise<Listener> {
  const listener = new HttpListener(options);
  await listener.open(options.host, options.port);
  return listener;
}

class HttpListener implements Listener {
  address = { host: '', port: 0 };
  readonly #room: Room;
  readonly #limits: Limits;
  readonly #http: HttpServer;
  readonly #websockets: WebSocketDoor | null;
  readonly #mayOpen: OriginRule;
  readonly #connections = new Map<Socket, Connection>();
  /** What the end of a connection takes, and what a request takes that did not wait for the answer before it. */
  readonly #endings: PerTurn;
  readonly #pipelined: PerTurn;
  readonly #emptied = deferred<void>();
  #closing: Promise<void> | null = null;

  constructor(options: ListenerOptions) {
    this.#limits = options.limits ?? allLimits;
    this.#endings = new PerTurn(this.#limits.endingsPerTurnMax, setImmediate);
    this.#pipelined = new PerTurn(this.#limits.pipelinedPerTurnMax, setImmediate);
    const spaced = new Spaced({ clock: () => performance.now(), endOfTurn: setImmediate, after: setTimeout });
    this.#room = {
      ingest: options.ingest,
      handshakes: options.handshakes ?? null,
      observe: options.observe,
      limits: this.#limits,
      bodyBytesMax: options.bodyBytesMax,
      inFlight: new BytesInFlight(this.#limits.bodiesInFlightBytesMax),
      inflations: new Inflations(this.#limits),
      bodyTurn: (bytes) => (bytes < this.#limits.spacedBodyBytes ? null : spaced.turn()),
      refusalReply: createRefusalReplies(options.random ?? Math.random, this.#limits.retryAfterSecondsMax),
      now: options.now,
      gate: options.gate ?? null,
      ebbing: false,
      draining: false,
    };
    this.#mayOpen = originRule(options.websocketOrigins ?? null);
    const { openStream } = options;
    this.#websockets =
      openStream === undefined
        ? null
        : new WebSocketDoor({ ...this.#room, openStream, backlogs: new Backlogs(this.#limits) });
    this.#http = this.#createServer(options.tls ?? null);
  }

  get #server(): HttpServer['server'] {
    return this.#http.server;
  }

  get load(): Listener['load'] {
    return { connections: this.#connections.size, bytesInFlight: this.#room.inFlight.held };
  }

  async open(host: string, port: number | null): Promise<void> {
    if (port === null) {
      this.address = { host, port: 0 };
      // Node begins to look after the time that headers and bodies take when it is told that the server listens.
      this.#server.emit('listening');
      return;
    }
    const listening = once(this.#server, 'listening');
    this.#server.listen({ host, port, backlog: 4096 });
    await listening;
    this.#server.on('error', (error) => this.#failed(error));
    const { address, port: bound } = this.#server.address() as AddressInfo;
    this.address = { host: address, port: bound };
  }

  take(socket: Socket): void {
    // As a server of HTTP has it by itself: who closes its own half after a request still reads the answer.
    socket.allowHalfOpen = true;
    this.#server.emit('connection', socket);
  }

  drain(): void {
    if (this.#room.draining) return;
    this.#room.draining = true;
    this.#server.closeIdleConnections();
    this.#websockets?.drain();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#ebb();
    this.drain();
    this.#websockets?.close();
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()));
    this.#http.endHandshakes();
    for (const connection of this.#connections.values()) {
      // One that is being lingered on ends by its own timer; one in the middle of its headers has no request yet.
      if (
        connection.idle &&
        !connection.upgraded &&
        !connection.ending &&
        connection.socket.writableLength === 0
      ) {
        connection.socket.destroy();
      }
    }
    const timer = setTimeout(() => {
      for (const socket of this.#connections.keys()) socket.destroy();
    }, this.#limits.drainMs);
    if (this.#connections.size > 0) await this.#emptied.promise;
    await closed;
    clearTimeout(timer);
  }

  /**
   * A proxy that keeps connections open may be sending on one at this very moment; closed now, it would break off that
   * request, and the proxy could not know whether to repeat it. So new connections are refused, which every proxy may
   * take elsewhere, and on open ones the next answer says that it is the last. Those that stay idle are closed after.
   */
  async #ebb(): Promise<void> {
    this.#room.ebbing = true;
    await quietTurn(this.#server, this.#limits.closingTurnsMax);
    // The HTTP server's own close() would close the idle connections too.
    NetServer.prototype.close.call(this.#server);
    if (this.#connections.size === 0) return;
    const over = deferred<void>();
    const timer = setTimeout(() => over.resolve(), this.#limits.drainIdleMs);
    await Promise.race([over.promise, this.#emptied.promise]);
    clearTimeout(timer);
  }

  #createServer(tls: TlsSource | null): HttpServer {
    const bounds = { ...this.#limits, connectionsMax: this.#limits.listenConnectionsMax };
    const http = createHttpServer(bounds, tls);
    const { server } = http;
    answerHalfClosed(server);
    http.connected((socket) => this.#connected(socket));
    server.on('request', (request, response) => this.#request(request, response, false));
    server.on('checkContinue', (request, response) => this.#request(request, response, true));
    server.on('checkExpectation', (request, response) => this.#unexpected(request, response));
    server.on('clientError', (error, socket) => this.#clientError(error, socket as Socket));
    server.on('connect', (_request, socket) =>
      this.#refuseTunnel(socket as Socket, refusal('method_not_allowed')),
    );
    server.on('upgrade', (request, socket, head) => this.#offered(request, socket as Socket, head));
    if (this.#websockets !== null)
      this.#websockets.onRefused = (socket) => this.#refuseTunnel(socket, refusal('malformed_request'));
    return http;
  }

  #connected(socket: Socket): void {
    // Given back to Node, with an offer passed over.
    if (this.#connections.has(socket)) return;
    const connection = new Connection(socket, this.#limits, this.#endings);
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      this.#connections.delete(socket);
      if (this.#closing !== null && this.#connections.size === 0) this.#emptied.resolve();
      const { last } = connection;
      if (last?.received === false) this.#endings.run(() => last.fail(refusal('request_aborted')));
    });
  }

  #request(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): void {
    const exchange = this.#exchange(request, response, awaitsContinue);
    if (exchange === null) return;
    const passedOver = this.#connections.get(request.socket)?.takePassedOver() ?? null;
    const broken = protocolRefusal(request, this.#limits) ?? this.#impatience(request);
    // What ends the connection is said at once: nothing behind it is a request any more.
    if (broken !== null) return exchange.refuse(broken, true);
    const serve = () => this.#serve(request, exchange, passedOver);
    if ((this.#connections.get(request.socket)?.owed ?? 0) > 1) this.#pipelined.run(serve);
    else serve();
  }

  #serve(request: IncomingMessage, exchange: Exchange, passedOver: Refusal | null): void {
    const unwelcome = this.#room.gate?.refuses(exchange.remoteAddress) ?? null;
    if (unwelcome !== null) return exchange.refuse(unwelcome);
    if (this.#websockets !== null && isIngestTarget(exchange.target)) {
      const why = handshakeRefusal(request, this.#mayOpen) ?? refusal('upgrade_required');
      return exchange.refuse(passedOver ?? why);
    }
    if (!isWebhookTarget(exchange.target)) return exchange.refuse(refusal('not_found'));
    if (exchange.method !== 'POST') return askOrRefuse(request, exchange);
    if (this.#room.draining) return exchange.refuse(refusal('draining'), true);
    exchange.run();
  }

  /**
   * A request that offers to go on in another protocol, its body unread in `head` and in the socket. Node has let go of
   * the socket; the answers that it owes on it are written before anything else is.
   */
  #offered(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const connection = this.#connections.get(socket);
    const failed = () => void socket.destroy();
    socket.on('error', failed);
    if (connection === undefined) return void socket.destroy();
    const decide = () => {
      // What comes behind the last answer of a connection is read and dropped.
      if (connection.ending) return void socket.resume();
      const refused = this.#offerRefusal(request, connection);
      if (refused === null && this.#websockets !== null) {
        connection.upgraded = true;
        this.#websockets.upgrade(request, socket, head);
        return;
      }
      // The offer is passed over. Had Node been told so in advance, it would lose what came behind the request in the same
      // read (llhttp pauses there, and its position is not looked at), and read on in the middle of something.
      connection.passedOver = refused;
      socket.off('error', failed);
      socket.setTimeout(0);
      socket.unshift(Buffer.concat([withoutOffer(request), head]));
      this.#http.giveBack(socket);
    };
    if (connection.last === null) decide();
    else connection.last.whenWritten(decide);
  }

  /** null: it becomes a WebSocket. */
  #offerRefusal(request: IncomingMessage, connection: Connection): Refusal | null {
    if (!isIngestTarget(request.url ?? '')) return refusal('not_found');
    if (this.#room.draining) return refusal('draining');
    if (this.#room.inFlight.exhausted) this.#room.inFlight.relieve();
    if (this.#room.inFlight.exhausted) return refusal('overloaded');
    const refused = protocolRefusal(request, this.#limits) ?? handshakeRefusal(request, this.#mayOpen);
    const { gate } = this.#room;
    // Last, because it counts: an offer that is passed over is counted as the request that it then is.
    return refused ?? gate?.refuses(gate.clientAddress(connection.remoteAddress, request.headers)) ?? null;
  }

  /** null: the answer that closes this connection is already on its way. */
  #exchange(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): Exchange | null {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined || connection.ending) return null;
    connection.owed += 1;
    response.once('close', () => (connection.owed -= 1));
    return new Exchange(this.#room, connection, request, response, awaitsContinue);
  }

  /** Each request that waits takes memory, and Node reads on until the end of what has come. */
  #impatience(request: IncomingMessage): Refusal | null {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined || connection.owed <= this.#limits.pipelinedRequestsMax) return null;
    connection.stopParsing();
    return refusal('overloaded');
  }

  #unexpected(request: IncomingMessage, response: ServerResponse): void {
    this.#exchange(request, response, true)?.refuse(refusal('expectation_failed'), true);
  }

  #clientError(error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket): void {
    const connection = this.#connections.get(socket);
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

  #refuseTunnel(socket: Socket, why: Refusal): void {
    const connection = this.#connections.get(socket);
    // Node has let go of the socket: its errors are ours now, and they only end it.
    socket.on('error', () => socket.destroy());
    if (connection === undefined) socket.destroy();
    else this.#refuseConnection(connection, why);
    socket.resume();
  }

  #refuseConnection(connection: Connection, why: Refusal, isHead = false): void {
    if (connection.ending) return;
    const reply = this.#room.refusalReply(why);
    connection.endWithMessage(() => rawMessage(isHead ? { ...reply, body: '' } : reply, this.#room.now()));
    this.#room.observe({
      kind: 'request.answered',
      table: null,
      status: reply.status,
      code: reply.code,
      rows: 0,
      seconds: 0,
    });
  }

  /** Accepting a connection failed, e.g. for want of file descriptors; the others go on. */
  #failed(error: Error): void {
    this.#room.observe({ kind: 'request.failed', requestId: randomUUID(), error });
  }
}

/** Only tables that answer questions see anything but POST, and preflights only where they are one (CloudEvents). */
function askOrRefuse({ headers }: IncomingMessage, exchange: Exchange): void {
  const { method } = exchange;
  const otherwise = () =>
    method === 'OPTIONS' ? exchange.preflight() : exchange.refuse(refusal('method_not_allowed'));
  const asks =
    method === 'OPTIONS'
      ? headers['webhook-request-origin'] !== undefined
      : method === 'GET' || method === 'HEAD';
  if (asks) exchange.ask(otherwise);
  else otherwise();
}
