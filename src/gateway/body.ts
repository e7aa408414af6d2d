/**
 * A request's body, as it arrives. Takes the request, gives its bytes after decompression; refuses with
 * `encoding_unsupported`, `body_too_large` (before and after decompression), `request_timeout` (a pause, or too long
 * altogether), `malformed_query` (not gzip) and `request_aborted`. Reads the socket only as fast as it is asked, and
 * leaves it open: whoever refuses in the middle of a body still answers on it.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Gunzip } from 'node:zlib';
import { deferred } from '../kit/deferred.ts';
import { Gathered } from '../kit/gathered.ts';
import { limits } from '../tables/limits.ts';
import { Refused } from '../tables/refusals.ts';

export interface BodyOptions {
  readonly bytesMax: number;
  /** Longest pause between two pieces, in ms. */
  readonly pauseMs: number;
  /** From the first byte to the last, in ms. */
  readonly wholeMs: number;
}

export class Body {
  readonly #request: IncomingMessage;
  readonly #options: BodyOptions;
  readonly #gunzip: Gunzip | null;
  readonly #pieces: AsyncIterator<Buffer>;
  readonly #failed = deferred<never>();
  readonly #whole: NodeJS.Timeout;
  readonly #pause: NodeJS.Timeout;
  #raw = 0;
  #bytes = 0;
  #waiting = false;

  /** Throws Refused for a body that cannot be read. `close` it, whatever happens. */
  constructor(request: IncomingMessage, options: BodyOptions) {
    this.#request = request;
    this.#options = options;
    const gzip = isGzip(request);
    if (announced(request) > options.bytesMax) throw this.#tooLarge();
    this.#failed.promise.catch(() => {});
    this.#gunzip = gzip ? createGunzip() : null;
    const source: Readable = this.#gunzip ?? request;
    this.#pieces = source.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
    request.on('error', this.#onGone).on('close', this.#onClose);
    if (this.#gunzip !== null) {
      // Not pipeline(), which would end the socket with the decompressor.
      this.#gunzip.on('error', this.#onNotGzip);
      request.on('data', this.#onRaw).pipe(this.#gunzip);
    }
    const late = (): void => this.#failed.reject(new Refused('request_timeout'));
    this.#whole = setTimeout(late, options.wholeMs);
    // While what was read is being worked on, it is the sender who waits.
    this.#pause = setTimeout(() => this.#waiting && late(), options.pauseMs);
  }

  /** The next bytes, or null behind the last ones. */
  async next(): Promise<Buffer | null> {
    this.#pause.refresh();
    this.#waiting = true;
    const next = this.#pieces.next();
    next.catch(() => {});
    const { value, done } = await Promise.race([next, this.#failed.promise]).catch((error: unknown) => {
      throw error instanceof Refused ? error : this.#explain(error);
    });
    this.#waiting = false;
    if (done === true) {
      this.close();
      return null;
    }
    this.#bytes += value.length;
    if (this.#bytes > this.#options.bytesMax) throw this.#tooLarge();
    return value;
  }

  close(): void {
    clearTimeout(this.#whole);
    clearTimeout(this.#pause);
    this.#request.off('close', this.#onClose).off('data', this.#onRaw);
    if (this.#gunzip === null || this.#gunzip.destroyed) return;
    this.#request.unpipe(this.#gunzip);
    this.#gunzip.destroy();
  }

  readonly #onGone = (): void => this.#failed.reject(new Refused('request_aborted'));
  readonly #onClose = (): void => {
    if (!this.#request.complete) this.#onGone();
  };
  readonly #onRaw = (piece: Buffer): void => {
    this.#raw += piece.length;
    if (this.#raw > this.#options.bytesMax) this.#failed.reject(this.#tooLarge());
  };
  readonly #onNotGzip = (error: unknown): void => this.#failed.reject(this.#explain(error));

  #explain(error: unknown): Refused {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code.startsWith('Z_')) return new Refused('malformed_query', 'the body is not valid gzip');
    return new Refused('request_aborted');
  }

  #tooLarge(): Refused {
    return new Refused('body_too_large', `the body is larger than ${this.#options.bytesMax} bytes`);
  }
}

/** Whether the whole body is announced, as it is, and not larger than this. */
export function isSmall(request: IncomingMessage, bytesMax: number): boolean {
  const length = request.headers['content-length'];
  return length !== undefined && Number(length) <= bytesMax && !isGzip(request);
}

/**
 * A small body in one buffer, without a reader in between: most requests have one. Its sender may have left while the
 * request waited for something else: nothing comes of it any more, and nobody says so again.
 */
export function smallBody(request: IncomingMessage, pauseMs: number): Promise<Buffer> {
  if (request.destroyed) return Promise.reject(new Refused('request_aborted'));
  return new Promise((resolve, reject) => {
    const gathered = new Gathered();
    // What came in one piece with its headers is there already; only what is still on its way is waited for.
    const timer = request.complete ? null : setTimeout(() => fail('request_timeout'), pauseMs);
    const add = (piece: Buffer): void => gathered.add(piece);
    // The listener for errors stays: one that is on its way already would be nobody's, and end the process.
    const settle = (): void => {
      if (timer !== null) clearTimeout(timer);
      request.off('data', add).off('end', end).off('close', gone);
    };
    let settled = false;
    const fail = (code: 'request_timeout' | 'request_aborted'): void => {
      if (settled) return;
      settled = true;
      settle();
      gathered.drop();
      reject(new Refused(code));
    };
    const gone = (): void => fail('request_aborted');
    const end = (): void => {
      settled = true;
      settle();
      resolve(gathered.done());
    };
    request.on('data', add).on('end', end).on('error', gone).on('close', gone);
  });
}

/** All of it in one buffer; `hold` is asked for each piece whether it may be kept. */
export async function wholeBody(
  request: IncomingMessage,
  options: BodyOptions,
  hold: (bytes: number) => boolean,
): Promise<Buffer> {
  const body = new Body(request, options);
  const gathered = new Gathered();
  try {
    for (let piece = await body.next(); piece !== null; piece = await body.next()) {
      if (!hold(piece.length)) throw new Refused('overloaded');
      gathered.add(piece);
    }
  } catch (error) {
    gathered.drop();
    throw error;
  } finally {
    body.close();
  }
  return gathered.done();
}

/**
 * Reads away what a sender is still sending, within bounds, so that it gets to the answer: a socket that is closed with
 * unread bytes in it takes the answer along. Gives whether all of it has come.
 */
export function readAway(request: IncomingMessage): Promise<boolean> {
  if (request.complete || request.destroyed) return Promise.resolve(request.complete);
  return new Promise((resolve) => {
    let bytes = 0;
    const settle = (): void => {
      clearTimeout(timer);
      request.off('data', count).off('end', settle).off('close', settle);
      resolve(request.complete);
    };
    const count = (piece: Buffer): void => {
      bytes += piece.length;
      if (bytes > limits.lingerBytesMax) settle();
    };
    const timer = setTimeout(settle, limits.lingerMs);
    request.on('data', count).on('end', settle).on('close', settle);
    request.resume();
  });
}

function announced(request: IncomingMessage): number {
  return Number(request.headers['content-length'] ?? 0);
}

/** Throws Refused for an encoding that is not known here. */
function isGzip(request: IncomingMessage): boolean {
  const encoding = (request.headers['content-encoding'] ?? '').trim().toLowerCase();
  if (encoding === 'gzip' || encoding === 'x-gzip') return true;
  if (encoding === '' || encoding === 'identity') return false;
  throw new Refused('encoding_unsupported', 'the body may be sent as it is, or with Content-Encoding: gzip');
}
