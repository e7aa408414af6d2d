/**
 * Reads the body of one request that Node's parser reads. Takes the request and its share of the bytes in flight; returns all of it, decompressed, or
 * piece by piece (body-stream.ts). May refuse with `encoding_unsupported`, `malformed_encoding`, `length_required`, `body_too_large`, `overloaded`,
 * `sender_overloaded`, `request_timeout` (a pause), `request_aborted` and whatever `fail` is told; touches no socket.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Limits } from '../config/limits.ts';
import { Gathered } from '../kit/gathered-bytes.ts';
import { longWork } from '../kit/time-slices.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { BodyPieces } from './body-stream.ts';
import type { BodyReading, PiecesRules } from './body-stream.ts';
import { parseCodings } from './inflation.ts';
import type { Coding, Inflation, Inflations } from './inflation.ts';
import type { Share } from './share.ts';

/** What a door asks of a body. */
export interface BodyRules {
  /** Bound on what really arrives, and on what it is decompressed to, in bytes: a chunked body announces no size. */
  readonly bytesMax: number;
  /** A body without a length that does not come in chunks is refused; otherwise it is empty. */
  readonly needsLength: boolean;
  /** Longest pause between two pieces, in ms; null: the bound on the whole request is enough. */
  readonly pauseMs: number | null;
}

/** Work on a large body as a whole, such as its HMAC, is done for one body at a time; null: one of so many bytes is small. */
function bodyTurn(bytes: number, { spacedBodyBytes }: Limits): Promise<void> | null {
  return bytes < spacedBodyBytes ? null : longWork.turn(bytes);
}

export class RequestBody {
  /** As received, if it was compressed and that is kept. */
  encoded: Buffer | undefined;
  /** Why it will not arrive completely, whether it is being read or not. */
  failure: Refusal | null = null;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #share: Share;
  readonly #limits: Limits;
  readonly #inflations: Inflations;
  #awaitsContinue: boolean;
  #reading: BodyReading | null = null;
  #inflation: Inflation | null = null;
  #abandoned = false;

  /** `awaitsContinue`: the sender waits for `100 Continue` before it sends the body. */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    share: Share,
    { limits, inflations }: { readonly limits: Limits; readonly inflations: Inflations },
    awaitsContinue: boolean,
  ) {
    this.#request = request;
    this.#response = response;
    this.#share = share;
    this.#limits = limits;
    this.#inflations = inflations;
    this.#awaitsContinue = awaitsContinue;
  }

  get #announcedBytes(): number {
    return Number(this.#request.headers['content-length'] ?? 0);
  }

  /** The rest of it will not arrive. */
  fail(why: Refusal): void {
    this.failure ??= why;
    this.#reading?.fail(this.failure);
  }

  /** The request is answered. */
  abandon(): void {
    this.#abandoned = true;
    this.#reading?.abandon();
    this.#inflation?.abandon();
  }

  /** All of it. `keepsEncoded`: also as received. Rejects with Refused. */
  read(rules: BodyRules, keepsEncoded: boolean): Promise<Buffer> {
    if (this.failure !== null) return Promise.reject(new Refused(this.failure));
    const request = this.#request;
    const codings = parseCodings(request.headers['content-encoding'], this.#limits.contentCodingsMax);
    const why = 'code' in codings ? codings : this.#refusal(rules);
    if (why !== null) return Promise.reject(new Refused(why));
    this.#askFor();
    const reader = new BodyReader(request, this.#share, rules, this.#limits);
    this.#reading = reader;
    if ('code' in codings || codings.length === 0) return reader.promise;
    return reader.promise.then(async (read) => {
      // A copy: what is decompressed is freed. Both are counted until the answer.
      if (keepsEncoded) this.encoded = Buffer.from(read);
      const body = await this.#inflate(read, codings, rules);
      await bodyTurn(body.length, this.#limits);
      return body;
    });
  }

  /** As it arrives. Throws Refused. */
  pieces(rules: PiecesRules): BodyPieces {
    if (this.failure !== null) throw new Refused(this.failure);
    if (this.#announcedBytes > rules.bytesMax) throw new Refused('body_too_large');
    this.#askFor();
    const pieces = new BodyPieces(this.#request, this.#share, rules);
    this.#reading = pieces;
    return pieces;
  }

  /** Reads and drops the rest, within bounds, unless its sender waits to be asked for it. Resolves when all has arrived, or no more is read. */
  async drop(): Promise<void> {
    const request = this.#request;
    if (this.failure !== null || request.complete || request.destroyed || this.#awaitsContinue) return;
    // The reader so far would pause the request at the next piece.
    this.#reading?.abandon();
    await new Promise<void>((resolve) => {
      let bytes = 0;
      const settle = (): void => {
        clearTimeout(timer);
        request.off('data', count).off('end', settle).off('close', settle);
        resolve();
      };
      const count = (piece: Buffer): void => {
        bytes += piece.length;
        if (bytes > this.#limits.lingerBytesMax) settle();
      };
      const timer = setTimeout(settle, this.#limits.lingerMs);
      this.#reading = { fail: settle, abandon: settle };
      request.on('data', count).on('end', settle).on('close', settle);
      request.resume();
    });
  }

  /**
   * Whether the rest is too much to read for the sake of the connection. A sender that still waits for
   * `100 Continue` may or may not send its body now (RFC 9110 §10.1.1), so what follows could be read as either.
   */
  get leavesTooMuchUnread(): boolean {
    if (this.#awaitsContinue) return true;
    if (this.#request.headers['transfer-encoding'] !== undefined) return true;
    return this.#announcedBytes > this.#limits.unreadBodyBytesMax;
  }

  #askFor(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    this.#response.writeContinue();
  }

  #inflate(body: Buffer, codings: readonly Coding[], { bytesMax }: BodyRules): Promise<Buffer> {
    // A request that was answered meanwhile holds nothing any more.
    if (this.#abandoned) throw new Refused('request_aborted');
    this.#inflation = this.#inflations.start(body, codings, this.#share, bytesMax);
    return this.#inflation.promise;
  }

  /** null: the body may be read. The parser has checked that a declared length is a number. */
  #refusal({ bytesMax, needsLength }: BodyRules): Refusal | null {
    const { headers } = this.#request;
    if (headers['transfer-encoding'] !== undefined) return null;
    const length = headers['content-length'];
    if (length === undefined) return needsLength ? refusal('length_required') : null;
    if (Number(length) > bytesMax) return refusal('body_too_large');
    // A body that would not fit now is not begun.
    return this.#share.refuses(Number(length));
  }
}

class BodyReader implements BodyReading {
  readonly promise: Promise<Buffer>;
  #resolve!: (body: Buffer) => void;
  #reject!: (refused: Refused) => void;
  readonly #share: Share;
  readonly #bytesMax: number;
  readonly #pause: NodeJS.Timeout | null;
  readonly #limits: Limits;
  readonly #gathered: Gathered;
  #settled = false;
  /** All of it was read. */
  #whole = false;

  /** Starts reading at once. */
  constructor(request: IncomingMessage, share: Share, { bytesMax, pauseMs }: BodyRules, limits: Limits) {
    this.#share = share;
    this.#bytesMax = bytesMax;
    this.#limits = limits;
    this.#gathered = new Gathered(Number(request.headers['content-length'] ?? 0));
    // A body that came in one piece with its headers is already there; only one that is still being sent is timed.
    this.#pause =
      pauseMs === null || request.complete
        ? null
        : setTimeout(() => this.fail(refusal('request_timeout')), pauseMs);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // After a refusal the rest is still read and dropped, until the answer closes the connection.
    // Node passes a separate copy of each piece (node_http_parser.cc, on_body), which may be kept.
    request.on('data', (chunk: Buffer) => this.#receive(chunk));
    request.on('end', () => this.#finish());
    // A request whose connection is gone closes without an end, even if all of it had arrived and was not read yet. One that
    // has ended closes, too, perhaps while it waits for its turn.
    const gone = (): void => (this.#whole ? undefined : this.fail(refusal('request_aborted')));
    if (request.destroyed) gone();
    else request.on('close', gone);
  }

  fail(refusal: Refusal): void {
    if (!this.#settle()) return;
    this.#gathered.drop();
    this.#reject(new Refused(refusal));
  }

  /** Drops what was read: the request is answered, and the rest of its body will never be needed. */
  abandon(): void {
    if (this.#settle()) this.#gathered.drop();
  }

  #receive(chunk: Buffer): void {
    if (this.#settled) return;
    if (this.#gathered.length + chunk.length > this.#bytesMax) return this.fail(refusal('body_too_large'));
    const why = this.#share.take(chunk.length);
    if (why !== null) return this.fail(why);
    this.#pause?.refresh();
    this.#gathered.add(chunk);
  }

  #finish(): void {
    this.#whole = true;
    if (this.#pause !== null) clearTimeout(this.#pause);
    if (this.#settled) return;
    const turn = bodyTurn(this.#gathered.length, this.#limits);
    if (turn === null) return this.#give();
    // Waiting bodies are not joined yet, unless they are large: the memory that joining one frees is reused by the next ones.
    void turn.then(() => this.#give());
  }

  #give(): void {
    if (!this.#settle()) return;
    this.#share.settle();
    this.#resolve(this.#gathered.done());
  }

  /** false: it already was. */
  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    if (this.#pause !== null) clearTimeout(this.#pause);
    return true;
  }
}
