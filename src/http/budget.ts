/**
 * Bounds the bytes that are held for all requests and WebSockets together. Takes what each wants to hold; says whether it
 * may. Asking beyond the bound is refused, never queued. Touches nothing but its holders.
 *
 * Held bytes are *loose* while they are not complete, or were not looked at: it costs a sender nothing to leave them
 * there. When the bound is reached, loose bytes make room for others: those of the network (an address; for IPv6 a /64)
 * that has most of them, and of its holders the one that has been silent for longest. If the network of the asker would itself
 * have most, the asker is refused. Bytes that are being checked, decoded or committed make no room.
 */
import { clientNetwork } from '../kit/address.ts';
import type { Refusal } from '../errors/refusals.ts';
import { refusal } from '../errors/refusals.ts';

/**
 * Smaller holders are not considered: nearly all requests. As many connections as there may be hold less in this way
 * than the bound.
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

  /** Counts bytes that are held, or no longer, even beyond the bound, if the holder makes sure that no more arrive. */
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

  /** null: so many more fit, perhaps because others have made room; otherwise why not. */
  makeRoom(bytes: number, asker: Share): Refusal | null {
    while (!this.fits(bytes)) {
      const first = this.#first(asker, bytes);
      if (first === null) return this.#whose(asker.network);
      first.evict(ownFault);
    }
    return null;
  }

  /** null: so many may be begun, because they fit, or others would make room for them as they arrive. */
  refuses(bytes: number, asker: Share): Refusal | null {
    if (this.fits(bytes)) return null;
    const sums = this.#byNetwork();
    const own = (sums.get(asker.network) ?? 0) + bytes;
    let others = 0;
    for (const [network, sum] of sums) if (network !== asker.network && sum > own) others += sum;
    return this.fits(bytes - others) ? null : this.#whose(asker.network);
  }

  /** Evicts holders of the network with most loose bytes until loose bytes are half of the bound. */
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

  /** The holder that gives way to the asker; null: none. */
  #first(asker: Share, bytes: number): Share | null {
    const sums = this.#byNetwork();
    const wanted = asker.looseBytes + bytes;
    // Added in any case, so that the asker's network is compared with the others.
    const own = (sums.get(asker.network) ?? 0) + bytes;
    sums.set(asker.network, own);
    const network = fullest(sums);
    if (network === null) return null;
    // Large holders of one network would evict each other without end; a small one is let in.
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
