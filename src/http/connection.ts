/**
 * One client connection of a door that speaks HTTP: which request came last on it, and how it ends. Takes the
 * socket Node accepted; may close it. An ending connection answers what it owes, sends FIN, and is read for
 * a moment longer: closing a socket that still has unread bytes makes the kernel send RST, which takes the
 * answer away from a sender that is still writing.
 */
import type { Socket } from 'node:net';
import { canonicalAddress } from '../kit/address.ts';
import type { PerTurn } from '../kit/per-turn.ts';
import type { Limits } from '../tables/limits.ts';
import type { Refusal } from '../tables/refusals.ts';

/** What a connection must know of a request on it. */
export interface LiveRequest {
  /** The last byte of the request was read. */
  readonly received: boolean;
  readonly answered: boolean;
  /** Ends a request that cannot arrive completely any more. */
  fail(refusal: Refusal): void;
  /** Calls back when the answer was written, at once if it already was. */
  whenWritten(done: () => void): void;
  /** Its answer was written, or never will be. */
  ended(): void;
}

/** Node's HTTPParser, as far as it is needed here. */
interface Parser {
  readonly constructor: { readonly kOnHeadersComplete?: number; readonly kOnBody?: number };
  readonly socket?: Socket | null;
  [callback: number]: unknown;
}

type ParserCallback = (this: Parser, ...given: unknown[]) => unknown;

/** What has come of one body in chunks. */
interface Chunks {
  number: number;
  bytes: number;
  /** null: it has a length. */
  exceeded: (() => void) | null;
}

/** What the callback for headers returns for an upgrade. */
const otherProtocol = 2;

export class Connection {
  readonly socket: Socket;
  /** Of its other end, in the one form of kit/address.ts. */
  readonly remoteAddress: string;
  /** The request that came last: the only one that can be incomplete, and the last to be answered. */
  last: LiveRequest | null = null;
  /** It has become a WebSocket: no request comes on it any more. */
  upgraded = false;
  /** Why the request that comes next does not become one, although it offered to. */
  passedOver: Refusal | null = null;
  /** What came on it was no request, or came too slowly, or not to its end: what follows is not told again. */
  broken = false;
  #local: { readonly address: string; readonly port: number } | null = null;
  readonly #pending: LiveRequest[] = [];
  #limits: Limits;
  #ending = false;
  #chunks: Chunks | null = null;

  constructor(socket: Socket, limits: Limits, endings: PerTurn) {
    this.socket = socket;
    const peer = socket.remoteAddress ?? '';
    this.remoteAddress = canonicalAddress(peer) ?? peer;
    this.#limits = limits;
    // Node ends our half by itself when the sender has ended its own; thousands may do so in one instant.
    const end = socket.end.bind(socket) as (...given: Parameters<Socket['end']>) => Socket;
    socket.end = ((...given: Parameters<Socket['end']>) => {
      endings.run(() => void end(...given));
      return socket;
    }) as Socket['end'];
  }

  /** Its own end; Node asks the system for it. */
  get local(): { readonly address: string; readonly port: number } {
    this.#local ??= { address: this.socket.localAddress ?? '', port: this.socket.localPort ?? 0 };
    return this.#local;
  }

  /** True once the last answer is decided on: what arrives afterwards is not answered any more. */
  get ending(): boolean {
    return this.#ending;
  }

  get owed(): number {
    return this.#pending.length;
  }

  /** Those whose answers are not written yet, in order. */
  get pending(): readonly LiveRequest[] {
    return this.#pending;
  }

  begin(request: LiveRequest): void {
    this.#pending.push(request);
  }

  /** Whether it was pending. */
  end(request: LiveRequest): boolean {
    // Answers are written in the order of the requests.
    const place = this.#pending.indexOf(request);
    if (place === 0) this.#pending.shift();
    else if (place > 0) this.#pending.splice(place, 1);
    return place >= 0;
  }

  get idle(): boolean {
    return this.last === null || this.last.answered;
  }

  /**
   * Reads no request any more, not even of what has come in one piece with the last one: Node would make objects of all of
   * them, hundreds of a piece of 64 KiB. It has no public way to end its parser in the middle; here the parser is told that
   * another protocol follows, which it does not read on into.
   */
  stopParsing(): void {
    this.#callBack('kOnHeadersComplete', () => () => otherProtocol);
  }

  /**
   * Bounds how small the chunks of the body are that follows: 64 KiB of a connection can have ten thousand, each of which
   * costs what a request does. `exceeded` is called once, and what comes after is read past: Node's parser calls nobody
   * where there is nobody to call. null: the body that follows has a length.
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
      // Node has taken the parser from this connection, which has become something else, and given it to another one.
      if (parser.socket !== this.socket) return before.apply(parser, given);
      chunks.number += 1;
      chunks.bytes += chunk.length;
      const { exceeded } = chunks;
      if (exceeded === null || chunks.number <= bodyPiecesMax + chunks.bytes / bodyPieceBytes)
        return before.apply(parser, given);
      this.#callBack('kOnBody', () => null);
      return exceeded();
    });
    return chunks;
  }

  #callBack(
    event: 'kOnHeadersComplete' | 'kOnBody',
    make: (parser: Parser, before: ParserCallback) => ParserCallback | null,
  ): void {
    const { parser } = this.socket as Socket & { parser?: Parser | null };
    const name = parser?.constructor[event];
    if (!parser || name === undefined) return;
    const before = parser[name];
    if (typeof before !== 'function') return;
    parser[name] = make(parser, before as ParserCallback);
    // Parsers are used again for other connections.
    this.socket.prependOnceListener('close', () => (parser[name] = before));
  }

  takePassedOver(): Refusal | null {
    const why = this.passedOver;
    this.passedOver = null;
    return why;
  }

  /** To be called before the last answer is written; Node then closes the socket by `destroySoon`. */
  endAfterAnswer(): void {
    this.#ending = true;
    this.lingerOnClose();
  }

  /** However this socket comes to be closed after an answer, its sender gets to read that answer. */
  lingerOnClose(): void {
    this.socket.destroySoon = () => this.#linger();
  }

  /** Ends a connection whose bytes are no request, with a message of its own or without, after the answers still owed. */
  endWithMessage(message: (() => string) | null): void {
    if (this.#ending) return;
    this.#ending = true;
    const write = () => {
      if (!this.socket.writable) return;
      if (message !== null) this.socket.write(message(), 'latin1');
      this.#linger();
    };
    if (this.last === null) write();
    else this.last.whenWritten(write);
  }

  #linger(): void {
    const { socket } = this;
    if (socket.destroyed) return;
    socket.end();
    const bytesMax = socket.bytesRead + this.#limits.lingerBytesMax;
    const stepMs = Math.max(10, Math.ceil(this.#limits.lingerMs / 10));
    let leftMs = this.#limits.lingerMs;
    const timer = setInterval(() => {
      leftMs -= stepMs;
      if (leftMs <= 0 || socket.bytesRead > bytesMax) socket.destroy();
    }, stepMs);
    socket.once('close', () => clearInterval(timer));
  }
}
