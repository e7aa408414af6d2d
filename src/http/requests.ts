/**
 * The requests that arrive on the connections of a door: from whoever has read them (fast-connection.ts, parser-events.ts) to the door, and to the end of
 * the answer. Refuses what the header of http-server.ts names, without the door.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { refusal, type Refusal } from '../errors/refusals.ts';
import { deferred } from '../kit/promises.ts';
import { PerTurn } from '../kit/event-loop.ts';
import { Connection } from './connection.ts';
import type { LiveRequest } from './connection.ts';
import type { Exchange, FastAnswer, HttpReply, HttpRequest, HttpResponse } from './exchange.ts';
import type { Incoming, ServerContext } from './exchange.ts';
import type { WholeRequest } from './plain-request-parser.ts';

/** What a door does with requests: `WebhookRequests` of listen/webhook-exchange.ts, and `GatewayHttp` of gateway/http.ts. */
export interface HttpHandler<E extends Exchange> {
  exchange(incoming: Incoming): E;
  /** `passedOver`: why an offer to continue in another protocol was ignored. */
  serve(exchange: E, passedOver: Refusal | null): void;
  /** The answer for a connection that has no request to answer. This call also reports it as answered. */
  words(why: Refusal, connection: Connection): HttpReply;
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
  /** The work at the end of a connection. */
  readonly endings: PerTurn;
  readonly #context: ServerContext;
  readonly #handler: HttpHandler<E>;
  /** The answer to one request too many on a connection. */
  readonly #impatient: Refusal;
  /** The work of a request that did not wait for the previous answer. */
  readonly #pipelined: PerTurn;

  constructor(context: ServerContext, handler: HttpHandler<E>, impatient: Refusal) {
    const { endingsPerTurnMax, pipelinedPerTurnMax } = context.limits;
    this.#context = context;
    this.#handler = handler;
    this.#impatient = impatient;
    this.endings = new PerTurn(endingsPerTurnMax, setImmediate);
    this.#pipelined = new PerTurn(pipelinedPerTurnMax, setImmediate);
  }

  /** A request that the recogniser has read. Not called once the answer that closes the connection is decided. */
  receive(connection: Connection, request: WholeRequest, answer: FastAnswer): void {
    this.serve(connection, this.begin(connection, request, answer, false), null, null);
  }

  /** What every request begins with. `awaitsContinue`: as of Incoming. */
  begin(connection: Connection, request: HttpRequest, response: HttpResponse, awaitsContinue: boolean): E {
    const context = this.#context;
    const exchange = this.#handler.exchange({ context, connection, request, response, awaitsContinue });
    connection.begin(exchange);
    context.owed += 1;
    this.begun += 1;
    response.once('close', () => this.#ended(connection, exchange));
    return exchange;
  }

  /** `doubt`: why its meaning is in doubt; `passedOver`: as of HttpHandler. */
  serve(connection: Connection, exchange: E, doubt: Refusal | null, passedOver: Refusal | null): void {
    const broken = doubt ?? this.#impatience(connection);
    // A refusal that ends the connection is answered at once: nothing after it is a request any more.
    if (broken !== null) return exchange.refuse(broken, true);
    if (connection.owed > 1) this.#pipelined.run(() => this.#handler.serve(exchange, passedOver));
    else this.#handler.serve(exchange, passedOver);
  }

  /** Its answer was written, or never will be. */
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
    connection.parser.stopParsing();
    return this.#impatient;
  }

  connected(socket: Socket): Connection {
    const connection = new Connection(socket, this.#context.limits, this.endings);
    this.connections.set(socket, connection);
    socket.once('close', () => {
      this.connections.delete(socket);
      if (this.stopped && this.connections.size === 0) this.emptied.resolve();
      // Nothing else ends the requests whose answers waited for earlier ones.
      for (let [it] = connection.pending; it !== undefined; [it] = connection.pending)
        this.#ended(connection, it);
      const { last } = connection;
      if (last?.received === false) this.endings.run(() => last.fail(refusal('request_aborted')));
    });
    return connection;
  }
}
