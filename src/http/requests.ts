/**
 * The requests that arrive on the connections of a door: from what Node's parser or the recogniser has read to the door, and to the end of the
 * answer. Refuses what the header of http-server.ts names, without the door; ends connections whose bytes are no request.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { refusal, type Refusal } from '../errors/refusals.ts';
import { deferred } from '../kit/promises.ts';
import { PerTurn, Connection } from './connection.ts';
import type { LiveRequest } from './connection.ts';
import type {
  Exchange,
  ServerContext,
  HttpRequest,
  HttpResponse,
  Incoming,
  FastAnswer,
  HttpReply,
} from './exchange.ts';
import { withoutFetched } from './fetched-header.ts';
import { WholeRequest } from './plain-request-parser.ts';
import { isHeadOfParserError, protocolRefusal, refusalForParserError } from './protocol.ts';
import { rawMessage } from './exchange.ts';
import type { NodeServer } from './server.ts';

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

export class ReceivedRequests<E extends Exchange> {
  readonly connections = new Map<Socket, Connection>();
  /** The listening sockets are closed. */
  stopped = false;
  /** Resolves when they are, and no connection is left. */
  readonly emptied = deferred<void>();
  /** Requests received, answered or not. */
  begun = 0;
  readonly #context: ServerContext;
  readonly #handler: HttpHandler<E>;
  /** The answer to one request too many on a connection. */
  readonly #impatient: Refusal;
  /** The work at the end of a connection, and that of a request that did not wait for the previous answer. */
  readonly #endings: PerTurn;
  readonly #pipelined: PerTurn;

  constructor(context: ServerContext, handler: HttpHandler<E>, impatient: Refusal) {
    const { endingsPerTurnMax, pipelinedPerTurnMax } = context.limits;
    this.#context = context;
    this.#handler = handler;
    this.#impatient = impatient;
    this.#endings = new PerTurn(endingsPerTurnMax, setImmediate);
    this.#pipelined = new PerTurn(pipelinedPerTurnMax, setImmediate);
  }

  connected(socket: Socket): Connection {
    const connection = new Connection(socket, this.#context.limits, this.#endings);
    this.connections.set(socket, connection);
    socket.once('close', () => {
      this.connections.delete(socket);
      if (this.stopped && this.connections.size === 0) this.emptied.resolve();
      // Nothing else ends the requests whose answers waited for earlier ones.
      for (let [it] = connection.pending; it !== undefined; [it] = connection.pending)
        this.#ended(connection, it);
      const { last } = connection;
      if (last?.received === false) this.#endings.run(() => last.fail(refusal('request_aborted')));
    });
    return connection;
  }

  /** From the recogniser. */
  readonly receivePlain = (connection: Connection, request: WholeRequest, answer: FastAnswer): void =>
    this.receive(connection, request, answer, false);

  receive(
    connection: Connection | undefined,
    request: HttpRequest,
    response: HttpResponse,
    awaitsContinue: boolean,
  ): void {
    const exchange = this.exchange(connection, request, response, awaitsContinue);
    if (exchange === null || connection === undefined) return;
    const passedOver = connection.takePassedOver();
    const doubt = request instanceof WholeRequest ? null : protocolRefusal(request, this.#context.limits);
    const broken = doubt ?? this.#impatience(connection);
    // A refusal that ends the connection is answered at once: nothing after it is a request any more.
    if (broken !== null) return exchange.refuse(broken, true);
    const serve = () => this.#handler.serve(request, exchange, passedOver);
    if (connection.owed > 1) this.#pipelined.run(serve);
    else serve();
  }

  /** null: the answer that closes this connection is already decided. */
  exchange(
    connection: Connection | undefined,
    request: HttpRequest,
    response: HttpResponse,
    awaitsContinue: boolean,
  ): E | null {
    if (connection === undefined || connection.ending) return null;
    if (!(request instanceof WholeRequest)) withoutFetched(request);
    const exchange = this.#handler.exchange({
      context: this.#context,
      connection,
      request,
      response,
      awaitsContinue,
    });
    connection.begin(exchange);
    this.#context.owed += 1;
    this.begun += 1;
    response.once('close', () => this.#ended(connection, exchange));
    return exchange;
  }

  #ended(connection: Connection, exchange: LiveRequest): void {
    if (!connection.end(exchange)) return;
    this.#context.owed -= 1;
    exchange.ended();
    // The head of the last answer was written before it was known to be the last.
    if (this.#context.draining && connection.owed === 0) connection.endWithMessage(null);
  }

  /** Each waiting request takes memory, and Node reads on to the end of what has arrived. */
  #impatience(connection: Connection): Refusal | null {
    if (connection.owed <= this.#context.limits.pipelinedRequestsMax) return null;
    connection.stopParsing();
    return this.#impatient;
  }

  /**
   * A request that offers to continue in another protocol, its body unread in `head` and in the socket. Node has released
   * the socket; the answers owed on it are written before anything else.
   */
  offered(http: NodeServer, request: IncomingMessage, socket: Socket, head: Buffer): void {
    const { offers } = this.#handler;
    const connection = this.connections.get(socket);
    connection?.releaseParser();
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
    const connection = this.connections.get(socket);
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
    const connection = this.connections.get(socket);
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
    connection.endWithMessage(() => rawMessage(isHead ? { ...reply, body: '' } : reply, this.#context.now()));
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
