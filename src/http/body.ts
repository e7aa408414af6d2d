/**
 * Reads one request's body. Takes the request and its share of the bytes in flight; returns all of it as received, or piece by piece, if it is too
 * large to be held: then after decompression, and the socket is read only as fast as its caller asks, and left open, so that a refusal in the middle
 * of a body can be answered on it. May refuse with `body_too_large` (of pieces: before and after decompression), `malformed_encoding` (not gzip),
 * `overloaded`, `sender_overloaded`, `request_timeout` (of pieces: a pause), `request_aborted` and whatever `fail` is told; touches no socket.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Gunzip } from 'node:zlib';
import { Gathered } from '../kit/gathered-bytes.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Share } from './budget.ts';

/** What a door asks of a body. */
export interface BodyRules {
  /** Bound on what really arrives, and on what it is decompressed to, in bytes: a chunked body announces no size. */
  readonly bytesMax: number;
  /** A body without a length that does not come in chunks is refused; otherwise it is empty. */
  readonly needsLength: boolean;
  /** Longest pause between two pieces, in ms; null: the bound on the whole request is enough. */
  readonly pauseMs: number | null;
}

export class BodyReader {
  readonly promise: Promise<Buffer>;
  #resolve!: (body: Buffer) => void;
  #reject!: (refused: Refused) => void;
  readonly #share: Share;
  readonly #bytesMax: number;
  readonly #pause: NodeJS.Timeout | null;
  readonly #turn: (bytes: number) => Promise<void> | null;
  readonly #gathered: Gathered;
  #settled = false;
  /** All of it was read. */
  #whole = false;

  /** Starts reading at once. `turn` is what a complete body waits for, still in pieces; null: nothing. */
  constructor(
    request: IncomingMessage,
    share: Share,
    { bytesMax, pauseMs }: BodyRules,
    turn: (bytes: number) => Promise<void> | null,
  ) {
    this.#share = share;
    this.#bytesMax = bytesMax;
    this.#turn = turn;
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
    const turn = this.#turn(this.#gathered.length);
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

export interface PiecesRules {
  /** Before and after decompression. */
  readonly bytesMax: number;
  /** How much of it counts as held at one time: the pieces that its caller is processing. */
  readonly heldBytesMax: number;
  /** Longest pause between two pieces, in ms. */
  readonly pauseMs: number;
  readonly isGzip: boolean;
}

export class BodyPieces {
  readonly #request: IncomingMessage;
  readonly #share: Share;
  readonly #rules: PiecesRules;
  readonly #gunzip: Gunzip | null;
  readonly #source: Readable;
  readonly #pause: NodeJS.Timeout;
  readonly #read: Buffer[] = [];
  #wanted: { readonly give: (piece: Buffer | null) => void; readonly refuse: (why: Refused) => void } | null =
    null;
  #raw = 0;
  #bytes = 0;
  #held = 0;
  #ended = false;
  #failure: Refusal | null = null;

  constructor(request: IncomingMessage, share: Share, rules: PiecesRules) {
    this.#request = request;
    this.#share = share;
    this.#rules = rules;
    this.#gunzip = rules.isGzip ? createGunzip() : null;
    this.#source = this.#gunzip ?? request;
    // While the caller processes what was read, the sender waits for it.
    this.#pause = setTimeout(
      () => this.#wanted !== null && this.fail(refusal('request_timeout')),
      rules.pauseMs,
    );
    this.#source.on('data', this.#onData).on('end', this.#onEnd).pause();
    if (request.destroyed) this.#onClose();
    else request.on('close', this.#onClose);
    if (this.#gunzip === null) return;
    this.#gunzip.on('error', () => this.fail(refusal('malformed_encoding')));
    // Not pipeline(), which would end the socket with the decompressor.
    request.on('data', this.#onRaw).pipe(this.#gunzip);
  }

  /** The next bytes, or null after the last ones. Rejects with Refused. */
  next(): Promise<Buffer | null> {
    const piece = this.#read.shift();
    if (this.#failure !== null) return Promise.reject(new Refused(this.#failure));
    if (piece !== undefined || this.#ended) return Promise.resolve(piece ?? null);
    this.#pause.refresh();
    return new Promise((give, refuse) => {
      this.#wanted = { give, refuse };
      this.#source.resume();
    });
  }

  fail(why: Refusal): void {
    if (this.#failure !== null || this.#ended) return;
    this.#failure = why;
    this.abandon();
    const wanted = this.#wanted;
    this.#wanted = null;
    wanted?.refuse(new Refused(why));
  }

  /** No more will be asked for. */
  abandon(): void {
    clearTimeout(this.#pause);
    this.#read.length = 0;
    this.#source.off('data', this.#onData).off('end', this.#onEnd);
    this.#request.off('data', this.#onRaw).off('close', this.#onClose);
    if (this.#gunzip === null || this.#gunzip.destroyed) return;
    this.#request.unpipe(this.#gunzip);
    this.#gunzip.destroy();
  }

  readonly #onData = (piece: Buffer): void => {
    this.#source.pause();
    this.#bytes += piece.length;
    if (this.#bytes > this.#rules.bytesMax) return this.fail(refusal('body_too_large'));
    const more = Math.min(piece.length, this.#rules.heldBytesMax - this.#held);
    const why = more > 0 ? this.#share.take(more) : null;
    if (why !== null) return this.fail(why);
    this.#held += more;
    this.#give(piece);
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.abandon();
    this.#give(null);
  };

  readonly #onRaw = (piece: Buffer): void => {
    this.#raw += piece.length;
    if (this.#raw > this.#rules.bytesMax) this.fail(refusal('body_too_large'));
  };

  /** A request whose connection is gone closes without an end. */
  readonly #onClose = (): void => {
    if (!this.#request.complete) this.fail(refusal('request_aborted'));
  };

  #give(piece: Buffer | null): void {
    const wanted = this.#wanted;
    this.#wanted = null;
    if (wanted !== null) wanted.give(piece);
    else if (piece !== null) this.#read.push(piece);
  }
}
