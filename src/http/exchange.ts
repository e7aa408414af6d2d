/**
 * One request and its answer, whatever the door makes of them. Takes a request as Node's parser saw it, gives its body to
 * whoever asks for it, and writes exactly one answer whatever happens meanwhile. May refuse the body with
 * `encoding_unsupported`, `malformed_encoding`, `length_required`, `body_too_large`, `overloaded`, `sender_overloaded`, and
 * with what ended the connection: `request_timeout`, `malformed_request`, `request_aborted`.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Gate } from '../access/gate.ts';
import type { Limits } from '../tables/limits.ts';
import type { Refusal } from '../tables/refusals.ts';
import { refusal, Refused } from '../tables/refusals.ts';
import { BodyPieces } from './body-pieces.ts';
import type { PiecesRules } from './body-pieces.ts';
import { BodyReader } from './body.ts';
import type { BodyRules } from './body.ts';
import type { BytesInFlight } from './budget.ts';
import { Share } from './budget.ts';
import type { Connection, LiveRequest } from './connection.ts';
import type { Coding, Inflation, Inflations } from './inflation.ts';
import { parseCodings } from './inflation.ts';
import type { Reply } from './reply.ts';

const tooManyChunks = refusal('malformed_request', 'the body comes in too many small chunks');

/** What all exchanges of one door share. */
export interface Hall {
  readonly limits: Limits;
  readonly inFlight: BytesInFlight;
  readonly inflations: Inflations;
  /** What is done with a large body as a whole, such as its HMAC, is done for one of them at a time; null: this one is small. */
  readonly bodyTurn: (bytes: number) => Promise<void> | null;
  /** ms since 1970 */
  readonly now: () => number;
  /** null: everybody may come, and no proxy is believed. */
  readonly gate: Gate | null;
  /** Requests are served; the last answer owed on a connection closes it. */
  ebbing: boolean;
  /** Requests are refused. */
  draining: boolean;
}

/** What an exchange is made of. */
export interface Incoming {
  readonly hall: Hall;
  readonly connection: Connection;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The sender waits for `100 Continue` before it sends the body. */
  readonly awaitsContinue: boolean;
}

/** Whoever reads a body, or reads it away. */
interface Reading {
  /** The rest of it will not come. */
  fail(why: Refusal): void;
  /** The request is answered. */
  abandon(): void;
}

export abstract class Exchange implements LiveRequest {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly hall: Hall;
  protected readonly request: IncomingMessage;
  protected readonly response: ServerResponse;
  protected readonly connection: Connection;
  protected readonly share: Share;
  readonly #startedMs = performance.now();
  #awaitsContinue: boolean;
  #failure: Refusal | null = null;
  #reading: Reading | null = null;
  #inflation: Inflation | null = null;
  #answered = false;
  #closes = false;
  #ended = false;
  #atEnd: Set<() => void> | null = null;

  constructor({ hall, connection, request, response, awaitsContinue }: Incoming) {
    this.hall = hall;
    this.connection = connection;
    this.request = request;
    this.response = response;
    this.#awaitsContinue = awaitsContinue;
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.rawHeaders = request.rawHeaders;
    this.arrivedAtMs = hall.now();
    const peer = connection.remoteAddress;
    this.remoteAddress = hall.gate?.clientAddress(peer, request.headers) ?? peer;
    this.share = new Share(hall.inFlight, this.remoteAddress, (why) => this.fail(why));
    connection.last = this;
    connection.boundChunks(
      request.headers['transfer-encoding'] === undefined ? null : () => this.fail(tooManyChunks),
    );
  }

  /** Answers without looking further; with `closes`, because the connection cannot be trusted any further. */
  abstract refuse(why: Refusal, closes?: boolean): void;

  get headers(): IncomingHttpHeaders {
    return this.request.headers;
  }

  get received(): boolean {
    return this.request.complete;
  }

  get announcedBytes(): number {
    return Number(this.request.headers['content-length'] ?? 0);
  }

  get answered(): boolean {
    return this.#answered;
  }

  /** Since the headers came. */
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
    // Nobody needs the rest of a request that was answered early; answers before it are still owed.
    if (this.#answered) return this.connection.endWithMessage(null);
    this.#failure ??= why;
    this.#reading?.fail(this.#failure);
  }

  /** The answer will end the connection. */
  protected close(): void {
    this.#closes = true;
  }

  /** All of the body, taken apart. Called at most once; rejects with Refused. */
  protected readBody(rules: BodyRules): Promise<Buffer> {
    const { limits, bodyTurn } = this.hall;
    const codings = parseCodings(this.request.headers['content-encoding'], limits.contentCodingsMax);
    const why = this.#failure ?? ('code' in codings ? codings : this.#bodyRefusal(rules));
    if (why !== null) return Promise.reject(new Refused(why));
    this.#askForBody();
    const reader = new BodyReader(this.request, this.share, rules, bodyTurn);
    this.#reading = reader;
    if ('code' in codings || codings.length === 0) return reader.promise;
    return reader.promise.then(async (read) => {
      const body = await this.#inflate(read, codings, rules);
      await bodyTurn(body.length);
      return body;
    });
  }

  /** The body as it comes. Called at most once, in place of `readBody`; throws Refused. */
  protected readPieces(rules: PiecesRules): BodyPieces {
    if (this.#failure !== null) throw new Refused(this.#failure);
    if (this.announcedBytes > rules.bytesMax) throw new Refused('body_too_large');
    this.#askForBody();
    const pieces = new BodyPieces(this.request, this.share, rules);
    this.#reading = pieces;
    return pieces;
  }

  /**
   * Reads away what a sender is still sending, within bounds: it may not read the answer before it has sent everything.
   * What has not come by then ends the connection behind the answer. Gives why the request cannot be answered otherwise any
   * more; null: it can.
   */
  protected async readAway(): Promise<Refusal | null> {
    const { request } = this;
    const ends = request.complete || request.destroyed || this.#failure !== null;
    if (!ends && !this.#awaitsContinue) await this.#drop();
    this.#closes ||= !request.complete;
    return this.#failure;
  }

  #drop(): Promise<void> {
    const { request, hall } = this;
    // Whoever has read so far would pause the request at the next piece.
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
        if (bytes > hall.limits.lingerBytesMax) settle();
      };
      const timer = setTimeout(settle, hall.limits.lingerMs);
      this.#reading = { fail: settle, abandon: settle };
      request.on('data', count).on('end', settle).on('close', settle);
      request.resume();
    });
  }

  /** Calls back when the answer is written, or nobody is there any more to read it. What is returned ends the waiting. */
  onEnded(done: () => void): () => void {
    if (this.#ended) done();
    else (this.#atEnd ??= new Set()).add(done);
    return () => void this.#atEnd?.delete(done);
  }

  #askForBody(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    this.response.writeContinue();
  }

  #inflate(body: Buffer, codings: readonly Coding[], { bytesMax }: BodyRules): Promise<Buffer> {
    // Whoever is answered in the meantime holds nothing any more.
    if (this.#answered) throw new Refused('request_aborted');
    this.#inflation = this.hall.inflations.start(body, codings, this.share, bytesMax);
    return this.#inflation.promise;
  }

  /** null: the body may be read. The parser has seen to it that a declared length is a number. */
  #bodyRefusal({ bytesMax, needsLength }: BodyRules): Refusal | null {
    const { headers } = this.request;
    if (headers['transfer-encoding'] !== undefined) return null;
    const length = headers['content-length'];
    if (length === undefined) return needsLength ? refusal('length_required') : null;
    if (Number(length) > bytesMax) return refusal('body_too_large');
    // A body that would not fit now is not begun.
    return this.share.refuses(Number(length));
  }

  /** Lets go of whatever the request held, and writes its answer. */
  protected write({ status, headers, body }: Reply): void {
    if (!this.#begin(status, headers)) return;
    if (typeof body === 'string' && this.method !== 'HEAD' && endInOneWrite(this.response, body)) return;
    this.response.end(body);
  }

  /** The same for a body that leaves as fast as its reader reads. */
  protected writePieces(status: number, headers: readonly string[], pieces: Iterable<Buffer>): void {
    if (!this.#begin(status, headers)) return;
    const source = Readable.from(pieces);
    // Half an answer is told from a whole one by the end of the connection.
    source.on('error', () => this.response.destroy());
    source.pipe(this.response);
  }

  /** false: nobody is there to read it. */
  #begin(status: number, headers: readonly string[]): boolean {
    this.#answered = true;
    this.#reading?.abandon();
    this.#inflation?.abandon();
    this.share.release();
    if (this.connection.socket.destroyed) return false;
    this.#writeHead(status, headers);
    return true;
  }

  #writeHead(status: number, headers: readonly string[]): void {
    const { connection, hall } = this;
    if (!this.request.complete) {
      this.#closes ||= this.#leavesTooMuchUnread();
      connection.lingerOnClose();
    }
    // While draining, the answer that closes a connection is the last one owed on it.
    const closes = this.#closes || ((hall.ebbing || hall.draining) && connection.last === this);
    if (closes) connection.endAfterAnswer();
    this.response.writeHead(status, closes ? [...headers, 'Connection', 'close'] : (headers as string[]));
  }

  /**
   * Whether the rest of the body is not worth reading for the sake of the connection. A sender that still waits for
   * `100 Continue` may or may not send its body now (RFC 9110 §10.1.1), so what follows could be read as either.
   */
  #leavesTooMuchUnread(): boolean {
    if (this.#awaitsContinue) return true;
    if (this.request.headers['transfer-encoding'] !== undefined) return true;
    return this.announcedBytes > this.hall.limits.unreadBodyBytesMax;
  }
}

/**
 * Node writes an answer with a body in pieces (writev), which costs some µs more than one string in one write. What it
 * has made of the head is public in fact only (`_header` of lib/_http_outgoing.js, since 0.x): false where it is not there,
 * and nothing is done. The head is written one byte a character, so the body has to be ASCII.
 */
function endInOneWrite(response: ServerResponse, body: string): boolean {
  const message = response as ServerResponse & { _header?: unknown };
  if (typeof message._header !== 'string' || response.chunkedEncoding) return false;
  if (Buffer.byteLength(body) !== body.length) return false;
  message._header += body;
  response.end();
  return true;
}
