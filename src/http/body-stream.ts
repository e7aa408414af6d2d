/**
 * The body of one request, piece by piece: for one that is too large to be held. Takes the request that Node's parser reads, and its share of the bytes in
 * flight; returns its bytes after decompression, and reads the socket only as fast as its caller asks. The socket is left open, so that a refusal in the
 * middle of a body can be answered on it. May refuse with `body_too_large` (before and after decompression), `malformed_encoding`, `overloaded`,
 * `sender_overloaded`, `request_timeout` (a pause), `request_aborted` and whatever `fail` is told; touches no socket.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Gunzip } from 'node:zlib';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Share } from './share.ts';

/** What reads a body, or drops it. */
export interface BodyReading {
  /** The rest of the body will not arrive. */
  fail(why: Refusal): void;
  /** The request is answered. */
  abandon(): void;
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

export class BodyPieces implements BodyReading {
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
