/**
 * What stands before Fastify: the sockets of the events gateway. Takes connections over TCP or TLS and the requests
 * that Node's parser makes of them, gives those whose meaning is beyond doubt to Fastify; refuses by itself with
 * `malformed_request`, `malformed_path`, `encoding_unsupported`, `headers_too_large`, `path_too_long`,
 * `expectation_failed`, `request_timeout`, `overloaded` (too many requests on one connection) and `draining`. Fastify
 * would hand some of these to its routes, and answer others before a hook is asked. Touches nothing but its sockets.
 */
import { randomUUID } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Connection } from '../http/connection.ts';
import type { LiveRequest } from '../http/connection.ts';
import type { Gate } from '../access/gate.ts';
import { createHttpServer } from '../http/server.ts';
import type { HttpServer } from '../http/server.ts';
import { isHeadOfParserError, protocolRefusal, refusalForParserError } from '../http/protocol.ts';
import type { TlsSource } from '../access/tls-source.ts';
import { PerTurn } from '../kit/per-turn.ts';
import { limits as allLimits } from '../tables/limits.ts';
import type { Limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import { refusal, refusals } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';
import { refusalAnswer } from './answers.ts';

export interface FrontOptions {
  /** null: plain HTTP. */
  readonly tls: TlsSource | null;
  /** Who may come, how often, and whom a request is of. */
  readonly gate: Gate;
  readonly observe: Observe;
  /** Of sockets and of what comes on them. */
  readonly limits?: Limits;
}

const tooManyChunks = refusal('malformed_request', 'the body comes in too many small chunks');

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Requests whose senders keep their bodies back until they read `100 Continue`. */
const holdingBack = new WeakSet<IncomingMessage>();

/** Whether the body may never come: its sender waits to be asked for it. */
export function holdsBody(request: IncomingMessage): boolean {
  return holdingBack.has(request);
}

/** Asks for the body of a request whose sender waits for that. */
export function askForBody(request: IncomingMessage, response: ServerResponse): void {
  if (holdingBack.delete(request)) response.writeContinue();
}

export class HttpFront {
  readonly #options: FrontOptions;
  readonly #limits: Limits;
  readonly #servers: HttpServer[] = [];
  readonly #connections = new Map<Socket, Connection>();
  /** What the end of a connection takes: thousands may end in one instant. */
  readonly #endings: PerTurn;
  #handler: Handler = () => {};
  #draining = false;
  #owed = 0;

  constructor(options: FrontOptions) {
    this.#options = options;
    this.#limits = options.limits ?? allLimits;
    this.#endings = new PerTurn(this.#limits.endingsPerTurnMax, setImmediate);
  }

  /** Requests whose answers are not written yet. */
  get owed(): number {
    return this.#owed;
  }

  /** For Fastify's `serverFactory`: the server that Fastify listens with and closes. */
  readonly create = (handler: Handler): Server => {
    this.#handler = handler;
    return this.#create().server;
  };

  /** `localhost` is a name of two addresses, and Fastify takes the first; the other one need not be there. */
  async listenBeside(host: string, { address, port }: AddressInfo): Promise<void> {
    if (host !== 'localhost') return;
    for (const other of await lookup(host, { all: true }).catch(() => [])) {
      if (other.address === address) continue;
      const { server } = this.#create();
      const opened = once(server, 'listening');
      server.listen({ host: other.address, port });
      await opened.catch(() => {});
    }
  }

  /** From now on what comes on open connections is refused; connections on which nothing runs are ended. */
  drain(): void {
    this.#draining = true;
    for (const { endHandshakes } of this.#servers) endHandshakes();
    // Node counts a connection on which nothing has come yet as one that is busy.
    for (const { socket, owed, ending, last } of this.#connections.values()) {
      if (owed === 0 && !ending) socket.destroy();
      // A connection that stayed open behind its last answer would be waited for.
      else if (last instanceof Exchange) last.endsConnection();
    }
  }

  /** Stops listening beside Fastify's own server; resolves when every connection has ended. */
  async close(): Promise<void> {
    await Promise.all(
      this.#servers.map(({ server }) => new Promise<void>((resolve) => void server.close(() => resolve()))),
    );
  }

  /** Ends every connection, whatever it still waits for. */
  cutOff(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
  }

  #create(): HttpServer {
    const bounds = {
      ...this.#limits,
      requestTimeoutMs: this.#limits.eventsUploadMs,
      connectionsMax: this.#limits.gatewayConnectionsMax,
    };
    const http = createHttpServer(bounds, this.#options.tls);
    const { server } = http;
    this.#servers.push(http);
    // Silence in either direction; what a request may take in all is shorter.
    server.setTimeout(this.#limits.eventsPauseMs * 2);
    // A handshake that is still under way when everything else has ended would be waited for.
    server.on('connection', (socket: Socket) => void (this.#draining && socket.destroy()));
    http.connected((socket) => this.#connected(socket));
    server.on('request', (request, response) => this.#request(request, response));
    server.on('checkContinue', (request, response) => {
      holdingBack.add(request);
      this.#request(request, response);
    });
    server.on('checkExpectation', (request, response) =>
      this.#request(request, response, refusal('expectation_failed')),
    );
    server.on('connect', (_request, socket) => this.#tunnel(socket as Socket));
    server.on('clientError', (error, socket) => this.#broken(error, socket as Socket));
    // Accepting failed, e.g. for want of file descriptors; the other connections go on.
    server.once('listening', () =>
      server.on('error', (error) =>
        this.#options.observe({ kind: 'request.failed', requestId: randomUUID(), error }),
      ),
    );
    return http;
  }

  #connected(socket: Socket): void {
    const connection = new Connection(socket, this.#limits, this.#endings);
    // A socket that is closed with unread bytes in it takes the answer along.
    connection.lingerOnClose();
    this.#connections.set(socket, connection);
    socket.once('close', () => this.#connections.delete(socket));
  }

  #request(request: IncomingMessage, response: ServerResponse, unmet: Refusal | null = null): void {
    const connection = this.#connections.get(request.socket);
    // What comes behind the last answer of a connection is read and dropped.
    if (connection === undefined || connection.ending) return;
    const exchange = new Exchange(connection, request, response, (why) =>
      this.#words(why, connection, request.method === 'HEAD'),
    );
    connection.owed += 1;
    connection.last = exchange;
    connection.boundChunks(
      request.headers['transfer-encoding'] === undefined ? null : () => exchange.fail(tooManyChunks),
    );
    this.#owed += 1;
    response.on('close', () => {
      connection.owed -= 1;
      this.#owed -= 1;
      exchange.forget();
    });
    const refused =
      protocolRefusal(request, this.#limits) ??
      targetRefusal(request.url ?? '') ??
      doubledRefusal(request.rawHeaders) ??
      this.#impatience(connection) ??
      unmet ??
      (this.#draining ? refusal('draining') : null);
    if (refused === null) return this.#handler(request, response);
    connection.endAfterAnswer();
    const { status, headers, body } = message(refused);
    response.writeHead(status, { ...headers, Connection: 'close' }).end(body);
    this.#tell(refused, connection, request);
  }

  /** Each request that waits takes memory, and a share of what everybody waits for. */
  #impatience(connection: Connection): Refusal | null {
    if (connection.owed <= this.#limits.pipelinedRequestsMax) return null;
    connection.stopParsing();
    return refusal('overloaded', 'too many requests are waiting on this connection');
  }

  /** What is no HTTP, too slow, or has too large headers. */
  #broken(error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket): void {
    const connection = this.#connections.get(socket);
    // Without a connection it is a handshake that failed: there is nobody to talk HTTP to.
    if (connection === undefined || !socket.writable || /^(ECONNRESET|EPIPE)$/.test(error.code ?? '')) {
      socket.destroy();
      return;
    }
    if (connection.ending) return;
    const why = refusalForParserError(error);
    if (connection.last?.received === false) connection.last.fail(why);
    else connection.endWithMessage(() => this.#words(why, connection, isHeadOfParserError(error)));
  }

  #tunnel(socket: Socket): void {
    const connection = this.#connections.get(socket);
    // Node has let go of the socket: its errors are ours now, and they only end it.
    socket.on('error', () => socket.destroy());
    if (connection === undefined) socket.destroy();
    else connection.endWithMessage(() => this.#words(refusal('method_not_allowed'), connection));
    socket.resume();
  }

  /** A whole answer, for a connection that has no request to answer, or none that Fastify will. */
  #words(why: Refusal, connection: Connection, isHead = false): string {
    const { status, headers, body } = message(why);
    const lines = Object.entries({ ...headers, Connection: 'close' }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    this.#tell(why, connection, null);
    return `HTTP/1.1 ${status} ${why.code}\r\n${lines.join('\r\n')}\r\n\r\n${isHead ? '' : body}`;
  }

  #tell({ code }: Refusal, connection: Connection, request: IncomingMessage | null): void {
    this.#options.observe({
      kind: 'gateway.answered',
      requestId: randomUUID(),
      route: 'other',
      remoteAddress: this.#options.gate.clientAddress(connection.remoteAddress, request?.headers ?? {}),
      status: refusals[code].status,
      code,
      rows: 0,
      seconds: 0,
    });
  }
}

/** One request, as its connection has to know it: Fastify answers it, unless the rest of it never comes. */
class Exchange implements LiveRequest {
  readonly #connection: Connection;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #words: (why: Refusal) => string;
  /** The one that is answered before it; null once this one is written, or a connection would remember all of its requests. */
  #before: LiveRequest | null;

  constructor(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    words: (why: Refusal) => string,
  ) {
    this.#connection = connection;
    this.#request = request;
    this.#response = response;
    this.#words = words;
    this.#before = connection.last;
  }

  /** It is written, or nobody is there to read it. */
  forget(): void {
    this.#before = null;
  }

  /** Its answer ends the connection, unless the head of it is written. */
  endsConnection(): void {
    this.#response.shouldKeepAlive = false;
  }

  get received(): boolean {
    return this.#request.complete;
  }

  get answered(): boolean {
    return this.#response.headersSent;
  }

  whenWritten(done: () => void): void {
    if (this.#response.writableFinished) done();
    else this.#response.once('finish', done);
  }

  /** Fastify's own answer, given when the request is found to have ended, then meets a closed socket. */
  fail(why: Refusal): void {
    const connection = this.#connection;
    if (this.answered) return connection.endWithMessage(null);
    connection.last = this.#before;
    connection.endWithMessage(() => (this.answered ? '' : this.#words(why)));
  }
}

/** Node takes the first of two Authorizations, and a proxy may have looked at the other one. */
function doubledRefusal(rawHeaders: readonly string[]): Refusal | null {
  let found = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 13 && name.toLowerCase() === 'authorization') found += 1;
  }
  return found > 1 ? refusal('malformed_request', 'more than one Authorization header') : null;
}

/** Fastify reads a target with a fragment as if it had none, and answers a broken escape past all hooks. */
function targetRefusal(target: string): Refusal | null {
  if (target.includes('#')) return refusal('malformed_path', 'a request target has no fragment');
  const [path = ''] = target.split('?', 1);
  if (!path.includes('%')) return null;
  try {
    decodeURIComponent(path);
    return null;
  } catch {
    return refusal('malformed_path', 'the path is not percent-encoded UTF-8');
  }
}

function message(why: Refusal) {
  const { status, headers, text } = refusalAnswer(why);
  return { status, body: text, headers: { ...headers, 'content-length': String(Buffer.byteLength(text)) } };
}
