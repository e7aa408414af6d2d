/**
 * The bytes that are held on behalf of requests and WebSockets, all together within one bound. Takes what each wants to
 * hold; says whether it may. Asking beyond the bound is refused, never queued. Touches nothing but its holders.
 *
 * Of what is held, that is *loose* which is not whole yet, or was not looked at: it costs a sender nothing to leave it
 * there. When the bound is reached, loose bytes make room for others: those of the network (an address, of IPv6 a /64)
 * that has most of them, and of its holders the one that has been silent for longest. Whoever asks for more than any
 * other network has is refused himself. What is being checked, decoded and committed comes to its end and makes no room.
 */
import { clientNetwork } from '../kit/address.ts';
import type { Refusal } from '../tables/refusals.ts';
import { refusal } from '../tables/refusals.ts';

/**
 * Holders of less are not looked for: nearly all requests. So many connections as there may be hold less in this way
 * than there is.
 */
const smallBytes = 8 * 1024;

const ownFault = refusal('sender_overloaded');
const nobodysFault = refusal('overloaded');

export class BytesInFlight {
  readonly max: number;
  #held = 0;
  #steps = 0;
  readonly #loose = new Set<Share>();

  constructor(max: number) {
    this.max = max;
  }

  get held(): number {
    return this.#held;
  }

  get exhausted(): boolean {
    return this.#held >= this.max;
  }

  fits(bytes: number): boolean {
    return this.#held + bytes <= this.max;
  }

  /** Counts what is held, or no longer; beyond the bound too, where the holder sees to it that no more comes. */
  add(bytes: number): void {
    this.#held += bytes;
  }

  step(): number {
    return ++this.#steps;
  }

  loosen(share: Share): void {
    this.#loose.add(share);
  }

  fasten(share: Share): void {
    this.#loose.delete(share);
  }

  /** null: so many more fit, now that others may have made room; otherwise why not. */
  makeRoom(bytes: number, asker: Share): Refusal | null {
    while (!this.fits(bytes)) {
      const first = this.#first(asker, bytes);
      if (first === null) return this.#whose(asker.network);
      first.evict(ownFault);
    }
    return null;
  }

  /** Whether so many may be begun: they would fit, or others would make room for them as they come. */
  refuses(bytes: number, asker: Share): Refusal | null {
    if (this.fits(bytes)) return null;
    const sums = this.#byNetwork();
    const own = (sums.get(asker.network) ?? 0) + bytes;
    let others = 0;
    for (const [network, sum] of sums) if (network !== asker.network && sum > own) others += sum;
    return this.fits(bytes - others) ? null : this.#whose(asker.network);
  }

  /** Makes those that hold most loosely give way until loose bytes are half of all that may be held. */
  relieve(): void {
    const sums = this.#byNetwork();
    let loose = 0;
    for (const sum of sums.values()) loose += sum;
    while (loose > this.max / 2) {
      const first = this.#silentLongest(fullest(sums) ?? '');
      if (first === null) return;
      loose -= first.looseBytes;
      sums.set(first.network, (sums.get(first.network) ?? 0) - first.looseBytes);
      first.evict(ownFault);
    }
  }

  /** Who gives way to the asker; null: nobody does. */
  #first(asker: Share, bytes: number): Share | null {
    const sums = this.#byNetwork();
    const wanted = asker.looseBytes + bytes;
    // Counted in any case, so that it is compared with the others.
    const own = (sums.get(asker.network) ?? 0) + bytes;
    sums.set(asker.network, own);
    const network = fullest(sums);
    if (network === null) return null;
    // Large ones of one network would make each other give way without end; a small one finds its place beside them.
    if (network === asker.network && wanted > smallBytes) return null;
    const first = this.#silentLongest(network);
    return first === asker ? null : first;
  }

  #byNetwork(): Map<string, number> {
    const sums = new Map<string, number>();
    for (const share of this.#loose)
      sums.set(share.network, (sums.get(share.network) ?? 0) + share.looseBytes);
    return sums;
  }

  #silentLongest(network: string): Share | null {
    let first: Share | null = null;
    for (const share of this.#loose)
      if (share.network === network && (first === null || share.heard < first.heard)) first = share;
    return first;
  }

  #whose(network: string): Refusal {
    return (this.#byNetwork().get(network) ?? 0) > this.max / 2 ? ownFault : nobodysFault;
  }
}

function fullest(sums: ReadonlyMap<string, number>): string | null {
  let [network, most]: [string | null, number] = [null, 0];
  for (const [its, sum] of sums) if (sum > most) [network, most] = [its, sum];
  return network;
}

/** A request, or a WebSocket. */
interface Holder {
  /** Drops what is loose, and answers. */
  fail(why: Refusal): void;
}

/** What one request or WebSocket holds of the bytes in flight. */
export class Share {
  /** When it grew last, as a number of steps. */
  heard = 0;
  readonly #inFlight: BytesInFlight;
  readonly #address: string;
  readonly #holder: Holder;
  #held = 0;
  #loose = 0;
  /** All of it is loose as long as this is true. */
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

  /** null: a body of so many bytes may come. Only what has come is held, so that announcing much takes nothing. */
  refuses(bytes: number): Refusal | null {
    return this.#inFlight.refuses(bytes, this);
  }

  /** null: it holds so many more; otherwise why it may not. */
  take(bytes: number): Refusal | null {
    if (this.#evicted) return ownFault;
    const inFlight = this.#inFlight;
    const why = inFlight.fits(bytes) ? null : inFlight.makeRoom(bytes, this);
    if (why !== null) return why;
    const held = this.#held + bytes;
    this.#set(held, this.#growing ? held : 0);
    return null;
  }

  /** What it holds is whole and is being worked on. */
  settle(): void {
    this.#growing = false;
    this.#set(this.#held, 0);
  }

  /** Makes it this many bytes, `loose` of them loosely, however many there were and are in flight. */
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
