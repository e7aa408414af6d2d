/**
 * One request of the events gateway and its answer. Takes refusals, errors and texts, writes them with the headers common to all answers, and reports what
 * was answered. Decides nothing. Large bodies, results of SQL and streams are in stream-exchange.ts.
 */
import { randomUUID } from 'node:crypto';
import { often } from '../http/plain-answer.ts';
import type { HttpReply, OwnHeader } from '../http/plain-answer.ts';
import type { Incoming } from '../http/exchange.ts';
import { remembered } from '../kit/memoize.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import type { Answered as Traced, TracedRequest, Tracer } from '../telemetry/tracer.ts';
import { Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { answerTo, bugAnswer, headersOf, json, refusalAnswer } from './answers.ts';
import type { GatewayAnswer } from './answers.ts';
import { eventsPath, sqlPath } from './routes.ts';
import type { Scope } from './tokens.ts';
import { GatewayStreamExchange, inOurWords } from './stream-exchange.ts';
import type { BodyBounds } from './stream-exchange.ts';

export interface GatewayTracing {
  readonly tracer: Pick<Tracer, 'begin' | 'end'>;
  readonly scheme: 'http' | 'https';
}

export class GatewayExchange extends GatewayStreamExchange {
  readonly requestId: string;
  /** The route, once it is known. */
  route: 'events' | 'sql' | 'stream' | 'other' = 'other';
  /** Of the request, once it is known; of its table, too, if its rows are stored. */
  place: Traced['table'] = null;
  /** null: it is not traced. */
  span: TracedRequest | null = null;
  /** Where the request may store, or what it may follow; null: everywhere. */
  scope: Scope | null = null;
  protected readonly observe: Observe;
  #tracing: GatewayTracing | null = null;
  /** Names and values alternate. */
  #cors: readonly string[] = [];

  constructor(observe: Observe, incoming: Incoming) {
    super(incoming);
    this.observe = observe;
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

  /** Whether the whole body is announced, uncompressed and of at most this size: as a rule it has arrived with its head. Throws Refused. */
  isSmall(bytesMax: number): boolean {
    if (this.arriving === null) return this.announcedBytes <= bytesMax;
    return !this.isGzip() && Number(this.one('content-length')) <= bytesMax;
  }

  /** The whole body, synchronously if it has arrived; throws Refused, or rejects with it. Its memory is released with the answer. */
  body({ bytesMax, tooLarge }: BodyBounds): Buffer | Promise<Buffer> {
    // Refuses any other encoding; gzip is read by the HTTP room.
    this.isGzip();
    const rules = { bytesMax, needsLength: false, pauseMs: limits.eventsPauseMs };
    try {
      const read = this.readBody(rules);
      return read instanceof Promise ? read.catch(inOurWords(tooLarge)) : read;
    } catch (error) {
      return inOurWords(tooLarge)(error);
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
    if (answer === null) this.observe({ kind: 'request.failed', requestId: this.requestId, error });
    if (this.answered) return;
    const failure = await this.readAway();
    this.answer(failure === null ? (answer ?? bugAnswer(this.requestId)) : refusalAnswer(failure));
  }

  answer(answer: GatewayAnswer, rows = 0): void {
    const bytes = answer.status === 204 ? null : Buffer.byteLength(answer.text);
    const headers = this.headersOf(answer.headers, bytes);
    this.write({ status: answer.status, headers, body: answer.text }, this.idHeader);
    this.tell(answer, rows);
  }

  answerJson(text: string, rows = 0): void {
    if (this.#cors.length > 0)
      return this.answer({ code: 'ok', status: 200, headers: { 'content-type': json }, text }, rows);
    this.write(jsonReply(text), this.idHeader);
    this.tell({ code: 'ok', status: 200 }, rows);
  }

  protected get idHeader(): OwnHeader {
    return ['x-request-id', this.requestId];
  }

  protected headersOf(own: GatewayAnswer['headers'], bytes: number | null): string[] {
    return headersOf(own, bytes, this.#cors);
  }

  protected tell({ code, status }: Pick<GatewayAnswer, 'code' | 'status'>, rows: number): void {
    const { requestId, route, remoteAddress, seconds, span } = this;
    const kind = 'gateway.answered';
    const said = { kind, requestId, route, remoteAddress, status, code, rows, seconds } as const;
    const tracing = this.#tracing;
    if (span === null || tracing === null) return this.observe(said);
    const path = this.route === 'sql' ? sqlPath : eventsPath;
    const { scheme } = tracing;
    const isDone = code === 'ok';
    tracing.tracer.end(span, this, { table: this.place, route: path, scheme, status, code, isDone });
    this.observe({ ...said, traceId: span.traceId });
  }
}

/** Nearly all answers are one of a few texts. */
const jsonReply = remembered((body): HttpReply => {
  const headers = headersOf({ 'content-type': json }, Buffer.byteLength(body), []);
  return often({ status: 200, headers, body });
}, limits.gatewayRepliesMax);

/** What an id that the sender chose may consist of. */
const accepted = /^[\w.:+=@/-]+$/;

/** The id by which a request is found in the log: the one that its sender chose, or a new one. */
function requestIdOf(given: string | undefined): string {
  if (given !== undefined && given.length <= limits.requestIdCharsMax && accepted.test(given)) return given;
  return randomUUID();
}
