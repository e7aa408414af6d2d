/**
 * How the console is entered and left: `login`, `logout`, `tab` and `local` of its API. Takes requests whose Host and origin were checked;
 * returns tokens of sessions, and finds the session of a token. Refuses with `login_required`, `login_failed`, `login_rate`, `overloaded`,
 * `malformed_request`, and with the engine's own errors. A role is tried at the SQL port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import type { LoginRequest } from './api.ts';
import { readLogin, readObject } from './body.ts';
import { writeJson, writeSqlError } from './headers.ts';
import type { RunningStatements } from './running-statements.ts';
import type { ConsoleSession, ConsoleSessions, ConsoleUser } from './sessions.ts';
import { SqlRunner } from './sql.ts';
import type { SqlDoorAt } from './sql.ts';

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

export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

type RoleUser = ConsoleUser & { readonly kind: 'role' };

/** A session with a role. */
interface OfRole {
  readonly runner: SqlRunner;
  readonly who: RoleUser;
  readonly ended: AbortSignal;
}

export class LoginRoutes {
  readonly #deps: LoginDeps;
  /** Of all sessions. */
  readonly #running: RunningStatements;

  constructor(deps: LoginDeps, running: RunningStatements) {
    this.#deps = deps;
    this.#running = running;
  }

  async howTo({ response }: Asked): Promise<void> {
    const { linkRole, database } = this.#deps;
    writeJson(response, 200, { by: linkRole === null ? 'password' : 'link', database });
  }

  async logIn({ request, response }: Asked): Promise<void> {
    const login = readLogin(await readObject(request, limits.consoleLoginBytesMax));
    const remoteAddress = request.socket.remoteAddress ?? '';
    const named = 'link' in login ? '' : login.user.slice(0, 64);
    const { sessions, clock } = this.#deps;
    const atMs = clock();
    try {
      const who = this.#whoOf(login, remoteAddress, atMs);
      await this.#enter(response, who, (of, runner) => sessions.begin(of, runner, clock()));
      if (response.statusCode !== 200) return;
      // Only wrong ones are limited.
      sessions.succeeded(remoteAddress, atMs);
      this.#deps.observe({ kind: 'console.entered', user: who.user.slice(0, 64), remoteAddress });
    } catch (error) {
      const code = error instanceof Refused ? error.refusal.code : '';
      if (code.startsWith('login_'))
        this.#deps.observe({ kind: 'console.login_failed', user: named, remoteAddress });
      if (code === 'login_rate') response.setHeader('retry-after', '60');
      throw error;
    }
  }

  /** Whose login it would be; the password is not tried yet. */
  #whoOf(login: LoginRequest, remoteAddress: string, atMs: number): RoleUser {
    const { sessions, linkRole, database } = this.#deps;
    if ('link' in login) {
      if (linkRole === null || !sessions.useLink(login.link, atMs)) throw new Refused('login_failed');
      return { kind: 'role', user: linkRole, password: null, database };
    }
    if (linkRole !== null)
      throw new Refused('login_failed', 'a link lets you in here: headgate console prints one');
    if (!sessions.try(remoteAddress, atMs)) throw new Refused('login_rate');
    return { kind: 'role', user: login.user, password: login.password, database: login.database ?? database };
  }

  /** Answers with the token that `begin` returns, if the role can log in at the SQL port. */
  async #enter(
    response: ServerResponse,
    who: RoleUser,
    begin: (who: ConsoleUser, runner: SqlRunner) => string | null,
  ): Promise<void> {
    const runner = new SqlRunner(this.#deps.door(), who, this.#running);
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
    const session = this.session(request);
    const { who } = this.ofRole(request);
    const { database = who.database } = await readObject(request, limits.consoleLoginBytesMax);
    if (typeof database !== 'string' || database === '' || database.includes('\0'))
      throw new Refused('malformed_request', 'database is the name of a database');
    if (database === who.database) {
      // It may have been logged out while the body arrived.
      const token = sessions.tab(session, clock());
      if (token === null) throw new Refused('login_required');
      return writeJson(response, 200, { token });
    }
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

  session(request: IncomingMessage): ConsoleSession<SqlRunner | null> {
    const { sessions, clock } = this.#deps;
    const counts = request.headers['x-headgate-auto'] === undefined;
    const session = sessions.find(tokenOf(request), clock(), counts);
    if (session === null) throw new Refused('login_required');
    return session;
  }

  ofRole(request: IncomingMessage): OfRole {
    const { held, who, ended } = this.session(request);
    if (held === null || who.kind !== 'role')
      throw new Refused('login_required', 'this session may only watch');
    return { runner: held, who, ended: ended.signal };
  }
}

/** '': none. */
export function tokenOf({ headers }: IncomingMessage): string {
  return /^Bearer ([\w-]{1,128})$/.exec(headers.authorization ?? '')?.[1] ?? '';
}
