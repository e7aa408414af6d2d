/**
 * The requests of a door: from whoever has read them (fast-connection.ts, parser-events.ts) to the door, to the one answer that each gets, and to the end of
 * that answer on its connection. Takes requests as they were parsed; gives the body of each to the door when that asks for it. Refuses without the door what
 * the header of http-server.ts names; may refuse a body with `body_too_large`, `overloaded`, `sender_overloaded`, and with what ended the connection:
 * `request_timeout`, `malformed_request`, `request_aborted`.
 *
 * If Node's parser has read the request, its body may still be arriving (body.ts), and Node writes the answer (node-answer.ts); otherwise the body is
 * there, and the answer is one message (plain-answer.ts), in the order of its connection (fast-connection.ts). What only large requests and results
 * need is in stream-exchange.ts.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Admission } from '../access/admission.ts';
import type { Limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { canonicalAddress } from '../kit/address.ts';
import { PerTurn } from '../kit/event-loop.ts';
import { RequestBody } from './body.ts';
import type { BodyRules } from './body.ts';
import type { BytesInFlight } from './budget.ts';
import type { Inflations } from './inflation.ts';
import { endWith, writeHead } from './node-answer.ts';
import { ParserCallbacks } from './parser-callbacks.ts';
import { FastAnswer } from './plain-answer.ts';
import { WholeRequest } from './plain-request.ts';
import type { HttpReply, OwnHeader } from './plain-answer.ts';
import { Share } from './share.ts';
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

/** What a door does with requests: `Listener` of listen/http.ts, and `GatewayHttp` of gateway/http.ts. */
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
  ended(connection: Connection, exchange: Exchange): void {
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

/** One request and its answer, whatever the door does with them. */
export abstract class Exchange {
  readonly method: string;
  readonly target: string;
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly context: ServerContext;
  answered = false;
  protected readonly request: HttpRequest;
  protected readonly response: HttpResponse;
  protected readonly connection: Connection;
  protected readonly share: Share;
  /** null: all of it has arrived with its request. */
  protected readonly arriving: RequestBody | null;
  /** The answer will end the connection. */
  protected closes = false;
  /** The answer was written, or nobody is left to read it. */
  protected hasEnded = false;
  readonly #startedMs = performance.now();
  #atEnd: Set<() => void> | null = null;

  constructor({ context, connection, request, response, awaitsContinue }: Incoming) {
    this.context = context;
    this.connection = connection;
    this.request = request;
    this.response = response;
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.arrivedAtMs = context.now();
    const peer = connection.remoteAddress;
    this.remoteAddress =
      context.gate?.believesProxies === true ? context.gate.clientAddress(peer, request) : peer;
    this.share = new Share(context.inFlight, this.remoteAddress, this);
    connection.last = this;
    this.arriving =
      request instanceof WholeRequest
        ? null
        : new RequestBody(request, response as ServerResponse, this.share, context, awaitsContinue);
  }

  /** Answers without looking further; with `closes` if the connection cannot be trusted any more. */
  abstract refuse(why: Refusal, closes?: boolean): void;

  /** All of the body, decompressed; at once if it is there. Called at most once; throws Refused, or rejects with it. */
  protected readBody(rules: BodyRules, keepsEncoded = false): Buffer | Promise<Buffer> {
    return this.arriving === null ? this.#takeBody(rules) : this.arriving.read(rules, keepsEncoded);
  }

  /** A body that has arrived with its request. */
  #takeBody({ bytesMax }: BodyRules): Buffer {
    const { body } = this.request as WholeRequest;
    const gone = this.connection.socket.destroyed ? refusal('request_aborted') : null;
    const tooLarge = body.length > bytesMax ? refusal('body_too_large') : null;
    const why = gone ?? tooLarge ?? this.share.take(body.length);
    if (why !== null) throw new Refused(why);
    this.share.settle();
    return body;
  }

  /** Releases whatever the request held, and writes its answer. */
  protected write(reply: HttpReply, own: OwnHeader | null = null): void {
    const { request, response } = this;
    if (!this.beginAnswer()) return;
    const closes = this.decideOnClosing();
    if (response instanceof FastAnswer)
      return response.send(reply, closes || (request as WholeRequest).closes, this.context.now(), own);
    const { status, headers, body } = reply;
    writeHead(response, status, own === null ? headers : [...headers, ...own], closes);
    endWith(response, body, this.method);
  }

  /** false: nobody is left to read it. */
  protected beginAnswer(): boolean {
    this.answered = true;
    this.arriving?.abandon();
    this.share.release();
    return !this.connection.socket.destroyed;
  }

  /** Whether the answer that is written now is the last one on its connection. */
  protected decideOnClosing(): boolean {
    const { connection, context } = this;
    if (!this.request.complete) {
      this.closes ||= this.arriving?.leavesTooMuchUnread === true;
      connection.lingerOnClose();
    }
    // While draining, the answer that closes a connection is the last one owed on it.
    const closes = this.closes || ((context.closingListener || context.draining) && connection.last === this);
    if (closes) connection.endAfterAnswer();
    return closes;
  }

  /** Calls back when the answer was written, at once if it already was. */
  whenWritten(done: () => void): void {
    if (this.response.writableFinished) done();
    else this.response.once('finish', done);
  }

  /** Its answer was written, or never will be. */
  ended(): void {
    this.hasEnded = true;
    for (const done of this.#atEnd ?? []) done();
    this.#atEnd = null;
  }

  /** Calls back when the answer is written, or nobody is left to read it. The returned function ends the waiting. */
  onEnded(done: () => void): () => void {
    if (this.hasEnded) done();
    else (this.#atEnd ??= new Set()).add(done);
    return () => void this.#atEnd?.delete(done);
  }

  /** Ends a request that can no longer arrive completely. */
  fail(why: Refusal): void {
    this.closes = true;
    // Nobody needs the rest of a request that was answered early; earlier answers are still owed.
    if (this.answered) this.connection.endWithMessage(null);
    else this.arriving?.fail(why);
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers;
  }

  /** Reads one header by its lower-case name; undefined: look in `rawHeaders`. */
  get header(): WholeRequest['header'] | undefined {
    return this.request instanceof WholeRequest ? this.request.header : undefined;
  }

  /** The value of one header by its lower-case name; undefined: absent. */
  one(name: string): string | undefined {
    const found = this.header?.(name);
    if (found !== undefined) return found ?? undefined;
    const value = this.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** Names and values in turn, as received. */
  get rawHeaders(): readonly string[] {
    return this.request.rawHeaders;
  }

  /** The last byte of the request was read. */
  get received(): boolean {
    return this.request.complete;
  }

  get announcedBytes(): number {
    const { request } = this;
    return request instanceof WholeRequest
      ? request.body.length
      : Number(request.headers['content-length'] ?? 0);
  }

  /** See Arrival. */
  get encodedBody(): Buffer | undefined {
    return this.arriving?.encoded;
  }

  /** Since the headers arrived. */
  get seconds(): number {
    return (performance.now() - this.#startedMs) / 1_000;
  }
}

/** One client connection: which requests on it are not answered yet, and how it ends. */
export class Connection {
  readonly socket: Socket;
  /** The address of its other end, in the one form of kit/address.ts. */
  readonly remoteAddress: string;
  /** The request that came last: the only one that can be incomplete, and the last to be answered. */
  last: Exchange | null = null;
  /** Requests whose answers are not written yet, in order. */
  readonly pending: Exchange[] = [];
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
  end(request: Exchange): boolean {
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
