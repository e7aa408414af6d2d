/**
 * Who is logged in: one-time links, tokens, and how often a password was tried. Everything is in memory and bounded;
 * only a token's digest is kept. A session ends after `consoleIdleMs` without use, `consoleSessionMs` after its
 * beginning, at a logout, and with the process. A link can be used once, within `consoleLinkMs`. Time is an argument.
 */
import { createHash, randomBytes } from 'node:crypto';
import { clientNetwork } from '../kit/address.ts';
import { limits } from '../config/limits.ts';

const minuteMs = 60_000;

/** The user of a session. `owner`: of the data directory, who may watch and has no role. */
export type Who =
  | {
      readonly kind: 'role';
      readonly user: string;
      readonly password: string | null;
      readonly database: string;
    }
  | { readonly kind: 'owner' };

export interface Session<Held> {
  readonly who: Who;
  readonly held: Held;
  readonly beganMs: number;
  usedMs: number;
  /** Aborted when it ends. */
  readonly ended: AbortController;
}

export class Sessions<Held> {
  readonly #links = new Map<string, number>();
  readonly #sessions = new Map<string, Session<Held>>();
  /** The times of the last attempts by network; the networks in the order of their last attempt. */
  readonly #tries = new Map<string, readonly number[]>();
  readonly #release: (held: Held) => void;

  constructor(release: (held: Held) => void) {
    this.#release = release;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** The value after `#t=` in a link. */
  newLink(nowMs: number): string {
    this.#forgetLinks(nowMs);
    if (this.#links.size >= limits.consoleLinksMax) {
      const [oldest = ''] = this.#links.keys();
      this.#links.delete(oldest);
    }
    const link = randomText();
    this.#links.set(digest(link), nowMs + limits.consoleLinkMs);
    return link;
  }

  /** Returns whether it was valid; it is no longer. */
  useLink(link: string, nowMs: number): boolean {
    this.#forgetLinks(nowMs);
    return this.#links.delete(digest(link));
  }

  /** Whether one more attempt may be made from this address; if so, it is counted, whether it succeeds or not. */
  try(address: string, nowMs: number): boolean {
    const network = clientNetwork(address);
    const recent = (this.#tries.get(network) ?? []).filter((at) => nowMs - at < minuteMs);
    if (recent.length >= limits.consoleTriesPerMinuteMax) return false;
    this.#tries.delete(network);
    this.#tries.set(network, [...recent, nowMs]);
    if (this.#tries.size > limits.consoleTriersMax) {
      const [oldest = ''] = this.#tries.keys();
      this.#tries.delete(oldest);
    }
    return true;
  }

  /** The token; null: there are too many sessions. */
  begin(who: Who, held: Held, nowMs: number): string | null {
    this.sweep(nowMs);
    if (this.#sessions.size >= limits.consoleSessionsMax && !this.#endLeastUsed()) return null;
    const token = randomText();
    this.#sessions.set(digest(token), {
      who,
      held,
      beganMs: nowMs,
      usedMs: nowMs,
      ended: new AbortController(),
    });
    return token;
  }

  /** `counts`: a user action; a page that refreshes itself does not keep its session alive. */
  find(token: string, nowMs: number, counts: boolean): Session<Held> | null {
    const key = digest(token);
    const session = this.#sessions.get(key);
    if (session === undefined) return null;
    if (isOver(session, nowMs)) {
      this.#end(key, session);
      return null;
    }
    if (counts) session.usedMs = nowMs;
    return session;
  }

  end(token: string): void {
    const key = digest(token);
    const session = this.#sessions.get(key);
    if (session !== undefined) this.#end(key, session);
  }

  /** Ends expired sessions. */
  sweep(nowMs: number): void {
    for (const [key, session] of this.#sessions) if (isOver(session, nowMs)) this.#end(key, session);
  }

  close(): void {
    this.#links.clear();
    for (const [key, session] of this.#sessions) this.#end(key, session);
  }

  /** Ends the session that was used longest ago. */
  #endLeastUsed(): boolean {
    const [least] = [...this.#sessions].toSorted(([, a], [, b]) => a.usedMs - b.usedMs);
    if (least === undefined) return false;
    this.#end(...least);
    return true;
  }

  #end(key: string, session: Session<Held>): void {
    this.#sessions.delete(key);
    session.ended.abort();
    this.#release(session.held);
  }

  #forgetLinks(nowMs: number): void {
    for (const [link, untilMs] of this.#links) if (untilMs <= nowMs) this.#links.delete(link);
  }
}

function isOver({ beganMs, usedMs }: Session<unknown>, nowMs: number): boolean {
  return nowMs - usedMs >= limits.consoleIdleMs || nowMs - beganMs >= limits.consoleSessionMs;
}

const randomText = (): string => randomBytes(32).toString('base64url');
const digest = (text: string): string => createHash('sha256').update(text).digest('base64');
