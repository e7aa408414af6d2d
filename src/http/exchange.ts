/**
 * One request and its answer, whatever the door does with them. Takes a request as it was parsed; gives its body to the door when that asks for it, and
 * writes the answer. May refuse a body with `body_too_large`, `overloaded`, `sender_overloaded`, and with what ended the connection: `request_timeout`,
 * `malformed_request`, `request_aborted`.
 *
 * As a rule the recogniser has read the request (fast-connection.ts): its body is there, `arriving` is null, and the answer is one message
 * (plain-answer.ts), in the order of its connection. If Node's parser has read it, its body may still be arriving (body.ts), and Node writes the answer
 * (node-answer.ts). What only large requests and results need is in stream-exchange.ts.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Admission } from '../access/admission.ts';
import type { Limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { RequestBody } from './body.ts';
import type { BodyRules } from './body.ts';
import type { BytesInFlight } from './budget.ts';
import type { Connection, OwedExchange } from './connection.ts';
import type { Inflations } from './inflation.ts';
import { endWith, writeHead } from './node-answer.ts';
import { FastAnswer } from './plain-answer.ts';
import type { HttpReply, OwnHeader } from './plain-answer.ts';
import { WholeRequest } from './plain-request.ts';
import { Share } from './share.ts';

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

/** One request and its answer, whatever the door does with them. */
export abstract class Exchange implements OwedExchange {
  readonly method: string;
  readonly target: string;
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly context: ServerContext;
  answered = false;
  protected readonly request: HttpRequest;
  protected readonly response: HttpResponse;
  protected readonly connection: Connection;
  /** How much the request counts for among the bytes in flight; once settled, it is no longer dropped to make room for others. */
  protected readonly share: Share;
  /** The body. null, as a rule: the recogniser has read the request, and the body with it. */
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
