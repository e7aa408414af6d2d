/**
 * Who is logged in: tokens, and the links that log in. Everything is in memory and bounded;
 * only a token's digest is kept. A session ends after `consoleIdleMs` without use, `consoleSessionMs` after its
 * beginning, at a logout in one of its tabs, and with the process. A link can be used once, within `consoleLinkMs`. A login
 * can be shared by links of its own: what comes of them ends with it. Time is an argument.
 */
import { limits } from '../config/limits.ts';
import { digest, OneTimeLinks, randomText, SharedLinks } from './login-links.ts';
import type { SharedLink } from './login-links.ts';

/** The user of a session. `owner`: of the data directory, who may watch and has no role. */
export type ConsoleUser =
  | {
      readonly kind: 'role';
      readonly user: string;
      readonly password: string | null;
      readonly database: string;
    }
  | { readonly kind: 'owner' };

/** A login. All that came of it ends with it. */
interface OwnLogin<Held> {
  /** By which the tabs of a browser tell whether they belong together; it gives no rights. */
  readonly id: string;
  readonly beganMs: number;
  usedMs: number;
  readonly sessions: Set<ConsoleSession<Held>>;
  /** The login that was shared with this one, which ends no later; null: none. */
  readonly maker: OwnLogin<Held> | null;
}

export interface ConsoleSession<Held> {
  readonly who: ConsoleUser;
  readonly held: Held;
  /** Aborted when it ends. */
  readonly ended: AbortController;
  readonly login: OwnLogin<Held>;
}

interface Token<Held> {
  readonly session: ConsoleSession<Held>;
  usedMs: number;
}

export class ConsoleSessions<Held> {
  /** What `headgate console` prints. */
  readonly links = new OneTimeLinks();
  readonly #logins = new Set<OwnLogin<Held>>();
  /** By their digests. Each tab of a browser has one. */
  readonly #tokens = new Map<string, Token<Held>>();
  readonly #shared = new SharedLinks<ConsoleSession<Held>>();
  readonly #release: (held: Held) => void;

  constructor(release: (held: Held) => void) {
    this.#release = release;
  }

  /** `counts`: a user action; a page that refreshes itself does not keep its session alive. */
  find(token: string, nowMs: number, counts: boolean): ConsoleSession<Held> | null {
    const found = this.#tokens.get(digest(token));
    if (found === undefined) return null;
    const { session } = found;
    if (isOver(session.login, nowMs)) {
      this.#end(session.login);
      return null;
    }
    found.usedMs = nowMs;
    if (counts) session.login.usedMs = nowMs;
    return session;
  }

  /** The token; null: there are too many sessions. */
  begin(who: ConsoleUser, held: Held, nowMs: number): string | null {
    if (!this.#makeRoom(nowMs, null)) return null;
    return this.#begin({ ...newLogin(nowMs, nowMs), maker: null }, who, held);
  }

  /**
   * The key of a link that logs in once under this host name, as the role and in the database of this session; null: too many wait, or were used.
   * A login that came of such a link has none.
   */
  share(session: ConsoleSession<Held>, host: string, nowMs: number): string | null {
    const { login } = session;
    const links = this.#shared.count((of) => of.login === login, nowMs);
    if (login.maker !== null || links + this.#guestsOf(login) >= limits.consoleSharedMax) return null;
    const key = randomText();
    this.#shared.add(key, host, session, nowMs + limits.consoleLinkMs);
    return key;
  }

  /** null: no link has this key under this host name, or its login has ended. `use`: it is none any more. */
  sharedLink(
    key: string,
    host: string,
    nowMs: number,
    use: boolean,
  ): SharedLink<ConsoleSession<Held>> | null {
    const found = this.#shared.find(key, host, nowMs);
    if (found === null || isOver(found.of.login, nowMs)) return null;
    if (use) this.#shared.remove(found);
    return found;
  }

  /** The token of a login by a link that was used; null: the login that it shares has ended meanwhile, or there are too many. */
  beginShared(
    { of }: SharedLink<ConsoleSession<Held>>,
    who: ConsoleUser,
    held: Held,
    nowMs: number,
  ): string | null {
    const maker = of.login;
    if (!this.#makeRoom(nowMs, maker) || !this.#logins.has(maker)) return null;
    if (this.#guestsOf(maker) >= limits.consoleSharedMax) return null;
    return this.#begin({ ...newLogin(maker.beganMs, nowMs), maker }, who, held);
  }

  /** How long a login may last at most. */
  leftMs({ login }: ConsoleSession<Held>, nowMs: number): number {
    return Math.max(0, login.beganMs + limits.consoleSessionMs - nowMs);
  }

  /**
   * A token of its own for another tab; null: the session has ended. It ends with the login; when a login has too many, with the one that was used
   * longest ago.
   */
  tab(session: ConsoleSession<Held>, nowMs: number): string | null {
    return session.ended.signal.aborted ? null : this.#give(session, nowMs);
  }

  /** A session of the same login in another database. */
  beside({ login }: ConsoleSession<Held>, who: ConsoleUser, held: Held, nowMs: number): string | null {
    return this.#logins.has(login) ? this.#add(login, who, held, nowMs) : null;
  }

  /** Of all of its tabs. */
  end(token: string): void {
    const found = this.#tokens.get(digest(token));
    if (found !== undefined) this.#end(found.session.login);
  }

  /** The number of logins. */
  get size(): number {
    return this.#logins.size;
  }

  /** Ends expired sessions. */
  sweep(nowMs: number): void {
    for (const login of this.#logins) if (isOver(login, nowMs)) this.#end(login);
  }

  close(): void {
    this.links.clear();
    for (const login of this.#logins) this.#end(login);
  }

  #guestsOf(login: OwnLogin<Held>): number {
    return [...this.#logins].filter(({ maker }) => maker === login).length;
  }

  #makeRoom(nowMs: number, spared: OwnLogin<Held> | null): boolean {
    this.sweep(nowMs);
    return this.#logins.size < limits.consoleSessionsMax || this.#endLeastUsed(spared);
  }

  #begin(login: OwnLogin<Held>, who: ConsoleUser, held: Held): string {
    this.#logins.add(login);
    return this.#add(login, who, held, login.usedMs);
  }

  #add(login: OwnLogin<Held>, who: ConsoleUser, held: Held, nowMs: number): string {
    const session: ConsoleSession<Held> = { who, held, ended: new AbortController(), login };
    login.sessions.add(session);
    return this.#give(session, nowMs);
  }

  #give(session: ConsoleSession<Held>, nowMs: number): string {
    const { login } = session;
    const own = [...this.#tokens].filter(([, it]) => it.session.login === login);
    const [least] = own.toSorted(([, a], [, b]) => a.usedMs - b.usedMs);
    if (least !== undefined && own.length >= limits.consoleTabsMax) this.#drop(...least);
    const token = randomText();
    this.#tokens.set(digest(token), { session, usedMs: nowMs });
    return token;
  }

  /** A session whose last tab is gone ends. */
  #drop(key: string, { session }: Token<Held>): void {
    this.#tokens.delete(key);
    if (![...this.#tokens.values()].some((it) => it.session === session)) this.#endSession(session);
  }

  /** Of the role that has most of them, so that no role ends those of others, the login that was used longest ago. */
  #endLeastUsed(spared: OwnLogin<Held> | null): boolean {
    const byRole = new Map<string, OwnLogin<Held>[]>();
    for (const login of this.#logins) {
      if (login === spared) continue;
      const [session] = login.sessions;
      const role = session?.who.kind === 'role' ? session.who.user : '';
      byRole.set(role, [...(byRole.get(role) ?? []), login]);
    }
    const [most = []] = [...byRole.values()].toSorted(
      (a, b) => b.length - a.length || leastOf(a) - leastOf(b),
    );
    const [least] = most.toSorted((a, b) => a.usedMs - b.usedMs);
    if (least === undefined) return false;
    this.#end(least);
    return true;
  }

  #end(login: OwnLogin<Held>): void {
    this.#logins.delete(login);
    for (const [key, { session }] of this.#tokens) if (session.login === login) this.#tokens.delete(key);
    for (const session of login.sessions) this.#endSession(session);
    this.#shared.removeOf((of) => of.login === login);
    for (const guest of this.#logins) if (guest.maker === login) this.#end(guest);
  }

  #endSession(session: ConsoleSession<Held>): void {
    if (!session.login.sessions.delete(session)) return;
    session.ended.abort();
    this.#release(session.held);
  }
}

const newLogin = (beganMs: number, usedMs: number) => ({
  id: randomText(),
  beganMs,
  usedMs,
  sessions: new Set<never>(),
});

const leastOf = (logins: readonly OwnLogin<unknown>[]): number =>
  Math.min(...logins.map(({ usedMs }) => usedMs));

function isOver({ beganMs, usedMs, maker }: OwnLogin<unknown>, nowMs: number): boolean {
  if (nowMs - usedMs >= limits.consoleIdleMs || nowMs - beganMs >= limits.consoleSessionMs) return true;
  return maker !== null && isOver(maker, nowMs);
}
