/**
 * One client connection of a door that speaks HTTP: which request came last on it, and how it ends. Takes the
 * socket that Node accepted; may close it. A connection that ends writes the answers that it owes, sends FIN, and is read for
 * a moment longer: closing a socket that still has unread bytes makes the kernel send RST, and a sender that is still
 * writing then loses the answer.
 *
 * What Node's HTTP parser calls for a connection is in part replaced: Node has no public way to stop it in the middle, or to bound the chunks of
 * a body. The parser gets its own callbacks back when that ends.
 */
import type { Socket } from 'node:net';
import { canonicalAddress } from '../kit/address.ts';
import type { Limits } from '../config/limits.ts';
import type { Refusal } from '../errors/refusals.ts';

/** What a connection must know of a request on it. */
export interface LiveRequest {
  /** The last byte of the request was read. */
  readonly received: boolean;
  readonly answered: boolean;
  /** Ends a request that can no longer arrive completely. */
  fail(refusal: Refusal): void;
  /** Calls back when the answer was written, at once if it already was. */
  whenWritten(done: () => void): void;
  /** Its answer was written, or never will be. */
  ended(): void;
}

export class Connection {
  readonly socket: Socket;
  /** The address of its other end, in the one form of kit/address.ts. */
  readonly remoteAddress: string;
  /** The request that came last: the only one that can be incomplete, and the last to be answered. */
  last: LiveRequest | null = null;
  /** It has become a WebSocket: no request comes on it any more. */
  upgraded = false;
  /** Why the next request does not become one, although it offered to. */
  passedOver: Refusal | null = null;
  /** Its bytes were no request, or came too slowly, or were not complete: what follows is not reported again. */
  broken = false;
  #local: { readonly address: string; readonly port: number } | null = null;
  readonly #pending: LiveRequest[] = [];
  readonly #limits: Limits;
  #parser: ParserCallbacks | null = null;
  #ending = false;

  constructor(socket: Socket, limits: Limits, endings: PerTurn) {
    this.socket = socket;
    const peer = socket.remoteAddress ?? '';
    this.remoteAddress = canonicalAddress(peer) ?? peer;
    this.#limits = limits;
    // Node ends this side itself when the sender has ended its own; thousands may do so at the same instant.
    const end = socket.end.bind(socket) as (...given: Parameters<Socket['end']>) => Socket;
    socket.end = ((...given: Parameters<Socket['end']>) => {
      endings.run(() => void end(...given));
      return socket;
    }) as Socket['end'];
  }

  /** The address of this end; Node asks the system for it. */
  get local(): { readonly address: string; readonly port: number } {
    this.#local ??= { address: this.socket.localAddress ?? '', port: this.socket.localPort ?? 0 };
    return this.#local;
  }

  /** True once the last answer is decided: what arrives after that is not answered. */
  get ending(): boolean {
    return this.#ending;
  }

  get owed(): number {
    return this.#pending.length;
  }

  /** Requests whose answers are not written yet, in order. */
  get pending(): readonly LiveRequest[] {
    return this.#pending;
  }

  begin(request: LiveRequest): void {
    this.#pending.push(request);
  }

  /** Returns whether it was pending. */
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

  /** Of the parser that Node has given to this connection; made for the few connections that need them. */
  get #callbacks(): ParserCallbacks {
    return (this.#parser ??= new ParserCallbacks(this.socket, this.#limits));
  }

  /** As of ParserCallbacks. */
  stopParsing(): void {
    this.#callbacks.stopParsing();
  }

  /** As of ParserCallbacks. */
  boundChunks(exceeded: (() => void) | null): void {
    if (this.#parser !== null || exceeded !== null) this.#callbacks.boundChunks(exceeded);
  }

  /** As of ParserCallbacks. */
  releaseParser(): void {
    this.#parser?.release();
  }

  takePassedOver(): Refusal | null {
    const why = this.passedOver;
    this.passedOver = null;
    return why;
  }

  /** Must be called before the last answer is written; Node then closes the socket by `destroySoon`. */
  endAfterAnswer(): void {
    this.#ending = true;
    this.lingerOnClose();
  }

  /** However this socket is closed after an answer, its sender can read that answer. */
  lingerOnClose(): void {
    this.socket.destroySoon = () => this.#linger();
  }

  /** Ends a connection whose bytes are no request, with a message or without, after the answers that are still owed. */
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

/**
 * Runs short work, a bounded number of pieces per turn of the event loop: thousands that arrive at the same instant would
 * otherwise block everything else until all are done. Takes functions; runs each exactly once, in order, and at
 * once if few have come in this turn. The callers bound what waits.
 */
export class PerTurn {
  readonly #max: number;
  readonly #endOfTurn: (run: () => void) => void;
  #inThisTurn = 0;
  #waiting: (() => void)[] = [];
  #head = 0;

  /** `endOfTurn` runs its argument when the current turn of the event loop has handled its sockets (setImmediate). */
  constructor(max: number, endOfTurn: (run: () => void) => void) {
    this.#max = max;
    this.#endOfTurn = endOfTurn;
  }

  run(work: () => void): void {
    if (this.#inThisTurn >= this.#max || this.#head < this.#waiting.length) {
      this.#waiting.push(work);
      return;
    }
    this.#count();
    work();
  }

  #count(): void {
    if (this.#inThisTurn === 0) this.#endOfTurn(() => this.#turn());
    this.#inThisTurn += 1;
  }

  #turn(): void {
    this.#inThisTurn = 0;
    // Work that these add comes after the work that already waits.
    const until = Math.min(this.#waiting.length, this.#head + this.#max);
    while (this.#head < until) {
      const work = this.#waiting[this.#head];
      this.#head += 1;
      this.#count();
      work?.();
    }
    // A copy moves at most as many entries as were run since the last one.
    if (this.#head * 2 < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }
}

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

class ParserCallbacks {
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
