/**
 * Whose request to the API it is: the session of its token. Takes requests whose Host and origin were checked; returns the session, or the role and the
 * connection that its statements run on. Refuses with `login_required`. A refusal of the engine is written as the answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import { writeSqlError } from './headers.ts';
import { RunningStatements } from './running-statements.ts';
import type { ConsoleSession, ConsoleSessions, ConsoleUser } from './sessions.ts';
import type { SqlRunner } from './sql.ts';

export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export type RoleUser = ConsoleUser & { readonly kind: 'role' };

/** A session with a role. */
interface OfRole {
  readonly runner: SqlRunner;
  readonly who: RoleUser;
  readonly ended: AbortSignal;
}

export class RequestSessions {
  /** Those of all sessions. */
  readonly running = new RunningStatements();
  readonly #sessions: ConsoleSessions<SqlRunner | null>;
  readonly #clock: () => number;

  constructor(sessions: ConsoleSessions<SqlRunner | null>, clock: () => number) {
    this.#sessions = sessions;
    this.#clock = clock;
  }

  /** That of the token in `Authorization`. Counts as its use, unless the page asks by itself. Refuses with `login_required`. */
  session(request: IncomingMessage): ConsoleSession<SqlRunner | null> {
    const counts = request.headers['x-headgate-auto'] === undefined;
    const session = this.#sessions.find(tokenOf(request), this.#clock(), counts);
    if (session === null) throw new Refused('login_required');
    return session;
  }

  /** The role that has logged in, the runner of its statements, and when its session ends. Refuses with `login_required`. */
  ofRole(request: IncomingMessage): OfRole {
    const { held, who, ended } = this.session(request);
    if (held === null || who.kind !== 'role')
      throw new Refused('login_required', 'this session may only watch');
    return { runner: held, who, ended: ended.signal };
  }

  /** null: the engine has refused it, and the refusal was answered. */
  async run<T>({ request, response }: Asked, run: () => Promise<T>): Promise<T | null> {
    try {
      return await run();
    } catch (error) {
      // The role may no longer log in.
      if (error instanceof Refused && error.refusal.code === 'login_required')
        this.#sessions.end(tokenOf(request));
      if (!(error instanceof SqlFailure)) throw error;
      writeSqlError(response, error.error);
      return null;
    }
  }
}

/** Aborts once nobody waits for the answer. */
export function goneOf(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  if (response.destroyed) gone.abort();
  else response.once('close', () => gone.abort());
  return gone.signal;
}

/** '': none. */
export function tokenOf({ headers }: IncomingMessage): string {
  return /^Bearer ([\w-]{1,128})$/.exec(headers.authorization ?? '')?.[1] ?? '';
}
