/**
 * What Node's HTTP parser calls for one connection, in part replaced: Node has no public way to stop it in the middle, or to bound the chunks of
 * a body. Takes the socket whose parser it is; the parser gets its own callbacks back when that ends. Touches nothing else.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../config/limits.ts';

/** The part of Node's HTTPParser that is needed here. */
interface Parser {
  readonly constructor: { readonly kOnHeadersComplete?: number; readonly kOnBody?: number };
  [callback: number]: unknown;
}

type ParserCallback = (this: Parser, ...given: unknown[]) => unknown;

/** What has arrived of one body in chunks. */
interface Chunks {
  number: number;
  bytes: number;
  /** null: the body has a length. */
  exceeded: (() => void) | null;
}

/** What the callback for headers returns for an upgrade. */
const otherProtocol = 2;

export class ParserCallbacks {
  readonly #socket: Socket;
  readonly #limits: Limits;
  #chunks: Chunks | null = null;
  /** What gives the parser its callbacks back, in the order in which they were replaced. */
  #replaced: (() => void)[] = [];

  constructor(socket: Socket, limits: Limits) {
    this.#socket = socket;
    this.#limits = limits;
  }

  /**
   * Reads no further request, not even from bytes that arrived in one piece with the last one: Node would make objects of all of
   * them, hundreds from 64 KiB. Node has no public way to stop its parser in the middle; here the parser is told that
   * another protocol follows, at which it stops.
   */
  stopParsing(): void {
    this.#callBack('kOnHeadersComplete', () => () => otherProtocol);
  }

  /**
   * Bounds how small the chunks of the following body may be: 64 KiB on a connection can hold ten thousand, each of which
   * costs a µs. `exceeded` is called once, and what follows is skipped: Node's parser does not call a callback
   * that is not set. null: the following body has a length.
   */
  boundChunks(exceeded: (() => void) | null): void {
    if (this.#chunks === null && exceeded === null) return;
    this.#chunks ??= this.#watchChunks();
    Object.assign(this.#chunks, { number: 0, bytes: 0, exceeded });
  }

  #watchChunks(): Chunks {
    const chunks: Chunks = { number: 0, bytes: 0, exceeded: null };
    const { bodyPiecesMax, bodyPieceBytes } = this.#limits;
    this.#callBack('kOnBody', (parser, before) => (...given) => {
      const [chunk] = given as [Buffer];
      chunks.number += 1;
      chunks.bytes += chunk.length;
      const { exceeded } = chunks;
      if (exceeded === null || chunks.number <= bodyPiecesMax + chunks.bytes / bodyPieceBytes)
        return before.apply(parser, given);
      this.#callBack('kOnBody', () => null);
      // A request that follows would be read without its body.
      this.stopParsing();
      return exceeded();
    });
    return chunks;
  }

  #callBack(
    event: 'kOnHeadersComplete' | 'kOnBody',
    make: (parser: Parser, before: ParserCallback) => ParserCallback | null,
  ): void {
    const { parser } = this.#socket as Socket & { parser?: Parser | null };
    const name = parser?.constructor[event];
    if (!parser || name === undefined) return;
    const before = parser[name];
    if (typeof before !== 'function') return;
    parser[name] = make(parser, before as ParserCallback);
    if (this.#replaced.length === 0) this.#socket.prependOnceListener('close', this.#whenClosed);
    this.#replaced.push(() => (parser[name] = before));
  }

  /**
   * Node reuses parsers for other connections. Must be called when Node has taken the parser from this one, whose protocol changes:
   * with what was replaced, bodies of other senders would be dropped.
   */
  release(): void {
    this.#socket.off('close', this.#whenClosed);
    for (const restore of this.#replaced.toReversed()) restore();
    this.#replaced = [];
    this.#chunks = null;
  }

  readonly #whenClosed = (): void => this.release();
}
