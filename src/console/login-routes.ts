/**
 * How the console is entered and left: `login`, `logout`, `tab`, `share`, `shared-link` and `local` of its API. Takes requests whose Host and
 * origin were checked; returns tokens of sessions. Refuses with `login_required`, `login_failed`,
 * `login_rate`, `login_shared`, `overloaded`, `malformed_request`, and with the engine's own errors. A role is tried at the SQL port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '../config/limits.ts';
import { clientNetwork } from '../kit/address.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import type { LoginRequest, SharedCall, SharedKey, SharedLogin } from './api.ts';
import { isText, malformed, readObject } from './body.ts';
import type { BodyMembers } from './body.ts';
import { writeJson, writeSqlError } from './headers.ts';
import { SqlRunner, tokenOf } from './request-sessions.ts';
import type { Asked, RequestSessions, RoleUser, SqlDoorAt } from './request-sessions.ts';
import type { SharedLink } from './login-links.ts';
import type { ConsoleSession, ConsoleSessions } from './sessions.ts';

export interface LoginDeps {
  readonly sessions: ConsoleSessions<SqlRunner | null>;
  readonly linkRole: string | null;
  readonly database: string;
  readonly door: () => SqlDoorAt;
  readonly isOwner: (key: string) => boolean;
  readonly link: () => string;
  readonly clock: () => number;
  readonly observe: Observe;
}

/** The token of a session that begins; null: it cannot. */
type Begin = (who: RoleUser, runner: SqlRunner) => string | null;

interface Attempted {
  readonly who: RoleUser;
  readonly by: 'password' | 'link' | 'shared link';
  readonly begin: Begin;
}

export class LoginRoutes {
  readonly #deps: LoginDeps;
  readonly #requests: RequestSessions;
  readonly #tries = new LoginTries();

  constructor(deps: LoginDeps, requests: RequestSessions) {
    this.#deps = deps;
    this.#requests = requests;
  }

  async howTo({ response }: Asked): Promise<void> {
    const { linkRole, database } = this.#deps;
    writeJson(response, 200, { by: linkRole === null ? 'password' : 'link', database });
  }

  async logIn({ request, response }: Asked): Promise<void> {
    const login = readLogin(await readObject(request, limits.consoleLoginBytesMax));
    const named = 'user' in login ? login.user.slice(0, 64) : '';
    await this.#attempt({ request, response }, named, async (atMs, remoteAddress) => {
      const { who, by, begin } = this.#attempted(login, request, atMs);
      await this.#enter(response, who, begin);
      if (response.statusCode !== 200) return;
      // Only wrong ones are limited.
      this.#tries.succeeded(remoteAddress, atMs);
      this.#deps.observe({ kind: 'console.entered', user: who.user.slice(0, 64), by, remoteAddress });
    });
  }

  /** What fails is told, as an attempt of this user. */
  async #attempt(
    { request, response }: Asked,
    user: string,
    run: (atMs: number, remoteAddress: string) => Promise<void>,
  ): Promise<void> {
    const remoteAddress = request.socket.remoteAddress ?? '';
    try {
      await run(this.#deps.clock(), remoteAddress);
    } catch (error) {
      const code = error instanceof Refused ? error.refusal.code : '';
      if (code.startsWith('login_'))
        this.#deps.observe({ kind: 'console.login_failed', user, remoteAddress });
      if (code === 'login_rate') response.setHeader('retry-after', '60');
      throw error;
    }
  }

  /** Whose login it would be; the password is not tried yet. */
  #attempted(login: LoginRequest, request: IncomingMessage, atMs: number): Attempted {
    const { sessions, linkRole, database, clock } = this.#deps;
    const begin: Begin = (who, runner) => sessions.begin(who, runner, clock());
    if ('link' in login) {
      if (linkRole === null || !sessions.links.use(login.link, atMs)) throw new Refused('login_failed');
      return { who: { kind: 'role', user: linkRole, password: null, database }, by: 'link', begin };
    }
    if ('shared' in login) {
      const link = this.#sharedLink(login.shared, request, atMs, true);
      return {
        who: roleOf(link.of),
        by: 'shared link',
        begin: (who, runner) => sessions.beginShared(link, who, runner, clock()),
      };
    }
    if (linkRole !== null)
      throw new Refused('login_failed', 'a link lets you in here: headgate console prints one');
    this.#count(request, atMs);
    const { user, password } = login;
    return {
      who: { kind: 'role', user, password, database: login.database ?? database },
      by: 'password',
      begin,
    };
  }

  #count({ socket }: IncomingMessage, atMs: number): void {
    if (!this.#tries.try(socket.remoteAddress ?? '', atMs)) throw new Refused('login_rate');
  }

  /** A wrong key counts as a wrong password does. */
  #sharedLink(
    key: string,
    request: IncomingMessage,
    atMs: number,
    use: boolean,
  ): SharedLink<ConsoleSession<SqlRunner | null>> {
    this.#count(request, atMs);
    const found = this.#deps.sessions.sharedLink(key, request.headers.host ?? '', atMs, use);
    if (found === null)
      throw new Refused('login_failed', 'this link was already used, or is no longer valid');
    return found;
  }

  /** A link that logs in once, as the role of this session and in its database. */
  async share({ request, response }: Asked): Promise<void> {
    const { sessions, clock, observe } = this.#deps;
    await readObject(request, limits.consoleLoginBytesMax);
    const session = this.#requests.session(request);
    const { user } = this.#requests.ofRole(request).who;
    if (session.login.maker !== null) throw new Refused('login_shared', 'this login is shared no further');
    const key = sessions.share(session, request.headers.host ?? '', clock());
    if (key === null)
      throw new Refused(
        'overloaded',
        `${limits.consoleSharedMax} links of this login wait, or were used and are logged in`,
      );
    const remoteAddress = request.socket.remoteAddress ?? '';
    observe({ kind: 'console.shared', user: user.slice(0, 64), remoteAddress });
    writeJson(response, 200, { key } satisfies SharedKey);
  }

  /** Whose login a link shares, for whoever has its key; or the end of the link. */
  async shared({ request, response }: Asked): Promise<void> {
    const { key, drop } = readShared(await readObject(request, limits.consoleLoginBytesMax));
    await this.#attempt({ request, response }, '', async (atMs, remoteAddress) => {
      const { of } = this.#sharedLink(key, request, atMs, drop);
      this.#tries.succeeded(remoteAddress, atMs);
      const { user: role, database } = roleOf(of);
      const leftMs = this.#deps.sessions.leftMs(of, atMs);
      writeJson(response, 200, { role, database, leftMs } satisfies SharedLogin);
    });
  }

  /** Answers with the token that `begin` returns, if the role can log in at the SQL port. */
  async #enter(response: ServerResponse, who: RoleUser, begin: Begin): Promise<void> {
    const runner = new SqlRunner(this.#deps.door(), who, this.#requests.running);
    try {
      await runner.enter();
    } catch (error) {
      runner.close();
      // The engine, and so the console, gives the same answer for a wrong name and a wrong password.
      if (error instanceof SqlFailure && error.error.sqlstate.startsWith('28'))
        throw new Refused('login_failed');
      if (error instanceof SqlFailure) return writeSqlError(response, error.error);
      throw error;
    }
    const token = begin(who, runner);
    if (token !== null) return writeJson(response, 200, { token });
    runner.close();
    throw new Refused('overloaded');
  }

  /** A token for another tab, or for this one in another database, which the role must be able to enter. */
  async tab({ request, response }: Asked): Promise<void> {
    const { sessions, clock } = this.#deps;
    const session = this.#requests.session(request);
    const { who } = this.#requests.ofRole(request);
    const { database = who.database } = await readObject(request, limits.consoleLoginBytesMax);
    if (typeof database !== 'string' || database === '' || database.includes('\0'))
      throw new Refused('malformed_request', 'database is the name of a database');
    if (database === who.database) {
      // It may have been logged out while the body arrived.
      const token = sessions.tab(session, clock());
      if (token === null) throw new Refused('login_required');
      return writeJson(response, 200, { token });
    }
    if (session.login.maker !== null) throw new Refused('login_shared', 'this login stays in its database');
    await this.#enter(response, { ...who, database }, (to, runner) =>
      sessions.beside(session, to, runner, clock()),
    );
  }

  async logOut({ request, response }: Asked): Promise<void> {
    this.#deps.sessions.end(tokenOf(request));
    writeJson(response, 200, {});
  }

  /** For commands on the machine that Headgate runs on: whoever can read the data directory is entitled to all of this. */
  async local({ request, response }: Asked): Promise<void> {
    const { isOwner, link, sessions, clock } = this.#deps;
    if (!isOwner(tokenOf(request))) throw new Refused('login_required');
    const { want } = await readObject(request, limits.consoleLoginBytesMax);
    if (want === 'link') return writeJson(response, 200, { link: link() });
    if (want !== 'tail') throw new Refused('malformed_request', 'want is "link" or "tail"');
    const token = sessions.begin({ kind: 'owner' }, null, clock());
    if (token === null) throw new Refused('overloaded');
    writeJson(response, 200, { token });
  }
}

/** Links are made in sessions with a role. */
function roleOf({ who }: ConsoleSession<unknown>): RoleUser {
  if (who.kind !== 'role') throw new Refused('login_failed');
  return who;
}

function readLogin({ link, shared, user, password, database }: BodyMembers): LoginRequest {
  if (typeof link === 'string') return { link };
  if (typeof shared === 'string') return { shared };
  if (!isText(user) || typeof password !== 'string')
    throw malformed('a login has link, or user and password');
  if (user.includes('\0') || password.includes('\0')) throw malformed('a login holds no zero byte');
  return { user, password, ...(isText(database) && !database.includes('\0') ? { database } : {}) };
}

function readShared({ key, drop = false }: BodyMembers): SharedCall {
  if (typeof key !== 'string' || typeof drop !== 'boolean') throw malformed('a link that logs in has a key');
  return { key, drop };
}

const minuteMs = 60_000;

/** How often a login was tried, by networks of clients. In memory, and bounded. */
export class LoginTries {
  /** The times of the last attempts by network; the networks in the order of their last attempt. */
  readonly #times = new Map<string, readonly number[]>();

  /** Whether one more attempt may be made from this address; if so, it is counted until it `succeeded`. */
  try(address: string, nowMs: number): boolean {
    const network = clientNetwork(address);
    const recent = (this.#times.get(network) ?? []).filter((at) => nowMs - at < minuteMs);
    if (recent.length >= limits.consoleTriesPerMinuteMax) return false;
    this.#times.delete(network);
    this.#times.set(network, [...recent, nowMs]);
    if (this.#times.size > limits.consoleTriersMax) {
      const [oldest = ''] = this.#times.keys();
      this.#times.delete(oldest);
    }
    return true;
  }

  /** The attempt of this time was no wrong one. */
  succeeded(address: string, atMs: number): void {
    const network = clientNetwork(address);
    const tries = [...(this.#times.get(network) ?? [])];
    const at = tries.indexOf(atMs);
    if (at === -1) return;
    tries.splice(at, 1);
    this.#times.set(network, tries);
  }
}
