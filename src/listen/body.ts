/**
 * Reading one request's body. Takes the request and the count of body bytes in flight, gives the bytes as
 * they came; may refuse with `body_too_large`, `overloaded` and whatever `fail` is told; touches no socket.
 */
import type { IncomingMessage } from 'node:http';
import { Gathered } from '../kit/gathered.ts';
import type { Refusal } from '../refusals.ts';
import { refusal, Refused } from '../refusals.ts';

/** Counts bytes held on behalf of requests. Asking beyond the bound is refused, never queued. */
export class BytesInFlight {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get held(): number {
    return this.#held;
  }

  fits(bytes: number): boolean {
    return this.#held + bytes <= this.#max;
  }

  take(bytes: number): boolean {
    if (!this.fits(bytes)) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }

  /** Counts what is held already, beyond the bound too: its holder sees to it that no more comes. */
  force(bytes: number): void {
    this.#held += bytes;
  }

  get exhausted(): boolean {
    return this.#held >= this.#max;
  }
}

/** What one request holds of the bytes in flight; given back once. */
export class Share {
  readonly #inFlight: BytesInFlight;
  #held = 0;

  constructor(inFlight: BytesInFlight) {
    this.#inFlight = inFlight;
  }

  fits(bytes: number): boolean {
    return this.#inFlight.fits(bytes);
  }

  take(bytes: number): boolean {
    if (!this.#inFlight.take(bytes)) return false;
    this.#held += bytes;
    return true;
  }

  /** Makes it this many bytes, however many there were and are in flight. */
  hold(bytes: number): void {
    this.#inFlight.force(bytes - this.#held);
    this.#held = bytes;
  }

  release(): void {
    this.#inFlight.give(this.#held);
    this.#held = 0;
  }
}

export class BodyReader {
  readonly promise: Promise<Buffer>;
  #resolve!: (body: Buffer) => void;
  #reject!: (refused: Refused) => void;
  readonly #share: Share;
  readonly #bytesMax: number;
  readonly #turn: (bytes: number) => Promise<void> | null;
  readonly #gathered = new Gathered();
  #settled = false;

  /**
   * Starts reading at once. `bytesMax` counts what really arrives: a chunked body announces no size. `turn` is what a body
   * that has come waits for, still in pieces; null: nothing.
   */
  constructor(
    request: IncomingMessage,
    share: Share,
    bytesMax: number,
    turn: (bytes: number) => Promise<void> | null,
  ) {
    this.#share = share;
    this.#bytesMax = bytesMax;
    this.#turn = turn;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // After a refusal the rest keeps being read and dropped, until the answer closes the connection.
    // Node hands over a copy of its own for each piece (node_http_parser.cc, on_body): it is ours to keep.
    request.on('data', (chunk: Buffer) => this.#receive(chunk));
    request.on('end', () => this.#finish());
  }

  fail(refusal: Refusal): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#gathered.drop();
    this.#reject(new Refused(refusal.code, refusal.message));
  }

  /** Drops what was read: the request is answered, and its body, if it is not whole yet, will never be asked for. */
  abandon(): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#gathered.drop();
  }

  #receive(chunk: Buffer): void {
    if (this.#settled) return;
    if (this.#gathered.length + chunk.length > this.#bytesMax) return this.fail(refusal('body_too_large'));
    if (!this.#share.take(chunk.length)) return this.fail(refusal('overloaded'));
    this.#gathered.add(chunk);
  }

  #finish(): void {
    if (this.#settled) return;
    this.#settled = true;
    const turn = this.#turn(this.#gathered.length);
    if (turn === null) return this.#resolve(this.#gathered.done());
    // Those that wait are not put together yet: what their pieces were made of is used again by the next ones.
    void turn.then(() => this.#resolve(this.#gathered.done()));
  }
}
