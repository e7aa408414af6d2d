/**
 * What Node's parser reports of connections: requests, offers to continue in another protocol, tunnels, and bytes that are no request. Takes
 * these events; passes requests on (received-requests.ts), gives the door an offer, or has it refuse one, and ends connections with a message from the door.
 * May refuse a request with what protocol.ts refuses, `expectation_failed`, `method_not_allowed` (CONNECT), and `malformed_request` (too many small chunks). Touches the connections
 * that it is told of.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { withoutFetched } from './headers.ts';
import type { OpenConnections } from './open-connections.ts';
import { isHeadOfParserError, protocolRefusal, refusalForParserError } from './protocol.ts';
import { rawMessage } from './plain-answer.ts';
import type { Connection } from './connection.ts';
import type { Exchange, ServerContext } from './exchange.ts';
import type { HttpHandler, ReceivedRequests } from './received-requests.ts';
import type { NodeServer } from './server.ts';

const tooManyChunks = refusal('malformed_request', 'the body comes in too many small chunks');

/** What a door does with requests that offer to continue in another protocol: the WebSockets of listen/websocket.ts. */
export interface Offers {
  /** null: the offer is taken; otherwise it is ignored, and an ordinary request follows. */
  refusal(request: IncomingMessage, connection: Connection): Refusal | null;
  take(request: IncomingMessage, socket: Socket, head: Buffer): void;
}

export class ParserEvents<E extends Exchange> {
  /** Who takes offers; null: every offer is ignored. */
  offers: Offers | null = null;
  readonly #context: ServerContext;
  readonly #handler: HttpHandler<E>;
  readonly #requests: ReceivedRequests<E>;
  readonly #connections: OpenConnections;

  constructor(
    context: ServerContext,
    handler: HttpHandler<E>,
    requests: ReceivedRequests<E>,
    connections: OpenConnections,
  ) {
    this.#connections = connections;
    this.#context = context;
    this.#handler = handler;
    this.#requests = requests;
  }

  /** Receives the events of one server. */
  of(http: NodeServer): void {
    const { parser } = http;
    parser.on('request', (request, response) => this.#request(request, response, false));
    parser.on('checkContinue', (request, response) => this.#request(request, response, true));
    parser.on('checkExpectation', (request, response) => this.#expectation(request, response));
    parser.on('clientError', (error, socket) => this.unreadable(error, socket as Socket));
    parser.on('connect', (_request, socket) =>
      this.refuseTunnel(socket as Socket, refusal('method_not_allowed')),
    );
    // Even if nothing is offered: left to itself, Node loses what followed such a request in the same read.
    parser.on('upgrade', (request, socket, head) => this.#offered(http, request, socket as Socket, head));
  }

  /** A request, of which the body may still arrive. `awaitsContinue`: as of Incoming. */
  #request(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): void {
    const connection = this.#connections.all.get(request.socket);
    if (connection === undefined || connection.ending) return skip(request, connection);
    const exchange = this.#begin(connection, request, response, awaitsContinue);
    const { passedOver } = connection;
    connection.passedOver = null;
    const doubt = protocolRefusal(request, this.#context.limits);
    this.#requests.serve(connection, exchange, doubt, passedOver);
  }

  /** A request that expects something else than `100-continue`. */
  #expectation(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.all.get(request.socket);
    if (connection === undefined || connection.ending) return skip(request, connection);
    this.#begin(connection, request, response, true).refuse(refusal('expectation_failed'), true);
  }

  #begin(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    awaitsContinue: boolean,
  ): E {
    withoutFetched(request);
    const exchange = this.#requests.begin(connection, request, response, awaitsContinue);
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    connection.parser.boundChunks(isChunked ? () => exchange.fail(tooManyChunks) : null);
    return exchange;
  }

  /**
   * A request that offers to continue in another protocol, its body unread in `head` and in the socket. Node has released
   * the socket; the answers owed on it are written before anything else.
   */
  #offered(http: NodeServer, request: IncomingMessage, socket: Socket, head: Buffer): void {
    const { offers } = this;
    const connection = this.#connections.all.get(socket);
    connection?.parser.release();
    withoutFetched(request);
    const failed = () => void socket.destroy();
    socket.on('error', failed);
    if (connection === undefined) return void socket.destroy();
    const decide = () => {
      // What follows the last answer of a connection is read and dropped.
      if (connection.ending) return void socket.resume();
      const refused = protocolRefusal(request, this.#context.limits) ?? offers?.refusal(request, connection);
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
  unreadable(error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket): void {
    const connection = this.#connections.all.get(socket);
    // Without a connection, a TLS handshake has failed: HTTP cannot be spoken.
    if (connection === undefined || !socket.writable || /^(ECONNRESET|EPIPE)$/.test(error.code ?? '')) {
      socket.destroy();
      return;
    }
    if (connection.ending || connection.broken) return;
    connection.broken = true;
    const why = refusalForParserError(error);
    const last = connection.last?.received === false ? connection.last : null;
    this.#connections.endings.run(() => {
      if (last === null) this.#refuseConnection(connection, why, isHeadOfParserError(error));
      else last.fail(why);
    });
  }

  /** Ends a connection that Node's HTTP server has released, with a message. */
  refuseTunnel(socket: Socket, why: Refusal): void {
    const connection = this.#connections.all.get(socket);
    connection?.parser.release();
    // Node has released the socket: its errors must be handled here, and they only end it.
    socket.on('error', () => socket.destroy());
    if (connection === undefined) socket.destroy();
    else this.#refuseConnection(connection, why);
    socket.resume();
  }

  #refuseConnection(connection: Connection, why: Refusal, isHead = false): void {
    if (connection.ending) return;
    const reply = this.#handler.words(why, connection);
    connection.endWithMessage(() => rawMessage(isHead ? { ...reply, body: '' } : reply, this.#context.now()));
  }
}

/**
 * A request after the answer that closes its connection. A body that nobody reads would stop the reading of its socket: its sender could not send the
 * rest, and nobody would see that it has gone. Of what follows no request is made: Node would keep thousands of them until the connection ends.
 */
function skip(request: IncomingMessage, connection: Connection | undefined): void {
  connection?.parser.stopParsing();
  request.resume();
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
