/**
 * One client of the SQL door until it is authenticated, and how it ends if that takes too long, if others need its
 * place, or if the door closes. Takes its socket, and touches nothing else.
 */
import type { Socket } from 'node:net';
import { canonicalAddress, clientNetwork } from '../kit/address.ts';
import { type FatalReason, writeFatal } from './messages.ts';
import type { Newcomer } from './unauthenticated-clients.ts';

const tooLate: FatalReason = { sqlstate: '57014', message: 'canceling authentication due to timeout' };
const crowded: FatalReason = {
  sqlstate: '53300',
  message: 'too many connections wait to be authenticated, and this one has been silent for longest',
  hint: 'Connect again, and log in without a pause.',
};

export class Startup implements Newcomer {
  readonly network: string;
  /** Aborted when whatever is being done for the client is no longer wanted. */
  readonly signal: AbortSignal;
  /** The client has said what it wants, and that is being done. */
  served = false;
  readonly #socket: Socket;
  readonly #ended = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #left: () => void;
  /** The socket over which it can be sent a message; null: none, a message would be read as part of TLS. */
  #voice: Socket | null;
  #ending = (why: FatalReason | null): void => this.#hangUp(why);

  /** `left`: called when it is authenticated, or ends. */
  constructor(socket: Socket, timeoutMs: number, left: (startup: Startup) => void) {
    this.#socket = socket;
    this.#voice = socket;
    this.signal = this.#ended.signal;
    const address = socket.remoteAddress ?? '';
    this.network = clientNetwork(canonicalAddress(address) ?? address);
    this.#left = () => left(this);
    this.#timer = setTimeout(() => this.end(this.served ? tooLate : null), timeoutMs);
  }

  speaksBy(voice: Socket | null): void {
    this.#voice = voice;
  }

  /** From now on it ends by this function, and not by the end of its socket. */
  endsBy(ending: (why: FatalReason | null) => void): void {
    this.#ending = ending;
  }

  /** It is authenticated, or has left: it can no longer be ended from here. */
  leave(): void {
    clearTimeout(this.#timer);
    this.#left();
  }

  end(why: FatalReason | null): void {
    if (this.signal.aborted) return;
    this.leave();
    this.#ended.abort();
    this.#ending(why);
  }

  makeWay(): void {
    this.end(crowded);
  }

  /** Not waited for: what fits into the kernel's buffer is sent, and nothing is kept for a client that does not read. */
  #hangUp(why: FatalReason | null): void {
    if (why !== null && this.#voice?.writable === true) this.#voice.write(writeFatal(why));
    if (this.#voice === null) this.#socket.destroy();
    else this.#voice.destroySoon();
  }
}
