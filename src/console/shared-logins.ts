/**
 * Links by which a login is shared: each works once, until its time, under the host name that it was made for. Only digests of their keys are
 * kept, and each of them is compared, in constant time. `of`: what the link gives access to. Pure; time is an argument.
 */
import { createHash, timingSafeEqual } from 'node:crypto';

export interface SharedLink<Of> {
  readonly digest: Buffer;
  readonly of: Of;
  readonly untilMs: number;
}

/** The caller bounds their number. */
export class SharedLinks<Of> {
  readonly #links = new Set<SharedLink<Of>>();

  add(key: string, host: string, of: Of, untilMs: number): void {
    this.#links.add({ digest: digestOf(key, host), of, untilMs });
  }

  /** null: there is none, or no longer. */
  find(key: string, host: string, nowMs: number): SharedLink<Of> | null {
    this.#forget(nowMs);
    const digest = digestOf(key, host);
    let found: SharedLink<Of> | null = null;
    for (const link of this.#links) if (timingSafeEqual(link.digest, digest)) found = link;
    return found;
  }

  remove(link: SharedLink<Of>): void {
    this.#links.delete(link);
  }

  removeOf(isOne: (of: Of) => boolean): void {
    for (const link of this.#links) if (isOne(link.of)) this.#links.delete(link);
  }

  count(isOne: (of: Of) => boolean, nowMs: number): number {
    this.#forget(nowMs);
    return [...this.#links].filter(({ of }) => isOne(of)).length;
  }

  #forget(nowMs: number): void {
    for (const link of this.#links) if (link.untilMs <= nowMs) this.#links.delete(link);
  }
}

/** Under another name a key is another one. */
const digestOf = (key: string, host: string): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([key, host.toLowerCase()]))
    .digest();
