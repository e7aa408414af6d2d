/**
 * One client connection: which requests on it are not answered yet, and how it ends. Takes its socket, and its requests as they come; touches nothing but
 * that socket.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../config/limits.ts';
import type { Refusal } from '../errors/refusals.ts';
import { canonicalAddress } from '../kit/address.ts';
import type { PerTurn } from '../kit/event-loop.ts';
import { ParserCallbacks } from './parser-callbacks.ts';
import { endInTurns, linger } from './sockets.ts';

/** A request that a connection owes an answer, or did: an Exchange (exchange.ts). */
export interface OwedExchange {
  readonly answered: boolean;
  /** The last byte of the request was read. */
  readonly received: boolean;
  /** Calls back when the answer was written, at once if it already was. */
  whenWritten(done: () => void): void;
  /** Its answer was written, or never will be. */
  ended(): void;
  /** Ends a request that can no longer arrive completely. */
  fail(why: Refusal): void;
}

export class Connection {
  readonly socket: Socket;
  /** The address of its other end, in the one form of kit/address.ts. */
  readonly remoteAddress: string;
  /** The request that came last: the only one that can be incomplete, and the last to be answered. */
  last: OwedExchange | null = null;
  /** Requests whose answers are not written yet, in order. */
  readonly pending: OwedExchange[] = [];
  /** True once the last answer is decided: what arrives after that is not answered. */
  ending = false;
  /** It has become a WebSocket: no request comes on it any more. */
  upgraded = false;
  /** Why the next request does not become one, although it offered to. */
  passedOver: Refusal | null = null;
  /** Its bytes were no request, or came too slowly, or were not complete: what follows is not reported again. */
  broken = false;
  readonly #limits: Limits;
  #local: { readonly address: string; readonly port: number } | null = null;
  #parser: ParserCallbacks | null = null;

  constructor(socket: Socket, limits: Limits, endings: PerTurn) {
    this.socket = socket;
    const peer = socket.remoteAddress ?? '';
    this.remoteAddress = canonicalAddress(peer) ?? peer;
    this.#limits = limits;
    endInTurns(socket, endings);
  }

  /** The address of this end; Node asks the system for it. */
  get local(): { readonly address: string; readonly port: number } {
    this.#local ??= { address: this.socket.localAddress ?? '', port: this.socket.localPort ?? 0 };
    return this.#local;
  }

  /** The parser that Node has given to this connection. */
  get parser(): ParserCallbacks {
    return (this.#parser ??= new ParserCallbacks(this.socket, this.#limits));
  }

  /** Returns whether it was pending. */
  settle(request: OwedExchange): boolean {
    // Answers are written in the order of the requests.
    const place = this.pending.indexOf(request);
    if (place === 0) this.pending.shift();
    else if (place > 0) this.pending.splice(place, 1);
    return place >= 0;
  }

  /** Must be called before the last answer is written; Node then closes the socket by `destroySoon`. */
  endAfterAnswer(): void {
    this.ending = true;
    this.lingerOnClose();
  }

  /** However this socket is closed after an answer, its sender can read that answer. */
  lingerOnClose(): void {
    this.socket.destroySoon = () => linger(this.socket, this.#limits);
  }

  /** Ends a connection whose bytes are no request, with a message or without, after the answers that are still owed. */
  endWithMessage(message: (() => string) | null): void {
    if (this.ending) return;
    this.ending = true;
    const write = () => {
      if (!this.socket.writable) return;
      if (message !== null) this.socket.write(message(), 'latin1');
      linger(this.socket, this.#limits);
    };
    if (this.last === null) write();
    else this.last.whenWritten(write);
  }
}
