/**
 * One request and its answer, whatever the door does with them. Takes a request as it was parsed, gives its body to
 * the caller that asks for it, and writes exactly one answer whatever happens meanwhile. May refuse the body with
 * `encoding_unsupported`, `malformed_encoding`, `length_required`, `body_too_large`, `overloaded`, `sender_overloaded`, and
 * with what ended the connection: `request_timeout`, `malformed_request`, `request_aborted`.
 *
 * If Node's parser has read the request, Node writes the answer's head; otherwise an answer is one message, made here, in the order of its
 * connection (fast-connection.ts).
 */
import { ServerResponse, STATUS_CODES } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { Admission } from '../access/admission.ts';
import type { Limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { BodyPieces, BodyReader } from './body.ts';
import type { PiecesRules, BodyRules } from './body.ts';
import { Share } from './budget.ts';
import type { BytesInFlight } from './budget.ts';
import type { Connection, LiveRequest } from './connection.ts';
import { parseCodings } from './inflation.ts';
import type { Coding, Inflation, Inflations } from './inflation.ts';
import { WholeRequest } from './plain-request-parser.ts';
import { longWork } from '../kit/time-slices.ts';

const tooManyChunks = refusal('malformed_request', 'the body comes in too many small chunks');

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

/** What reads a body, or drops it. */
interface BodyReading {
  /** The rest of the body will not arrive. */
  fail(why: Refusal): void;
  /** The request is answered. */
  abandon(): void;
}

export abstract class Exchange implements LiveRequest {
  readonly method: string;
  readonly target: string;
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly context: ServerContext;
  protected readonly request: HttpRequest;
  protected readonly response: HttpResponse;
  protected readonly connection: Connection;
  protected readonly share: Share;
  readonly #startedMs = performance.now();
  #awaitsContinue: boolean;
  #failure: Refusal | null = null;
  #reading: BodyReading | null = null;
  #inflation: Inflation | null = null;
  #encodedBody: Buffer | undefined;
  #answered = false;
  #closes = false;
  #ended = false;
  #atEnd: Set<() => void> | null = null;

  constructor({ context, connection, request, response, awaitsContinue }: Incoming) {
    this.context = context;
    this.connection = connection;
    this.request = request;
    this.response = response;
    this.#awaitsContinue = awaitsContinue;
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.arrivedAtMs = context.now();
    const peer = connection.remoteAddress;
    this.remoteAddress =
      context.gate?.believesProxies === true ? context.gate.clientAddress(peer, request) : peer;
    this.share = new Share(context.inFlight, this.remoteAddress, this);
    connection.last = this;
    if (request instanceof WholeRequest) return;
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    connection.boundChunks(isChunked ? () => this.fail(tooManyChunks) : null);
  }

  /** Answers without looking further; with `closes` if the connection cannot be trusted any more. */
  abstract refuse(why: Refusal, closes?: boolean): void;

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

  /** The request arrived at once, and the recogniser has read it. */
  protected get isWhole(): boolean {
    return this.request instanceof WholeRequest;
  }

  get received(): boolean {
    return this.request.complete;
  }

  get announcedBytes(): number {
    const { request } = this;
    return request instanceof WholeRequest
      ? request.body.length
      : Number(request.headers['content-length'] ?? 0);
  }

  get answered(): boolean {
    return this.#answered;
  }

  /** Since the headers arrived. */
  get seconds(): number {
    return (performance.now() - this.#startedMs) / 1_000;
  }

  whenWritten(done: () => void): void {
    if (this.response.writableFinished) done();
    else this.response.once('finish', done);
  }

  ended(): void {
    this.#ended = true;
    for (const done of this.#atEnd ?? []) done();
    this.#atEnd = null;
  }

  fail(why: Refusal): void {
    this.#closes = true;
    // Nobody needs the rest of a request that was answered early; earlier answers are still owed.
    if (this.#answered) return this.connection.endWithMessage(null);
    this.#failure ??= why;
    this.#reading?.fail(this.#failure);
  }

  /** The answer will end the connection. */
  protected close(): void {
    this.#closes = true;
  }

  /** The same, and no request that follows is read. Must be called when the request is begun. */
  closeAfterAnswer(): void {
    this.#closes = true;
    this.connection.stopParsing();
  }

  /** All of the body, decompressed; at once if it is there. Called at most once; throws Refused, or rejects with it. */
  protected readBody(rules: BodyRules, keepsEncoded = false): Buffer | Promise<Buffer> {
    const { limits } = this.context;
    const { request } = this;
    if (request instanceof WholeRequest) return this.#takeBody(request, rules);
    const codings = parseCodings(request.headers['content-encoding'], limits.contentCodingsMax);
    const why = this.#failure ?? ('code' in codings ? codings : this.#bodyRefusal(request, rules));
    if (why !== null) return Promise.reject(new Refused(why));
    this.#askForBody();
    const reader = new BodyReader(request, this.share, rules, (bytes) => this.#bodyTurn(bytes));
    this.#reading = reader;
    if ('code' in codings || codings.length === 0) return reader.promise;
    return reader.promise.then(async (read) => {
      // A copy: what is decompressed is freed. Both are counted until the answer.
      if (keepsEncoded) this.#encodedBody = Buffer.from(read);
      const body = await this.#inflate(read, codings, rules);
      await this.#bodyTurn(body.length);
      return body;
    });
  }

  /** See Arrival. */
  get encodedBody(): Buffer | undefined {
    return this.#encodedBody;
  }

  /** A body that has already arrived. */
  #takeBody({ body }: WholeRequest, { bytesMax }: BodyRules): Buffer | Promise<Buffer> {
    const gone = this.connection.socket.destroyed ? refusal('request_aborted') : null;
    const tooLarge = body.length > bytesMax ? refusal('body_too_large') : null;
    const why = gone ?? this.#failure ?? tooLarge ?? this.share.take(body.length);
    if (why !== null) throw new Refused(why);
    const turn = this.#bodyTurn(body.length);
    return turn === null ? this.#whole(body) : turn.then(() => this.#whole(body));
  }

  /** Work on a large body as a whole, such as its HMAC, is done for one body at a time; null: this one is small. */
  #bodyTurn(bytes: number): Promise<void> | null {
    return bytes < this.context.limits.spacedBodyBytes ? null : longWork.turn(bytes);
  }

  #whole(body: Buffer): Buffer {
    this.share.settle();
    return body;
  }

  /** The body as it arrives. Called at most once, instead of `readBody`, for one that is large or compressed; throws Refused. */
  protected readPieces(rules: PiecesRules): BodyPieces {
    const { request } = this;
    if (request instanceof WholeRequest) throw new Error('a request that came as a whole is read as a whole');
    if (this.#failure !== null) throw new Refused(this.#failure);
    if (this.announcedBytes > rules.bytesMax) throw new Refused('body_too_large');
    this.#askForBody();
    const pieces = new BodyPieces(request, this.share, rules);
    this.#reading = pieces;
    return pieces;
  }

  /**
   * Reads and drops what a sender is still sending, within bounds: it may not read the answer before it has sent everything.
   * If the rest has not arrived by then, the connection is closed after the answer. Resolves with the reason why the request can
   * only be refused now; null: there is none.
   */
  protected async readAway(): Promise<Refusal | null> {
    const { request } = this;
    if (request instanceof WholeRequest) return this.#failure;
    const ends = request.complete || request.destroyed || this.#failure !== null;
    if (!ends && !this.#awaitsContinue) await this.#drop(request);
    this.#closes ||= !request.complete;
    return this.#failure;
  }

  #drop(request: IncomingMessage): Promise<void> {
    const { context } = this;
    // The reader so far would pause the request at the next piece.
    this.#reading?.abandon();
    return new Promise((resolve) => {
      let bytes = 0;
      const settle = (): void => {
        clearTimeout(timer);
        request.off('data', count).off('end', settle).off('close', settle);
        resolve();
      };
      const count = (piece: Buffer): void => {
        bytes += piece.length;
        if (bytes > context.limits.lingerBytesMax) settle();
      };
      const timer = setTimeout(settle, context.limits.lingerMs);
      this.#reading = { fail: settle, abandon: settle };
      request.on('data', count).on('end', settle).on('close', settle);
      request.resume();
    });
  }

  /** Calls back when the answer is written, or nobody is left to read it. The returned function ends the waiting. */
  onEnded(done: () => void): () => void {
    if (this.#ended) done();
    else (this.#atEnd ??= new Set()).add(done);
    return () => void this.#atEnd?.delete(done);
  }

  #askForBody(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    this.nodeResponse.writeContinue();
  }

  #inflate(body: Buffer, codings: readonly Coding[], { bytesMax }: BodyRules): Promise<Buffer> {
    // A request that was answered meanwhile holds nothing any more.
    if (this.#answered) throw new Refused('request_aborted');
    this.#inflation = this.context.inflations.start(body, codings, this.share, bytesMax);
    return this.#inflation.promise;
  }

  /** null: the body may be read. The parser has checked that a declared length is a number. */
  #bodyRefusal({ headers }: IncomingMessage, { bytesMax, needsLength }: BodyRules): Refusal | null {
    if (headers['transfer-encoding'] !== undefined) return null;
    const length = headers['content-length'];
    if (length === undefined) return needsLength ? refusal('length_required') : null;
    if (Number(length) > bytesMax) return refusal('body_too_large');
    // A body that would not fit now is not begun.
    return this.share.refuses(Number(length));
  }

  /** Releases whatever the request held, and writes its answer. */
  protected write(reply: HttpReply, own: OwnHeader | null = null): void {
    const { request, response } = this;
    if (!this.#begin()) return;
    const closes = this.#decideOnClosing();
    if (response instanceof FastAnswer)
      return response.send(reply, closes || (request as WholeRequest).closes, this.context.now(), own);
    const { status, headers, body } = reply;
    writeHead(response, status, own === null ? headers : [...headers, ...own], closes);
    if (typeof body === 'string' && this.method !== 'HEAD' && endInOneWrite(response, body)) return;
    response.end(body);
  }

  /** The same for a body that is sent as fast as its reader reads. */
  protected writePieces(status: number, headers: readonly string[], pieces: Iterable<Buffer>): void {
    if (!this.#begin()) return;
    const response = this.nodeResponse;
    writeHead(response, status, headers, this.#decideOnClosing());
    const source = Readable.from(pieces);
    // The end of the connection tells a partial answer from a whole one.
    source.on('error', () => response.destroy());
    source.pipe(response);
  }

  /**
   * The same for a body that has no end of its own: the returned function writes a piece, or the end (null), and resolves when there is
   * room for another one; with false if nobody reads it any more, or its reader has read nothing for `pauseMs`.
   */
  protected writeOn(
    status: number,
    headers: readonly string[],
    pauseMs: number,
  ): (piece: Buffer | null) => Promise<boolean> {
    const there = this.#begin();
    const response = there ? this.nodeResponse : null;
    if (response !== null) writeHead(response, status, headers, this.#decideOnClosing());
    return async (piece) => {
      if (response === null || response.destroyed || this.#ended) return false;
      if (piece === null) response.end();
      else if (!response.write(piece)) {
        const timer = setTimeout(() => response.destroy(), pauseMs);
        await new Promise<void>((resolve) => {
          const settle = (): void => {
            clearTimeout(timer);
            response.off('drain', settle).off('close', settle);
            resolve();
          };
          response.on('drain', settle).on('close', settle);
        });
      }
      return !response.destroyed;
    };
  }

  /** For what only requests have that Node's parser has read. */
  protected get nodeResponse(): ServerResponse {
    if (this.response instanceof ServerResponse) return this.response;
    throw new Error('a request that came as a whole is answered in one piece');
  }

  /** false: nobody is left to read it. */
  #begin(): boolean {
    this.#answered = true;
    this.#reading?.abandon();
    this.#inflation?.abandon();
    this.share.release();
    return !this.connection.socket.destroyed;
  }

  #decideOnClosing(): boolean {
    const { connection, context } = this;
    if (!this.request.complete) {
      this.#closes ||= this.#leavesTooMuchUnread();
      connection.lingerOnClose();
    }
    // While draining, the answer that closes a connection is the last one owed on it.
    const closes =
      this.#closes || ((context.closingListener || context.draining) && connection.last === this);
    if (closes) connection.endAfterAnswer();
    return closes;
  }

  /**
   * Whether the rest of the body is too much to read for the sake of the connection. A sender that still waits for
   * `100 Continue` may or may not send its body now (RFC 9110 §10.1.1), so what follows could be read as either.
   */
  #leavesTooMuchUnread(): boolean {
    if (this.#awaitsContinue) return true;
    if (this.request.headers['transfer-encoding'] !== undefined) return true;
    return this.announcedBytes > this.context.limits.unreadBodyBytesMax;
  }
}

export interface HttpReply {
  readonly status: number;
  /** Names and values in turn, as `ServerResponse.writeHead` takes them. */
  readonly headers: readonly string[];
  readonly body: string | Buffer;
}

/** A header in which one answer differs from others of the same reply. */
export type OwnHeader = readonly [name: string, value: string];

/** A whole HTTP message, one character per byte: `last` are its last headers. */
function messageOf(reply: HttpReply, last: string, nowMs: number, own: OwnHeader | null = null): string {
  const head = heads.get(reply) ?? headOf(reply);
  const line = own === null ? '' : lineOf(own[0], own[1]);
  return `${head}${line}Date: ${dateAt(nowMs)}\r\n${last}\r\n${asBytes(reply.body)}`;
}

const heads = new WeakMap<HttpReply, string>();

/** A reply that is sent often: the part that all of its messages share is made once. */
export function often<R extends HttpReply>(reply: R): R {
  heads.set(reply, headOf(reply));
  return reply;
}

/** The lines of an answer that come from its reply. */
function headOf({ status, headers }: HttpReply): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) head += lineOf(headers[i] ?? '', headers[i + 1] ?? '');
  return head;
}

/** Throws, as Node does, for a header that would end before it should: only a bug of Headgate can cause that. */
function lineOf(name: string, value: string): string {
  if (unwritable.test(value) || unwritable.test(name))
    throw new TypeError('a header of an answer has characters that no header may have');
  return `${name}: ${value}\r\n`;
}

/** The message for a socket that has no request to answer, and that is closed after it. */
export function rawMessage(it: HttpReply, nowMs: number): string {
  return messageOf(it, 'Connection: close\r\n', nowMs);
}

/** Any character but tabs, spaces and visible bytes. */
const unwritable = /[^\t\x20-\x7e\x80-\xff]/;

function asBytes(body: string | Buffer): string {
  if (typeof body !== 'string') return body.toString('latin1');
  return Buffer.byteLength(body) === body.length ? body : Buffer.from(body).toString('latin1');
}

let [second, date] = [-1, ''];

/** Made once a second. */
function dateAt(nowMs: number): string {
  const at = Math.floor(nowMs / 1_000);
  if (at !== second) [second, date] = [at, new Date(nowMs).toUTCString()];
  return date;
}

/** The connection that an answer is owed on. */
interface Owing {
  /** The last headers of an answer that leaves the connection open. */
  readonly keepsAlive: string;
  /** Writes the answers whose turn it is. */
  flush(): void;
}

/** One answer in the order of its connection (fast-connection.ts), in place of a ServerResponse. */
export class FastAnswer {
  /** It was written to its last byte. */
  writableFinished = false;
  message: string | null = null;
  closes = false;
  readonly #connection: Owing;
  #whenWritten: (() => void) | null = null;
  #others: (() => void)[] | null = null;

  constructor(connection: Owing) {
    this.#connection = connection;
  }

  /** As in a ServerResponse; if the connection is gone before, nothing is called. */
  once(_event: 'finish' | 'close', done: () => void): void {
    if (this.#whenWritten === null) this.#whenWritten = done;
    else (this.#others ??= []).push(done);
  }

  send(reply: HttpReply, closes: boolean, nowMs: number, own: OwnHeader | null = null): void {
    const connection = this.#connection;
    this.closes = closes;
    const last = closes ? 'Connection: close\r\n' : connection.keepsAlive;
    this.message = messageOf(reply, last, nowMs, own);
    connection.flush();
  }

  written(): void {
    this.writableFinished = true;
    this.#whenWritten?.();
    for (const done of this.#others ?? []) done();
  }
}

function writeHead(
  response: ServerResponse,
  status: number,
  headers: readonly string[],
  closes: boolean,
): void {
  response.writeHead(status, closes ? [...headers, 'Connection', 'close'] : (headers as string[]));
}

/**
 * Node writes an answer with a body in pieces (writev), which costs some µs more than one string in one write. The head that
 * it has made is public in practice only (`_header` of lib/_http_outgoing.js, since 0.x): if it is missing, this does nothing
 * and returns false. The head is written one byte per character, so the body has to be ASCII.
 */
function endInOneWrite(response: ServerResponse, body: string): boolean {
  const message = response as ServerResponse & { _header?: unknown };
  if (typeof message._header !== 'string' || response.chunkedEncoding) return false;
  if (Buffer.byteLength(body) !== body.length) return false;
  message._header += body;
  response.end();
  return true;
}
