/**
 * One client connection of a door that speaks HTTP: which request came last on it, and how it ends. Takes the
 * socket that Node accepted; may close it. A connection that ends writes the answers that it owes, sends FIN, and is read for
 * a moment longer: closing a socket that still has unread bytes makes the kernel send RST, and a sender that is still
 * writing then loses the answer.
 */
import type { Socket } from 'node:net';
import { canonicalAddress } from '../kit/address.ts';
import type { Limits } from '../config/limits.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { PerTurn } from '../kit/event-loop.ts';
import { ParserCallbacks } from './parser-callbacks.ts';

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

  /** The parser that Node has given to this connection. */
  get parser(): ParserCallbacks {
    return (this.#parser ??= new ParserCallbacks(this.socket, this.#limits));
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
