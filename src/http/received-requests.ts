/**
 * The requests of a door: from whoever has read them (fast-connection.ts, parser-events.ts) to the door, as exchanges, and to the end of the answer of each
 * on its connection. Takes requests as they were parsed. Refuses without the door what the header of http-server.ts names.
 */
import type { Refusal } from '../errors/refusals.ts';
import { PerTurn } from '../kit/event-loop.ts';
import type { Connection, OwedExchange } from './connection.ts';
import type { Exchange, HttpRequest, HttpResponse, Incoming, ServerContext } from './exchange.ts';
import type { FastAnswer, HttpReply } from './plain-answer.ts';
import type { WholeRequest } from './plain-request.ts';

/** What a door does with requests: `Listener` of listen/http.ts, whose exchanges serve themselves (listen/webhook-exchange.ts), and `GatewayHttp` of gateway/http.ts. */
export interface HttpHandler<E extends Exchange> {
  exchange(incoming: Incoming): E;
  /** `passedOver`: why an offer to continue in another protocol was ignored. */
  serve(exchange: E, passedOver: Refusal | null): void;
  /** The answer for a connection that has no request to answer. This call also reports it as answered. */
  words(why: Refusal, connection: Connection): HttpReply;
}

export class ReceivedRequests<E extends Exchange> {
  /** Requests received, answered or not. */
  begun = 0;
  readonly #context: ServerContext;
  readonly #handler: HttpHandler<E>;
  /** The answer to one request too many on a connection. */
  readonly #impatient: Refusal;
  /** The work of a request that did not wait for the previous answer. */
  readonly #pipelined: PerTurn;

  constructor(context: ServerContext, handler: HttpHandler<E>, impatient: Refusal) {
    this.#context = context;
    this.#handler = handler;
    this.#impatient = impatient;
    this.#pipelined = new PerTurn(context.limits.pipelinedPerTurnMax, setImmediate);
  }

  /** A request that the recogniser has read. Not called once the answer that closes the connection is decided. */
  receive(connection: Connection, request: WholeRequest, answer: FastAnswer): void {
    this.serve(connection, this.begin(connection, request, answer, false), null, null);
  }

  /** What every request begins with. `awaitsContinue`: as of Incoming. */
  begin(connection: Connection, request: HttpRequest, response: HttpResponse, awaitsContinue: boolean): E {
    const context = this.#context;
    const exchange = this.#handler.exchange({ context, connection, request, response, awaitsContinue });
    connection.pending.push(exchange);
    context.owed += 1;
    this.begun += 1;
    response.once('close', () => this.ended(connection, exchange));
    return exchange;
  }

  /** `doubt`: why its meaning is in doubt; `passedOver`: as of HttpHandler. */
  serve(connection: Connection, exchange: E, doubt: Refusal | null, passedOver: Refusal | null): void {
    const broken = doubt ?? this.#impatience(connection);
    // A refusal that ends the connection is answered at once: nothing after it is a request any more.
    if (broken !== null) return exchange.refuse(broken, true);
    if (connection.pending.length > 1) this.#pipelined.run(() => this.#handler.serve(exchange, passedOver));
    else this.#handler.serve(exchange, passedOver);
  }

  /** Its answer was written, or never will be. */
  ended(connection: Connection, exchange: OwedExchange): void {
    if (!connection.settle(exchange)) return;
    this.#context.owed -= 1;
    exchange.ended();
    // The head of the last answer was written before it was known to be the last.
    if (this.#context.draining && connection.pending.length === 0) connection.endWithMessage(null);
  }

  /** Each waiting request takes memory, and Node reads on to the end of what has arrived. */
  #impatience(connection: Connection): Refusal | null {
    if (connection.pending.length <= this.#context.limits.pipelinedRequestsMax) return null;
    connection.parser.stopParsing();
    return this.#impatient;
  }
}
