/**
 * One request and its answer. Takes a request as Node's parser saw it, hands it to the ingest sentence as an
 * `Arrival`, and writes exactly one answer whatever happens meanwhile; says what was answered. May refuse the
 * body with `encoding_unsupported`, `malformed_encoding`, `length_required`, `body_too_large`, `overloaded`, `sender_overloaded`, and with what ended the
 * connection: `request_timeout`, `malformed_request`, `request_aborted`.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Arrival, Outcome, Target } from '../tables/flow.ts';
import type { Connection, LiveRequest } from '../access/connection.ts';
import type { Gate } from '../access/gate.ts';
import type { Asked, Handshakes } from '../ingest/handshake.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { Limits } from '../tables/limits.ts';
import type { Observe, TableName } from '../tables/observations.ts';
import type { Refusal } from '../tables/refusals.ts';
import { refusal, Refused } from '../tables/refusals.ts';
import { BodyReader } from './body.ts';
import type { Coding, Inflation, Inflations } from './content-encoding.ts';
import { parseCodings } from './content-encoding.ts';
import type { BytesInFlight } from './in-flight.ts';
import { Share } from './in-flight.ts';
import type { RefusalReplies, Reply } from './reply.ts';
import { committedReply, failureReply, handshakeReply, ownReply, preflightReply } from './reply.ts';

const tooManyChunks = refusal('malformed_request', 'the body comes in too many small chunks');

/** What all exchanges of one listener share. */
export interface Room {
  readonly ingest: Ingest;
  /** null: no table answers questions. */
  readonly handshakes: Handshakes | null;
  readonly observe: Observe;
  readonly limits: Limits;
  readonly bodyBytesMax: number;
  readonly inFlight: BytesInFlight;
  readonly inflations: Inflations;
  /** What is done with a large body as a whole, such as its HMAC, is done for one of them at a time; null: this one is small. */
  readonly bodyTurn: (bytes: number) => Promise<void> | null;
  readonly refusalReply: RefusalReplies;
  readonly now: () => number;
  /** null: everybody may come, and no proxy is believed. */
  readonly gate: Gate | null;
  /** Requests are served; the last answer owed on a connection closes it. */
  ebbing: boolean;
  /** Requests are refused. */
  draining: boolean;
}

export class Exchange implements Arrival, LiveRequest {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  readonly remoteAddress: string;
  readonly #startedMs = performance.now();
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #connection: Connection;
  readonly #room: Room;
  readonly #share: Share;
  /** The sender waits for `100 Continue` before it sends the body. */
  #awaitsContinue: boolean;
  #table: (TableName & Pick<Target, 'answers'>) | null = null;
  #failure: Refusal | null = null;
  #reader: BodyReader | null = null;
  #inflation: Inflation | null = null;
  #answered = false;
  #closes = false;

  constructor(
    room: Room,
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    awaitsContinue: boolean,
  ) {
    this.#room = room;
    this.#connection = connection;
    this.#request = request;
    this.#response = response;
    this.#awaitsContinue = awaitsContinue;
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.rawHeaders = request.rawHeaders;
    this.arrivedAtMs = room.now();
    const peer = connection.remoteAddress;
    this.remoteAddress = room.gate?.clientAddress(peer, request.headers) ?? peer;
    this.#share = new Share(room.inFlight, this.remoteAddress, (why) => this.fail(why));
    connection.last = this;
    connection.boundChunks(
      request.headers['transfer-encoding'] === undefined ? null : () => this.fail(tooManyChunks),
    );
  }

  get received(): boolean {
    return this.#request.complete;
  }

  get announcedBytes(): number {
    return Number(this.#request.headers['content-length'] ?? 0);
  }

  get answered(): boolean {
    return this.#answered;
  }

  whenWritten(done: () => void): void {
    if (this.#response.writableFinished) done();
    else this.#response.once('finish', done);
  }

  fail(why: Refusal): void {
    this.#closes = true;
    // Nobody needs the rest of a request that was answered early; answers before it are still owed.
    if (this.#answered) return this.#connection.endWithMessage(null);
    this.#failure ??= why;
    this.#reader?.fail(this.#failure);
  }

  /** Sends the request through the stages. The answer follows when they have decided. */
  run(): void {
    const why = this.#share.take(this.#room.limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    this.#ingest().then(
      (outcome) => this.#decided(outcome),
      (error: unknown) => this.#refuseFor(error),
    );
  }

  /** A request that is no POST: answered where its table answers such questions; `otherwise` where it does not. */
  ask(otherwise: () => void): void {
    const { handshakes, limits } = this.#room;
    if (handshakes === null) return otherwise();
    const why = this.#share.take(limits.requestCostBytes);
    if (why !== null) return this.refuse(why);
    handshakes.ask(this).then(
      (asked) => {
        if (asked !== null) return this.#decided(asked);
        this.#share.release();
        otherwise();
      },
      (error: unknown) => this.#refuseFor(error),
    );
  }

  #decided(outcome: Outcome | Asked): void {
    switch (outcome.kind) {
      case 'committed': {
        const own = this.#table?.answers?.committed ?? null;
        const { rows } = outcome;
        return this.#answer(own === null ? committedReply(rows) : ownReply(rows, own, this.rawHeaders));
      }
      case 'asked':
        this.#table = outcome.target;
        return this.#answer(handshakeReply(outcome.answer));
      default:
        if (outcome.kind === 'askedTooOften') this.#table = outcome.target;
        return this.refuse(outcome.refusal);
    }
  }

  /** A bug that throws before there is a promise is answered like any other. */
  #ingest(): Promise<Outcome | Asked> {
    try {
      return this.#room.ingest(this, { target: (target) => void (this.#table = target) });
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Answers without asking the stages; with `closes`, because the connection cannot be trusted any further. */
  refuse(why: Refusal, closes = false): void {
    this.#closes ||= closes;
    this.#answer(this.#room.refusalReply(why));
  }

  /** Answers a browser that asks whether it may post from its page. No request was refused or stored: nothing is said. */
  preflight(): void {
    this.#answered = true;
    this.#write(preflightReply(this.#request.headers['access-control-request-headers']));
  }

  body(): Promise<Buffer> {
    const { limits, bodyBytesMax, bodyTurn } = this.#room;
    const codings = parseCodings(this.#request.headers['content-encoding'], limits.contentCodingsMax);
    const why = this.#failure ?? ('code' in codings ? codings : this.#bodyRefusal());
    if (why !== null) return Promise.reject(new Refused(why.code, why.message));
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false;
      this.#response.writeContinue();
    }
    this.#reader = new BodyReader(this.#request, this.#share, bodyBytesMax, bodyTurn);
    if ('code' in codings || codings.length === 0) return this.#reader.promise;
    return this.#reader.promise.then(async (read) => {
      const body = await this.#inflate(read, codings);
      await bodyTurn(body.length);
      return body;
    });
  }

  #inflate(body: Buffer, codings: readonly Coding[]): Promise<Buffer> {
    const { inflations, bodyBytesMax } = this.#room;
    // Whoever is answered in the meantime holds nothing any more.
    if (this.#answered) throw new Refused('request_aborted');
    this.#inflation = inflations.start(body, codings, this.#share, bodyBytesMax);
    return this.#inflation.promise;
  }

  /** null: the body may be read. The parser has seen to it that a declared length is a number. */
  #bodyRefusal(): Refusal | null {
    const { headers } = this.#request;
    if (headers['transfer-encoding'] !== undefined) return null;
    const length = headers['content-length'];
    if (length === undefined) return refusal('length_required');
    if (Number(length) > this.#room.bodyBytesMax) return refusal('body_too_large');
    // A body that would not fit now is not begun.
    return this.#share.refuses(Number(length));
  }

  #refuseFor(error: unknown): void {
    if (error instanceof Refused) return this.refuse(error.refusal);
    const requestId = randomUUID();
    this.#answer(failureReply(requestId));
    this.#room.observe({ kind: 'request.failed', requestId, error });
  }

  #answer(reply: Reply): void {
    this.#answered = true;
    this.#reader?.abandon();
    this.#inflation?.abandon();
    this.#share.release();
    const { socket } = this.#connection;
    if (!socket.destroyed) this.#write(reply);
    this.#room.observe({
      kind: 'request.answered',
      table: this.#table,
      status: reply.status,
      code: reply.code,
      rows: reply.rows,
      remoteAddress: this.remoteAddress,
      seconds: (performance.now() - this.#startedMs) / 1000,
    });
  }

  #write(reply: Pick<Reply, 'status' | 'headers' | 'closingHeaders' | 'body'>): void {
    const connection = this.#connection;
    if (!this.#request.complete) {
      this.#closes ||= this.#leavesTooMuchUnread();
      connection.lingerOnClose();
    }
    // While draining, the answer that closes a connection is the last one owed on it.
    const { ebbing, draining } = this.#room;
    const closes = this.#closes || ((ebbing || draining) && connection.last === this);
    if (closes) connection.endAfterAnswer();
    this.#response.writeHead(reply.status, closes ? reply.closingHeaders : reply.headers);
    const isPost = this.method === 'POST';
    if (!isPost || !endInOneWrite(this.#response, reply.body)) this.#response.end(reply.body, 'latin1');
  }

  /**
   * Whether the rest of the body is not worth reading for the sake of the connection. A sender that still waits for
   * `100 Continue` may or may not send its body now (RFC 9110 §10.1.1), so what follows could be read as either.
   */
  #leavesTooMuchUnread(): boolean {
    if (this.#awaitsContinue) return true;
    if (this.#request.headers['transfer-encoding'] !== undefined) return true;
    return Number(this.#request.headers['content-length'] ?? 0) > this.#room.limits.unreadBodyBytesMax;
  }
}

/**
 * Node writes an answer with a body in pieces (writev), which costs some µs more than one string in one write. What it
 * has made of the head is public in fact only (`_header` of lib/_http_outgoing.js, since 0.x): false where it is not there,
 * and nothing is done. Only for requests whose answers have bodies: HEAD has none.
 */
function endInOneWrite(response: ServerResponse, body: string): boolean {
  const message = response as ServerResponse & { _header?: unknown };
  if (typeof message._header !== 'string' || response.chunkedEncoding) return false;
  message._header += body;
  response.end();
  return true;
}
