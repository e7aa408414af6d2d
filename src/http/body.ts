/**
 * Reading one request's body. Takes the request and its share of the bytes in flight, gives the bytes as
 * they came; may refuse with `body_too_large`, `overloaded`, `sender_overloaded`, `request_timeout`,
 * `request_aborted` and whatever `fail` is told; touches no socket.
 */
import type { IncomingMessage } from 'node:http';
import { Gathered } from '../kit/gathered.ts';
import type { Refusal } from '../tables/refusals.ts';
import { refusal, Refused } from '../tables/refusals.ts';
import type { Share } from './budget.ts';

/** What a door asks of a body. */
export interface BodyRules {
  /** What really arrives, and what comes of it when it is taken apart, in bytes: a chunked body announces no size. */
  readonly bytesMax: number;
  /** Without a length, and not in chunks, it is refused; otherwise it is empty. */
  readonly needsLength: boolean;
  /** Longest pause between two pieces, in ms; null: the bound of the whole request is enough. */
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

  /** Starts reading at once. `turn` is what a body that has come waits for, still in pieces; null: nothing. */
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
    // What came in one piece with its headers is there already; only what is still on its way is waited for.
    this.#pause =
      pauseMs === null || request.complete
        ? null
        : setTimeout(() => this.fail(refusal('request_timeout')), pauseMs);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // After a refusal the rest keeps being read and dropped, until the answer closes the connection.
    // Node hands over a copy of its own for each piece (node_http_parser.cc, on_body): it is ours to keep.
    request.on('data', (chunk: Buffer) => this.#receive(chunk));
    request.on('end', () => this.#finish());
    // A request whose connection is gone ends without an end, also when all of it had come and was not read yet. One that has
    // ended closes, too, perhaps while it waits for its turn.
    const gone = (): void => (this.#whole ? undefined : this.fail(refusal('request_aborted')));
    if (request.destroyed) gone();
    else request.on('close', gone);
  }

  fail(refusal: Refusal): void {
    if (!this.#settle()) return;
    this.#gathered.drop();
    this.#reject(new Refused(refusal));
  }

  /** Drops what was read: the request is answered, and its body, if it is not whole yet, will never be asked for. */
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
    // Those that wait are not put together yet, unless they are large: what their pieces were made of is used again by the next ones.
    void turn.then(() => this.#give());
  }

  #give(): void {
    if (!this.#settle()) return;
    this.#share.settle();
    this.#resolve(this.#gathered.done());
  }

  /** false: it was already. */
  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    if (this.#pause !== null) clearTimeout(this.#pause);
    return true;
  }
}
