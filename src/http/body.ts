/**
 * Reads one request's body. Takes the request and its share of the bytes in flight; returns the bytes as
 * received; may refuse with `body_too_large`, `overloaded`, `sender_overloaded`, `request_timeout`,
 * `request_aborted` and whatever `fail` is told; touches no socket.
 */
import type { IncomingMessage } from 'node:http';
import { Gathered } from '../kit/gathered-bytes.ts';
import type { Refusal } from '../errors/refusals.ts';
import { refusal, Refused } from '../errors/refusals.ts';
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
