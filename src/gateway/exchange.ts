/**
 * One request of the events gateway and its answer. Takes refusals, errors, texts and results, writes them with the headers common to all
 * answers, and reports what was answered. Decides nothing.
 */
import { randomUUID } from 'node:crypto';
import { often } from '../http/plain-answer.ts';
import type { HttpReply, OwnHeader } from '../http/plain-answer.ts';
import type { Incoming } from '../http/exchange.ts';
import { StreamExchange } from '../http/stream-exchange.ts';
import { remembered } from '../kit/memoize.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { Answered as Traced, TracedRequest, Tracer } from '../telemetry/tracer.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { answerTo, bugAnswer, headersOf, json, refusalAnswer } from './answers.ts';
import type { GatewayAnswer } from './answers.ts';
import { eventsPath, sqlPath } from './routes.ts';
import type { Scope } from './tokens.ts';
import { asBuffers, SlowReader } from './sql-result.ts';
import type { SqlResult } from './sql-result.ts';
import type { StreamChunk } from './streams.ts';

const onlyGzip = refusal(
  'encoding_unsupported',
  'the body may be sent as it is, or with Content-Encoding: gzip',
);

export interface BodyBounds {
  readonly bytesMax: number;
  /** The message for a larger body. */
  readonly tooLarge: string;
}

export interface GatewayTracing {
  readonly tracer: Pick<Tracer, 'begin' | 'end'>;
  readonly scheme: 'http' | 'https';
}

export class GatewayExchange extends StreamExchange {
  readonly requestId: string;
  /** The route, once it is known. */
  route: 'events' | 'sql' | 'stream' | 'other' = 'other';
  /** Of the request, once it is known; of its table, too, if its rows are stored. */
  place: Traced['table'] = null;
  /** null: it is not traced. */
  span: TracedRequest | null = null;
  /** Where the request may store, or what it may follow; null: everywhere. */
  scope: Scope | null = null;
  readonly #observe: Observe;
  #tracing: GatewayTracing | null = null;
  /** Names and values alternate. */
  #cors: readonly string[] = [];

  constructor(observe: Observe, incoming: Incoming) {
    super(incoming);
    this.#observe = observe;
    this.requestId = requestIdOf(this.one('x-request-id'));
  }

  get localAddress(): string {
    return this.connection.local.address;
  }

  get localPort(): number {
    return this.connection.local.port;
  }

  /** What is served may be traced from now on. */
  trace(tracing: GatewayTracing): void {
    this.#tracing = tracing;
    this.span = tracing.tracer.begin(this);
  }

  /** Lets pages of the request's origin read the answer. */
  allowOrigin(origin: string): void {
    const allowed = ['access-control-allow-origin', origin, 'vary', 'Origin'];
    this.#cors = [...allowed, 'access-control-expose-headers', 'x-request-id, retry-after'];
  }

  /** Whether the whole body is announced, uncompressed and of at most this size. Throws Refused. */
  isSmall(bytesMax: number): boolean {
    const length = this.arriving === null ? this.announcedBytes : Number(this.one('content-length'));
    return !this.#isGzip() && length <= bytesMax;
  }

  /** The whole body, synchronously if it has arrived; throws Refused, or rejects with it. Its memory is released with the answer. */
  body({ bytesMax, tooLarge }: BodyBounds): Buffer | Promise<Buffer> {
    this.#isGzip();
    const rules = { bytesMax, needsLength: false, pauseMs: limits.eventsPauseMs };
    try {
      const read = this.readBody(rules);
      return read instanceof Promise ? read.catch(inOurWords(tooLarge)) : read;
    } catch (error) {
      return inOurWords(tooLarge)(error);
    }
  }

  /** The body as it arrives: the next bytes, or null after the last ones. Throws Refused, and rejects with it. */
  pieces({ bytesMax, tooLarge }: BodyBounds): () => Promise<Buffer | null> {
    const isGzip = this.#isGzip();
    const { eventsLineBytesMax: heldBytesMax, eventsPauseMs: pauseMs } = limits;
    const explain = inOurWords(tooLarge);
    try {
      const pieces = this.readPieces({ bytesMax, heldBytesMax, pauseMs, isGzip });
      return () => pieces.next().catch(explain);
    } catch (error) {
      return explain(error);
    }
  }

  /** Reserves more memory for what is made of the body; throws Refused. */
  hold(bytes: number): void {
    const why = this.share.take(bytes);
    if (why !== null) throw new Refused(why);
  }

  override refuse(why: Refusal, closes = false): void {
    this.closes ||= closes;
    this.answer(refusalAnswer(why));
  }

  /** Like `refuse`, for errors that are not the connection's fault: it stays open if the sender completes its request. */
  async refuseFor(error: unknown): Promise<void> {
    const answer = answerTo(error);
    if (answer === null) this.#observe({ kind: 'request.failed', requestId: this.requestId, error });
    if (this.answered) return;
    const failure = await this.readAway();
    this.answer(failure === null ? (answer ?? bugAnswer(this.requestId)) : refusalAnswer(failure));
  }

  answer(answer: GatewayAnswer, rows = 0): void {
    const bytes = answer.status === 204 ? null : Buffer.byteLength(answer.text);
    const headers = this.#headers(answer.headers, bytes);
    this.write({ status: answer.status, headers, body: answer.text }, this.#id);
    this.#tell(answer, rows);
  }

  answerJson(text: string, rows = 0): void {
    if (this.#cors.length > 0)
      return this.answer({ code: 'ok', status: 200, headers: { 'content-type': json }, text }, rows);
    this.write(jsonReply(text), this.#id);
    this.#tell({ code: 'ok', status: 200 }, rows);
  }

  /**
   * A small result is sent in one piece, with its length; a large one at its reader's speed. It is held until then; a reader that pauses
   * for `readPauseMs` is cut off.
   */
  answerResult(result: SqlResult, readPauseMs: number): void {
    const type = { 'content-type': json };
    const reader = new SlowReader(this.nodeResponse, result.bytes, readPauseMs);
    if (result.bytes <= limits.eventsLaneBytesMax) {
      const body = Buffer.concat([...asBuffers(result.body())]);
      this.write({ status: 200, headers: this.#headers(type, body.length), body }, this.#id);
    } else {
      const pieces = asBuffers(result.body(), () => reader.goesOn());
      this.writePieces(200, [...this.#headers(type, null), ...this.#id], pieces);
    }
    this.onEnded(() => {
      result.release();
      const code = this.nodeResponse.writableFinished ? 'ok' : 'answer_aborted';
      this.#tell({ code, status: 200 }, result.rows);
    });
  }

  /** Each piece is requested once its reader has read the previous ones; a reader that pauses for `readPauseMs` is cut off. */
  async answerStream(type: string, pieces: AsyncIterable<StreamChunk>, readPauseMs: number): Promise<void> {
    const { requestId, remoteAddress } = this;
    this.#observe({ kind: 'stream.opened', requestId, remoteAddress });
    let rows = 0;
    this.onEnded(() => this.#tell({ code: 'ok', status: 200 }, rows));
    const headers = {
      'content-type': type,
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      // The URL may hold a token.
      'referrer-policy': 'no-referrer',
    };
    const write = this.writeOn(200, [...this.#headers(headers, null), ...this.#id], readPauseMs);
    for await (const { frame, rows: more } of pieces) {
      if (!(await write(frame))) return;
      rows += more;
    }
    await write(null);
  }

  get #id(): OwnHeader {
    return ['x-request-id', this.requestId];
  }

  #headers(own: GatewayAnswer['headers'], bytes: number | null): string[] {
    return headersOf(own, bytes, this.#cors);
  }

  #tell({ code, status }: Pick<GatewayAnswer, 'code' | 'status'>, rows: number): void {
    const { requestId, route, remoteAddress, seconds, span } = this;
    const kind = 'gateway.answered';
    const said = { kind, requestId, route, remoteAddress, status, code, rows, seconds } as const;
    const tracing = this.#tracing;
    if (span === null || tracing === null) return this.#observe(said);
    const path = this.route === 'sql' ? sqlPath : eventsPath;
    const { scheme } = tracing;
    const isDone = code === 'ok';
    tracing.tracer.end(span, this, { table: this.place, route: path, scheme, status, code, isDone });
    this.#observe({ ...said, traceId: span.traceId });
  }

  /** Throws Refused for an unsupported encoding. */
  #isGzip(): boolean {
    // A request received as a whole has no encoding.
    const encoding = this.arriving === null ? '' : (this.one('content-encoding') ?? '').trim().toLowerCase();
    if (encoding === 'gzip' || encoding === 'x-gzip') return true;
    if (encoding === '' || encoding === 'identity') return false;
    throw new Refused(onlyGzip);
  }
}

/** Nearly all answers are one of a few texts. */
const jsonReply = remembered((body): HttpReply => {
  const headers = headersOf({ 'content-type': json }, Buffer.byteLength(body), []);
  return often({ status: 200, headers, body });
}, limits.gatewayRepliesMax);

/** Rewords refusals of the HTTP room for a client of the gateway. */
function inOurWords(tooLarge: string): (error: unknown) => never {
  return (error) => {
    const code = error instanceof Refused ? error.refusal.code : null;
    if (code === 'malformed_encoding') throw new Refused('malformed_query', 'the body is not valid gzip');
    throw code === 'body_too_large' ? new Refused(code, tooLarge) : error;
  };
}

/** What an id that the sender chose may consist of. */
const accepted = /^[\w.:+=@/-]+$/;

/** The id by which a request is found in the log: the one that its sender chose, or a new one. */
function requestIdOf(given: string | undefined): string {
  if (given !== undefined && given.length <= limits.requestIdCharsMax && accepted.test(given)) return given;
  return randomUUID();
}
