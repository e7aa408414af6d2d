/**
 * The requests that arrive on the connections of a door: from whoever has read them (fast-connection.ts, parser-events.ts) to the door, and to the end of
 * the answer. Refuses what the header of http-server.ts names, without the door.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Admission } from '../access/admission.ts';
import type { Limits } from '../config/limits.ts';
import type { Refusal } from '../errors/refusals.ts';
import { canonicalAddress } from '../kit/address.ts';
import { PerTurn } from '../kit/event-loop.ts';
import type { BytesInFlight } from './budget.ts';
import type { Inflations } from './inflation.ts';
import { ParserCallbacks } from './parser-callbacks.ts';
import type { FastAnswer, HttpReply, WholeRequest } from './plain-messages.ts';
import { endInTurns, linger } from './sockets.ts';

/** What all exchanges of one door share. */
export interface ServerContext {
  readonly limits: Limits;
  readonly inFlight: BytesInFlight;
  readonly inflations: Inflations;
  /** ms since 1970 */
  readonly now: () => number;
  /** null: everybody may connect, and no proxy is trusted. */
  readonly gate: Admission | null;
  /** Requests whose answers are not written yet. */
  owed: number;
  /** Requests are served; the last answer owed on a connection closes it. */
  closingListener: boolean;
  /** Requests are refused. */
  draining: boolean;
}

/** As Node's parser has read it, or the recogniser. */
export type HttpRequest = IncomingMessage | WholeRequest;
export type HttpResponse = ServerResponse | FastAnswer;

/** What an exchange is made from. */
export interface Incoming {
  readonly context: ServerContext;
  readonly connection: Connection;
  readonly request: HttpRequest;
  readonly response: HttpResponse;
  /** The sender waits for `100 Continue` before it sends the body. */
  readonly awaitsContinue: boolean;
}

/** An exchange (exchange.ts), as far as its connection knows it. */
export interface LiveRequest {
  /** The last byte of the request was read. */
  readonly received: boolean;
  readonly answered: boolean;
  /** Answers without looking further; with `closes` if the connection cannot be trusted any more. */
  refuse(why: Refusal, closes?: boolean): void;
  /** Ends a request that can no longer arrive completely. */
  fail(refusal: Refusal): void;
  /** Calls back when the answer was written, at once if it already was. */
  whenWritten(done: () => void): void;
  /** Its answer was written, or never will be. */
  ended(): void;
}

/** What a door does with requests: `WebhookRequests` of listen/webhook-exchange.ts, and `GatewayHttp` of gateway/http.ts. */
export interface HttpHandler<E extends LiveRequest> {
  exchange(incoming: Incoming): E;
  /** `passedOver`: why an offer to continue in another protocol was ignored. */
  serve(exchange: E, passedOver: Refusal | null): void;
  /** The answer for a connection that has no request to answer. This call also reports it as answered. */
  words(why: Refusal, connection: Connection): HttpReply;
}

/** One client connection: which requests on it are not answered yet, and how it ends. */
export class Connection {
  readonly socket: Socket;
  /** The address of its other end, in the one form of kit/address.ts. */
  readonly remoteAddress: string;
  /** The request that came last: the only one that can be incomplete, and the last to be answered. */
  last: LiveRequest | null = null;
  /** Requests whose answers are not written yet, in order. */
  readonly pending: LiveRequest[] = [];
  /** True once the last answer is decided: what arrives after that is not answered. */
  ending = false;
  /** It has become a WebSocket: no request comes on it any more. */
  upgraded = false;
  /** Why the next request does not become one, although it offered to. */
  passedOver: Refusal | null = null;
  /** Its bytes were no request, or came too slowly, or were not complete: what follows is not reported again. */
  broken = false;
  readonly #limits: Limits;
  #local: { readonly address: string; readonly port: number } | null = null;
  #parser: ParserCallbacks | null = null;

  constructor(socket: Socket, limits: Limits, endings: PerTurn) {
    this.socket = socket;
    const peer = socket.remoteAddress ?? '';
    this.remoteAddress = canonicalAddress(peer) ?? peer;
    this.#limits = limits;
    endInTurns(socket, endings);
  }

  /** The address of this end; Node asks the system for it. */
  get local(): { readonly address: string; readonly port: number } {
    this.#local ??= { address: this.socket.localAddress ?? '', port: this.socket.localPort ?? 0 };
    return this.#local;
  }

  /** The parser that Node has given to this connection. */
  get parser(): ParserCallbacks {
    return (this.#parser ??= new ParserCallbacks(this.socket, this.#limits));
  }

  /** Returns whether it was pending. */
  end(request: LiveRequest): boolean {
    // Answers are written in the order of the requests.
    const place = this.pending.indexOf(request);
    if (place === 0) this.pending.shift();
    else if (place > 0) this.pending.splice(place, 1);
    return place >= 0;
  }

  /** Must be called before the last answer is written; Node then closes the socket by `destroySoon`. */
  endAfterAnswer(): void {
    this.ending = true;
    this.lingerOnClose();
  }

  /** However this socket is closed after an answer, its sender can read that answer. */
  lingerOnClose(): void {
    this.socket.destroySoon = () => linger(this.socket, this.#limits);
  }

  /** Ends a connection whose bytes are no request, with a message or without, after the answers that are still owed. */
  endWithMessage(message: (() => string) | null): void {
    if (this.ending) return;
    this.ending = true;
    const write = () => {
      if (!this.socket.writable) return;
      if (message !== null) this.socket.write(message(), 'latin1');
      linger(this.socket, this.#limits);
    };
    if (this.last === null) write();
    else this.last.whenWritten(write);
  }
}

export class ReceivedRequests<E extends LiveRequest> {
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
  ended(connection: Connection, exchange: LiveRequest): void {
    if (!connection.end(exchange)) return;
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
