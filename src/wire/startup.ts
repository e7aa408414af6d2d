/**
 * One client of the SQL door until it is authenticated, and how it ends when that takes too long, when others need its
 * place, or when the door closes. Takes its socket; touches that alone.
 */
import type { Socket } from 'node:net';
import { canonicalAddress, clientNetwork } from '../kit/address.ts';
import { type FatalReason, writeFatal } from './messages.ts';
import type { Newcomer } from './newcomers.ts';

const tooLate: FatalReason = { sqlstate: '57014', message: 'canceling authentication due to timeout' };
const crowded: FatalReason = {
  sqlstate: '53300',
  message: 'too many connections wait to be authenticated, and this one has been silent for longest',
  hint: 'Connect again, and log in without a pause.',
};

export class Startup implements Newcomer {
  readonly network: string;
  /** Whatever is being done for it is no longer wanted. */
  readonly signal: AbortSignal;
  /** It has said what it wants, and that is being done. */
  served = false;
  readonly #socket: Socket;
  readonly #ended = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #left: () => void;
  /** Who can be told something; null: a message would be read as a part of TLS. */
  #voice: Socket | null;
  #ending = (why: FatalReason | null): void => this.#hangUp(why);

  /** `left`: it is authenticated, or ends. */
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

  /** From now on it ends by this, and not by the end of its socket. */
  endsBy(ending: (why: FatalReason | null) => void): void {
    this.#ending = ending;
  }

  /** It is authenticated, or gone: nothing ends it from here. */
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
