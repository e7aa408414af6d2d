/**
 * Bounds the bytes that are held for all requests and WebSockets together. Takes what each wants to hold; says whether it
 * may. Asking beyond the bound is refused, never queued. Touches nothing but its holders.
 *
 * Held bytes are *loose* while they are not complete, or were not looked at: it costs a sender nothing to leave them
 * there. When the bound is reached, loose bytes make room for others: those of the network (an address; for IPv6 a /64)
 * that has most of them, and of its holders the one that has been silent for longest. If the network of the asker would itself
 * have most, the asker is refused. Bytes that are being checked, decoded or committed make no room.
 */
import type { Refusal } from '../errors/refusals.ts';
import { refusal } from '../errors/refusals.ts';

/**
 * Smaller holders are not considered: nearly all requests. As many connections as there may be hold less in this way
 * than the bound.
 */
export const smallBytes = 8 * 1024;

export const ownFault = refusal('sender_overloaded');
const nobodysFault = refusal('overloaded');

/** What a request or WebSocket holds, as far as the bound must know it (share.ts). */
export interface LooseBytes {
  /** Whose they are. */
  readonly network: string;
  readonly looseBytes: number;
  /** When it last grew, as a number of steps. */
  readonly heard: number;
  /** Drops what is loose. */
  evict(why: Refusal): void;
}

export class BytesInFlight {
  readonly max: number;
  #held = 0;
  #steps = 0;
  readonly #loose = new Set<LooseBytes>();

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

  loosen(share: LooseBytes): void {
    this.#loose.add(share);
  }

  fasten(share: LooseBytes): void {
    this.#loose.delete(share);
  }

  /** null: so many more fit, perhaps because others have made room; otherwise why not. */
  makeRoom(bytes: number, asker: LooseBytes): Refusal | null {
    while (!this.fits(bytes)) {
      const first = this.#first(asker, bytes);
      if (first === null) return this.#whose(asker.network);
      first.evict(ownFault);
    }
    return null;
  }

  /** null: so many may be begun, because they fit, or others would make room for them as they arrive. */
  refuses(bytes: number, asker: LooseBytes): Refusal | null {
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
  #first(asker: LooseBytes, bytes: number): LooseBytes | null {
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

  #silentLongest(network: string): LooseBytes | null {
    let first: LooseBytes | null = null;
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
