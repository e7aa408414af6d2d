/**
 * What one request or WebSocket holds of the bytes in flight (budget.ts). Takes how many more it wants to hold; returns whether it may. May refuse
 * with `sender_overloaded` and `overloaded`. Touches nothing but its holder, which it fails if others need the room.
 */
import { clientNetwork } from '../kit/address.ts';
import type { Refusal } from '../errors/refusals.ts';
import { ownFault, smallBytes } from './budget.ts';
import type { BytesInFlight, LooseBytes } from './budget.ts';

/** A request, or a WebSocket. */
interface Holder {
  /** Drops what is loose, and answers. */
  fail(why: Refusal): void;
}

/** What one request or WebSocket holds of the bytes in flight. */
export class Share implements LooseBytes {
  /** When it last grew, as a number of steps. */
  heard = 0;
  readonly #inFlight: BytesInFlight;
  readonly #address: string;
  readonly #holder: Holder;
  #held = 0;
  #loose = 0;
  /** While this is true, all of it is loose. */
  #growing = true;
  #evicted = false;

  constructor(inFlight: BytesInFlight, address: string, holder: Holder) {
    this.#inFlight = inFlight;
    this.#address = address;
    this.#holder = holder;
  }

  get network(): string {
    return clientNetwork(this.#address);
  }

  get looseBytes(): number {
    return this.#loose;
  }

  /** null: a body of so many bytes may come. Only bytes that have arrived are held, so announcing many reserves nothing. */
  refuses(bytes: number): Refusal | null {
    return this.#inFlight.refuses(bytes, this);
  }

  /** null: it holds so many more; otherwise why not. */
  take(bytes: number): Refusal | null {
    if (this.#evicted) return ownFault;
    const inFlight = this.#inFlight;
    const why = inFlight.fits(bytes) ? null : inFlight.makeRoom(bytes, this);
    if (why !== null) return why;
    const held = this.#held + bytes;
    this.#set(held, this.#growing ? held : 0);
    return null;
  }

  /** What it holds is complete and is being processed. */
  settle(): void {
    this.#growing = false;
    this.#set(this.#held, 0);
  }

  /** Sets what it holds to so many bytes, `loose` of them loose, whether they fit or not. */
  hold(bytes: number, loose: number): void {
    if (!this.#evicted) this.#set(bytes, loose);
  }

  release(): void {
    this.#growing = false;
    this.#set(0, 0);
  }

  evict(why: Refusal): void {
    this.release();
    this.#evicted = true;
    this.#holder.fail(why);
  }

  #set(held: number, loose: number): void {
    const inFlight = this.#inFlight;
    inFlight.add(held - this.#held);
    if (held > this.#held) this.heard = inFlight.step();
    this.#held = held;
    if (loose > smallBytes) inFlight.loosen(this);
    else if (this.#loose > smallBytes) inFlight.fasten(this);
    this.#loose = loose;
  }
}
