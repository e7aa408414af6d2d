/**
 * Links that log in: each works once, until its time. Takes keys and times; returns whether a link is valid, and, for one that shares a login, what it
 * gives access to. Refuses nothing. In memory only, and only digests of the keys are kept.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { limits } from '../config/limits.ts';

export const randomText = (): string => randomBytes(32).toString('base64url');
export const digest = (text: string): string => createHash('sha256').update(text).digest('base64');

/** Links of this machine, which end after `consoleLinkMs`; of too many, the oldest. */
export class OneTimeLinks {
  /** When each of them ends, by its digest. */
  readonly #links = new Map<string, number>();

  make(nowMs: number): string {
    this.#forget(nowMs);
    if (this.#links.size >= limits.consoleLinksMax) {
      const [oldest = ''] = this.#links.keys();
      this.#links.delete(oldest);
    }
    const link = randomText();
    this.#links.set(digest(link), nowMs + limits.consoleLinkMs);
    return link;
  }

  /** Returns whether it was valid; it is no longer. */
  use(link: string, nowMs: number): boolean {
    this.#forget(nowMs);
    return this.#links.delete(digest(link));
  }

  clear(): void {
    this.#links.clear();
  }

  #forget(nowMs: number): void {
    for (const [link, untilMs] of this.#links) if (untilMs <= nowMs) this.#links.delete(link);
  }
}

export interface SharedLink<Of> {
  readonly digest: Buffer;
  readonly of: Of;
  readonly untilMs: number;
}

/**
 * Links by which a login is shared: each works once, until its time, under the host name that it was made for. Only digests of their keys are
 * kept, and each of them is compared, in constant time. `of`: what the link gives access to. The caller bounds their number.
 */
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
