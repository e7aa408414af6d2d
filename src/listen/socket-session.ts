/**
 * One WebSocket. Takes the messages of one client and passes its batches to a stream, in order; writes `{"ack":<id>}` in
 * order and only for committed batches, or `{"fatal":"<reason>"}` once and nothing after it. May refuse with
 * `request_timeout`, `malformed_payload`, `timestamp_skew`, `body_too_large`, `overloaded`, and with whatever the stream
 * refuses. Touches its socket alone.
 *
 * States, `#state`, changed by `#become` alone:
 *   silent   the first message has not arrived.
 *   opening  the table is being looked up and the check evaluated; messages that arrive meanwhile wait.
 *   open     batches are read, handed over and acknowledged.
 *   ending   no further message is read: the last one was refused, or Headgate is shutting down. Batches accepted before
 *            are still acknowledged, then the connection is closed.
 *   closed   the close frame is sent, or the socket is gone.
 *
 *   silent ──first message──► opening ──accepted──► open ──refused, or draining──► ending ──all answered──► closed
 *      └─────────────────────────┴──────────refused, or draining──────────────────────┘
 *
 * The socket is not read while `#stalls` names a reason.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import type { Outcome } from '../types/rows.ts';
import type { StreamUpgrade, Stream, RequestStreams } from '../ingest/ingest-stream.ts';
import { ingestTemplate } from '../ingest/routes.ts';
import type { Admission } from '../access/admission.ts';
import type { Limits } from '../config/limits.ts';
import type { Observation, Observe, TableName } from '../observe/observations.ts';
import type { Arriving, TracedRequest, Tracer } from '../telemetry/tracer.ts';
import type { Refusal, RefusalCode } from '../errors/refusals.ts';
import { refusal, Refused, refusals } from '../errors/refusals.ts';
import { readBatch, readInit } from './batch-frame.ts';
import type { BytesInFlight } from '../http/budget.ts';
import { Share } from '../http/share.ts';
import { PartialMessage } from './partial-message.ts';
import { Unacked } from './unacked.ts';
import type { Backlogs, Pending } from './unacked.ts';
import { binaryRefused, closeCode, closeCodes, lookupFailed, named } from './websocket-errors.ts';

/** What all WebSockets of one listener share. */
export interface SocketContext {
  readonly streams: Pick<RequestStreams, 'open'>;
  readonly observe: Observe;
  readonly limits: Limits;
  readonly inFlight: BytesInFlight;
  readonly backlogs: Backlogs;
  /** ms since 1970 */
  readonly now: () => number;
  /** Knows the client behind a trusted proxy. */
  readonly gate: Admission | null;
  /** null: nothing is traced. */
  readonly tracer: Pick<Tracer, 'begin' | 'end' | 'endBatch'> | null;
  readonly scheme: 'ws' | 'wss';
}

type SocketState = 'silent' | 'opening' | 'open' | 'ending' | 'closed';
/** Why the socket is not read. */
type Stall = 'opening' | 'unacked' | 'unread' | 'memory' | 'table' | 'turn';

type AnsweredBatch = Extract<Observation, { kind: 'batch.answered' }>;

export class SocketSession {
  /** Called after each message that took long to assemble. */
  onLarge: () => void = () => undefined;
  readonly #room: SocketContext;
  readonly #ws: WebSocket;
  readonly #socket: Socket;
  readonly #opening: Omit<StreamUpgrade, 'arrivedAtMs' | 'body'>;
  readonly #arriving: Arriving;
  readonly #openedMs: number;
  readonly #share: Share;
  readonly #partial = new PartialMessage();
  readonly #stalls = new Set<Stall>();
  readonly #unacked: Unacked;
  /** Messages that arrived while the stream was being opened. */
  #waiting: { readonly data: Buffer; readonly binary: boolean }[] = [];
  #waitingBytes = 0;
  #state: SocketState = 'silent';
  #stream: Stream | null = null;
  #lastId: bigint | null = null;
  /** Why it ends; null: because Headgate stops, or its client left. */
  #why: Refusal | null = null;
  #closeCode: number = closeCodes.goingAway;
  /** The socket itself is closed: nothing is held for it any more. */
  #gone = false;
  #table: TableName | null = null;
  #opened = false;
  #batches = 0;
  #rows = 0;
  /** When the first byte of the incomplete message arrived; null: there is none. */
  #partialSinceMs: number | null = null;
  #heardMs: number;
  #pinged = false;

  constructor(room: SocketContext, ws: WebSocket, socket: Socket, request: IncomingMessage) {
    this.#room = room;
    this.#ws = ws;
    this.#unacked = new Unacked(room.limits);
    this.#socket = socket;
    const { method = '', url = '', rawHeaders } = request;
    const peer = socket.remoteAddress ?? '';
    const remoteAddress = room.gate?.clientAddress(peer, request) ?? peer;
    this.#opening = { method, target: url, rawHeaders, remoteAddress };
    this.#arriving = { method, remoteAddress, one: (name) => request.headers[name]?.toString() };
    this.#share = new Share(room.inFlight, remoteAddress, { fail: (why) => this.#makeWay(why) });
    this.#openedMs = performance.now();
    this.#heardMs = this.#openedMs;
    socket.prependListener('data', (chunk: Buffer) => this.#received(chunk.length));
    socket.on('data', () => this.#settled());
    ws.on('message', (data: Buffer, binary) => this.#message(data, binary));
    ws.on('ping', (data: Buffer) => this.#partial.emitted(data.length, false));
    ws.on('pong', (data: Buffer) => this.#partial.emitted(data.length, false));
    // ws answers violations of the protocol with its close code; the socket's own errors end it.
    ws.on('error', (error) => this.#broken(error));
    ws.on('close', () => this.#left());
    this.#account();
  }

  /** Accepts nothing new, acknowledges what was accepted, and closes with 1001. */
  drain(): void {
    if (this.#state === 'ending' || this.#state === 'closed') return;
    this.#become('ending');
    this.#waiting = [];
    this.#flush();
  }

  /** No message is read until `relieve`: all connections together hold too much. */
  starve(): void {
    this.#stall('memory', true);
  }

  relieve(): void {
    this.#stall('memory', false);
  }

  /** Stops reading for this turn of the event loop, in which its next message may become complete and take long. */
  wait(): void {
    if (this.#partial.held > this.#room.limits.decodeSliceBytes) this.#stall('turn', true);
  }

  goOn(): void {
    this.#stall('turn', false);
  }

  /** Checks what takes too long. Must be called now and then. */
  sweep(nowMs: number): void {
    const { limits } = this.#room;
    if (this.#state === 'closed') return;
    if (this.#state === 'silent' && nowMs - this.#openedMs > limits.websocketInitTimeoutMs)
      return this.#refuse(refusal('request_timeout', 'no init frame came in time'));
    // Time in which Headgate does not read for its own reasons is not the client's.
    const ours = this.#stalls.size > (this.#stalls.has('memory') ? 1 : 0);
    if (this.#partialSinceMs !== null && ours) this.#partialSinceMs = nowMs;
    if (this.#partialSinceMs !== null && nowMs - this.#partialSinceMs > limits.websocketMessageTimeoutMs)
      return this.#overdue();
    this.#stall('unread', this.#ws.bufferedAmount > limits.websocketUnreadBytesMax);
    if (nowMs - this.#heardMs > limits.websocketPingMs) this.#probe(nowMs);
  }

  /** A message that is never completed holds memory that others need. */
  #overdue(): void {
    this.#partialSinceMs = null;
    if (this.#stalls.has('memory')) this.#refuse(refusal('overloaded'));
    else this.#refuse(refusal('request_timeout', 'the message did not arrive in time'));
  }

  /** Asks a silent client for a sign of life. A client that is not read could not be heard, and is left alone. */
  #probe(nowMs: number): void {
    const pinged = this.#pinged && !this.#ws.isPaused;
    // A peer that is gone would never answer a close frame; the kernel ends its connection.
    if (pinged) return this.#ws.terminate();
    this.#pinged = !this.#ws.isPaused;
    this.#heardMs = nowMs;
    this.#ws.ping();
  }

  #received(bytes: number): void {
    this.#heardMs = performance.now();
    this.#pinged = false;
    this.#partial.received(bytes);
    this.#account();
  }

  #settled(): void {
    this.#partial.settled();
    const { held } = this.#partial;
    this.#partialSinceMs = held === 0 ? null : (this.#partialSinceMs ?? this.#heardMs);
    this.#account();
    if (this.#state === 'silent' && held > this.#room.limits.websocketInitBytesMax)
      this.#refuse(refusal('body_too_large', 'the init frame is too large'));
  }

  /** What is held in memory for this connection. */
  #account(): void {
    const { requestCostBytes } = this.#room.limits;
    const loose = this.#partial.held + this.#waitingBytes;
    if (this.#gone) this.#share.release();
    else this.#share.hold(requestCostBytes + loose + this.#unacked.bytes, loose);
  }

  /** Others need the memory of a message that is not complete: the connection ends, with a last message if that still fits. */
  #makeWay(why: Refusal): void {
    if (this.#state !== 'closed') {
      this.#ws.send(JSON.stringify({ fatal: why.message }));
      this.#ws.close(closeCode(why.code));
      this.#end(why.code);
    }
    // Not read to its end, and not waited for: its memory has to be free now.
    this.#socket.destroySoon();
  }

  #message(data: Buffer, binary: boolean): void {
    this.#partial.emitted(data.length, true);
    this.#partialSinceMs = null;
    if (this.#state === 'ending' || this.#state === 'closed') return;
    if (this.#state === 'opening') {
      this.#waiting.push({ data, binary });
      this.#waitingBytes += data.length;
      // Read on while memory allows: if the client goes away meanwhile, that must be noticed, because what it left
      // behind would otherwise come after the same batches on the connection that took its place.
      const { websocketUnackedMax, websocketUnackedBytesMax } = this.#room.limits;
      if (this.#waiting.length >= websocketUnackedMax || this.#waitingBytes >= websocketUnackedBytesMax)
        this.#stall('opening', true);
    } else this.#read(data, binary);
    if (data.length > this.#room.limits.decodeSliceBytes) this.onLarge();
  }

  #read(data: Buffer, binary: boolean): void {
    if (binary) return this.#refuse(binaryRefused, closeCodes.unsupported);
    if (this.#state === 'open') return this.#batch(data);
    this.#become('opening');
    void this.#open(data);
  }

  async #open(init: Buffer): Promise<void> {
    const arrivedAtMs = this.#room.now();
    const span = this.#traced();
    try {
      const opening = { ...this.#opening, arrivedAtMs, body: init };
      this.#stream = await this.#room.streams.open(opening, { target: (name) => void (this.#table = name) });
      // The connection has ended meanwhile, and nothing else ends its stream.
      if (this.#state !== 'opening') return this.#stream.end();
      readInit(init, arrivedAtMs, this.#room.limits.websocketSkewMs);
    } catch (error) {
      const why = error instanceof Refused ? lookupFailed(error.refusal) : this.#bug(error);
      this.#openingDecided(span, why);
      return this.#refuse(why);
    }
    this.#openingDecided(span, null);
    this.#become('open');
    this.#opened = true;
    if (this.#table !== null)
      this.#unacked.countsFor(
        this.#room.backlogs.join(this.#table, (stalls) => this.#stall('table', stalls)),
      );
    this.#room.observe({ kind: 'websocket.opened', table: this.#table });
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const { data, binary } of waiting) if (this.#isOpen()) this.#read(data, binary);
    this.#stall('opening', false);
    this.#account();
  }

  /** null: what begins now is not traced. */
  #traced(): TracedRequest | null {
    const { tracer } = this.#room;
    return tracer === null ? null : tracer.begin(this.#arriving);
  }

  #openingDecided(span: TracedRequest | null, why: Refusal | null): void {
    const { tracer, scheme } = this.#room;
    if (span === null || tracer === null) return;
    const code = why === null ? 'opened' : why.code;
    const answered = { table: this.#table, route: ingestTemplate, scheme, status: 101, code };
    tracer.end(span, this.#arriving, { ...answered, isDone: why === null });
  }

  #isOpen(): boolean {
    return this.#state === 'open';
  }

  #batch(data: Buffer): void {
    const { now, limits } = this.#room;
    const startedMs = performance.now();
    let pending: Pending;
    try {
      const { id, items, spans, deletes } = readBatch(data);
      if (this.#lastId !== null && id <= this.#lastId) {
        const order = `dml_batch_id must increase monotonically: received ${id} after ${this.#lastId}`;
        throw new Refused('malformed_payload', order);
      }
      this.#lastId = id;
      // A batch of a few bytes costs as much as a request of a few bytes.
      const span = this.#traced();
      pending = { id, bytes: data.length + limits.requestCostBytes, startedMs, span, outcome: null };
      this.#unacked.push(pending);
      if (items === 0) pending.outcome = { kind: 'committed', rows: 0 };
      else this.#submit(pending, { documents: { bytes: data, spans }, deletes, arrivedAtMs: now(), span });
    } catch (error) {
      return this.#refuse(error instanceof Refused ? error.refusal : this.#bug(error));
    }
    this.#flush();
    if (this.#unacked.full) this.#stall('unacked', true);
  }

  #submit(pending: Pending, batch: Parameters<Stream['submit']>[0]): void {
    const decided = (outcome: Outcome) => {
      pending.outcome = outcome;
      this.#flush();
    };
    this.#stream
      ?.submit(batch)
      .then(decided, (error: unknown) => decided({ kind: 'aborted', refusal: this.#bug(error) }));
  }

  /** Answers decided batches, in order. The first batch that was not committed is the last one answered. */
  #flush(): void {
    if (this.#state === 'closed') return;
    for (let { first } = this.#unacked; first?.outcome; { first } = this.#unacked) {
      const { id, outcome } = first;
      this.#answered(first, outcome);
      if (outcome.kind !== 'committed') {
        this.#why = named(outcome, id);
        this.#closeCode = closeCode(this.#why.code);
        return this.#close();
      }
      this.#unacked.shift();
      this.#batches += 1;
      this.#rows += outcome.rows;
      this.#ws.send(`{"ack":${id}}`);
    }
    if (this.#unacked.low) this.#stall('unacked', false);
    if (this.#ws.bufferedAmount > this.#room.limits.websocketUnreadBytesMax) this.#stall('unread', true);
    this.#account();
    if (this.#state === 'ending' && this.#unacked.first === undefined) this.#close();
  }

  #answered({ startedMs, span }: Pending, outcome: Outcome): void {
    const isDone = outcome.kind === 'committed';
    const said: AnsweredBatch = {
      kind: 'batch.answered',
      table: this.#table,
      code: isDone ? 'committed' : outcome.refusal.code,
      rows: isDone && outcome.isCopy !== true ? outcome.rows : 0,
      ...(isDone && outcome.stale !== undefined && { stale: outcome.stale }),
      seconds: (performance.now() - startedMs) / 1_000,
    };
    const { observe, tracer, scheme } = this.#room;
    if (span === null || tracer === null) return observe(said);
    const isError = !isDone && refusals[outcome.refusal.code].status >= 500;
    tracer.endBatch(span, this.#arriving, { ...said, route: ingestTemplate, scheme, isDone, isError });
    observe({ ...said, traceId: span.traceId });
  }

  /** The last message cannot be accepted; those before it are still answered. */
  #refuse(why: Refusal, code = closeCode(why.code)): void {
    if (this.#state === 'ending' || this.#state === 'closed') return;
    this.#why = why;
    this.#closeCode = code;
    this.#become('ending');
    this.#flush();
  }

  #bug(error: unknown): Refusal {
    const requestId = randomUUID();
    this.#room.observe({ kind: 'request.failed', requestId, error });
    return refusal('internal', `${refusals.internal.message} (request id ${requestId})`);
  }

  #close(): void {
    const why = this.#why;
    if (why !== null) this.#ws.send(JSON.stringify({ fatal: why.message }));
    this.#ws.close(this.#closeCode);
    // Whatever the client still sends is read and dropped, so that it can read the last message.
    this.#stalls.clear();
    this.#ws.resume();
    this.#end(why === null ? 'draining' : why.code);
  }

  /** ws has found an error in the frames, and has sent its close code; or the socket failed. */
  #broken(error: Error): void {
    const { code } = error as NodeJS.ErrnoException;
    if (/^WS_ERR_UNSUPPORTED_.*LENGTH$/.test(code ?? '')) this.#end('body_too_large');
    else this.#end(code?.startsWith('WS_') === true ? 'malformed_payload' : 'request_aborted');
  }

  #left(): void {
    this.#gone = true;
    this.#end('closed');
    this.#account();
  }

  /** From here on nothing is answered. */
  #end(code: RefusalCode | 'closed'): void {
    if (this.#state === 'closed') return;
    this.#become('closed');
    this.#stream?.end();
    this.#unacked.end();
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#account();
    this.#room.observe({
      kind: 'websocket.closed',
      table: this.#table,
      opened: this.#opened,
      code,
      batches: this.#batches,
      rows: this.#rows,
      seconds: (performance.now() - this.#openedMs) / 1_000,
    });
  }

  #stall(reason: Stall, stalls: boolean): void {
    if (stalls === this.#stalls.has(reason) || this.#state === 'closed') return;
    if (stalls) this.#stalls.add(reason);
    else this.#stalls.delete(reason);
    if (this.#stalls.size > 0) this.#ws.pause();
    else this.#ws.resume();
  }

  #become(state: SocketState): void {
    this.#state = state;
  }
}
