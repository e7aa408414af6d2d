/**
 * Decompresses bodies with a Content-Encoding. Takes compressed bytes; returns their content, never more than a body may
 * have; may refuse with `encoding_unsupported`, `malformed_encoding`, `body_too_large`, `overloaded`. Small bodies are done
 * at once; larger ones in zlib's threads, which others need, too: a few at one time, the others queue. Output is counted as it
 * is produced, and a body that exceeds its bound is given up there.
 */
import * as zlib from 'node:zlib';
import { freeBuffer } from '../kit/free-buffer.ts';
import { Gathered } from '../kit/gathered-bytes.ts';
import { Semaphore } from '../kit/semaphore.ts';
import type { Limits } from '../config/limits.ts';
import type { Refusal, RefusalCode } from '../errors/refusals.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Share } from './share.ts';

/** As node:zlib names them. */
export type Coding = 'gzip' | 'deflate' | 'br';

/** Bodies up to this size are tried at once … */
const smallBytesMax = 64 * 1024;
/** … and up to this size of their output: less than a millisecond. */
const smallOutputBytesMax = 256 * 1024;
/** Size of the pieces in which the output of larger ones is produced. */
const pieceBytes = 128 * 1024;

/** null: no coding. */
const named = new Map<string, Coding | null>([
  ['gzip', 'gzip'],
  // RFC 9110 §8.4.1.3
  ['x-gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['br', 'br'],
  ['identity', null],
  // The charset, in the wrong header: some senders' clients were told so.
  ['utf-8', null],
  ['utf8', null],
  ['', null],
]);

const none: readonly Coding[] = [];

/** The codings of a Content-Encoding in the order they were applied; a refusal if one of them is not known. */
export function parseCodings(header: string | undefined, codingsMax: number): readonly Coding[] | Refusal {
  if (header === undefined) return none;
  const codings: Coding[] = [];
  for (const part of header.split(',')) {
    const coding = named.get(part.trim().toLowerCase());
    if (coding === undefined) return refusal('encoding_unsupported');
    if (coding !== null) codings.push(coding);
  }
  if (codings.length > codingsMax) return refusal('encoding_unsupported', 'too many content encodings');
  return codings;
}

/** The turns of all bodies of one listener that are not small. */
export class Inflations {
  readonly #waitingMax: number;
  readonly #slots: Semaphore;

  constructor({ inflationsMax, inflationsWaitingMax }: Limits) {
    this.#waitingMax = inflationsWaitingMax;
    this.#slots = new Semaphore(inflationsMax);
  }

  start(body: Buffer, codings: readonly Coding[], share: Share, bytesMax: number): Inflation {
    return new Inflation(this, body, codings, share, bytesMax);
  }

  /** Resolves when its turn comes, with what ends the turn. Throws `overloaded`. */
  turn(): Promise<() => void> {
    if (this.#slots.waiting >= this.#waitingMax) throw new Refused('overloaded');
    return this.#slots.turn();
  }
}

/** One body. */
export class Inflation {
  /** Rejects with Refused. */
  readonly promise: Promise<Buffer>;
  readonly #turns: Inflations;
  readonly #share: Share;
  readonly #bytesMax: number;
  #abandoned = false;
  #stop: () => void = () => undefined;

  constructor(turns: Inflations, body: Buffer, codings: readonly Coding[], share: Share, bytesMax: number) {
    this.#turns = turns;
    this.#share = share;
    this.#bytesMax = bytesMax;
    this.promise = this.#run(body, codings.toReversed());
  }

  /** Its request is answered: nothing more is counted. */
  abandon(): void {
    this.#abandoned = true;
    this.#stop();
  }

  async #run(body: Buffer, codings: readonly Coding[]): Promise<Buffer> {
    let bytes = body;
    for (const coding of codings) {
      const packed = bytes;
      bytes = this.#small(packed, coding) ?? (await this.#large(packed, coding));
      freeBuffer(packed);
    }
    return bytes;
  }

  /** null: it is not small. */
  #small(body: Buffer, coding: Coding): Buffer | null {
    if (body.length > smallBytesMax) return null;
    const outputBytesMax = Math.min(smallOutputBytesMax, this.#bytesMax);
    try {
      const output = unpack(body, coding, outputBytesMax);
      this.#take(output.length);
      return output;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return null;
      throw error instanceof Refused ? error : new Refused('malformed_encoding');
    }
  }

  async #large(body: Buffer, coding: Coding): Promise<Buffer> {
    const done = await this.#turns.turn();
    try {
      return await this.#stream(body, coding);
    } finally {
      done();
    }
  }

  #stream(body: Buffer, coding: Coding): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const stream = unpacker(body, coding);
      const gathered = new Gathered();
      const fail = (code: RefusalCode) => {
        gathered.drop();
        stream.destroy();
        reject(new Refused(code));
      };
      this.#stop = () => fail('overloaded');
      if (this.#abandoned) return fail('overloaded');
      stream.on('data', (piece: Buffer) => {
        if (stream.destroyed) return;
        if (gathered.length + piece.length > this.#bytesMax) return fail('body_too_large');
        const why = this.#share.take(piece.length);
        if (why !== null) return fail(why.code);
        gathered.add(piece);
      });
      stream.on('error', () => fail('malformed_encoding'));
      stream.on('end', () => {
        if (stream.bytesWritten < body.length) fail('malformed_encoding');
        else resolve(gathered.done());
      });
      stream.end(body);
    });
  }

  #take(bytes: number): void {
    if (bytes > this.#bytesMax) throw new Refused('body_too_large');
    const why = this.#abandoned ? null : this.#share.take(bytes);
    if (why !== null) throw new Refused(why.code);
  }
}

/** Decompresses all of it at once; throws what zlib throws, and if bytes follow the end of the compressed data. */
function unpack(body: Buffer, coding: Coding, maxOutputLength: number): Buffer {
  const options = { maxOutputLength, info: true };
  const all = {
    gzip: zlib.gunzipSync,
    deflate: isZlib(body) ? zlib.inflateSync : zlib.inflateRawSync,
    br: zlib.brotliDecompressSync,
  }[coding];
  // With `info` the result includes the engine (Node's documentation; its types do not say so).
  const { buffer, engine } = all(body, options) as unknown as {
    buffer: Buffer;
    engine: { bytesWritten: number };
  };
  if (engine.bytesWritten < body.length) throw new Refused('malformed_encoding');
  return buffer;
}

function unpacker(body: Buffer, coding: Coding): zlib.Gunzip | zlib.Inflate | zlib.BrotliDecompress {
  const options = { chunkSize: pieceBytes };
  if (coding === 'gzip') return zlib.createGunzip(options);
  if (coding === 'br') return zlib.createBrotliDecompress(options);
  return isZlib(body) ? zlib.createInflate(options) : zlib.createInflateRaw(options);
}

/**
 * `deflate` means the zlib format (RFC 9110 §8.4.1.2), but some send a bare deflate stream. A zlib header is a multiple of
 * 31 that names the method 8; a deflate stream that begins like one would be a stored block with padding that is not zero.
 */
function isZlib(body: Buffer): boolean {
  const [method = 0, flags = 0] = body;
  return (method & 15) === 8 && ((method << 8) | flags) % 31 === 0;
}
