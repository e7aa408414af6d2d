/**
 * Whose request to the API it is, and the statements that run for it. Takes requests whose Host and origin were checked; returns the session of the token,
 * or its role and a runner of SQL, which returns rows as the texts that the engine wrote. Refuses with `login_required`, `engine_unavailable`, `overloaded`
 * and `answer_too_large`, and throws SqlFailure with the engine's own errors.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ClientConfig } from 'pg';
import { limits } from '../config/limits.ts';
import { Cancellation } from '../engine/cancellation.ts';
import { hangUp } from '../engine/close-client.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import { plainSession, plainTransaction } from '../kit/plain-settings.ts';
import type { SqlCall, SqlResponse } from './api.ts';
import { writeSqlError } from './headers.ts';
import { goTo, refuseOtherCatalog, RoleConnections } from './role-connections.ts';
import type { RoleConnection } from './role-connections.ts';
import type { ConsoleSession, ConsoleSessions, ConsoleUser } from './sessions.ts';
import { BoundedQuery, failedEnd, failureOf } from './sql-query.ts';
import type { ReadEnd } from './sql-query.ts';

export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export type RoleUser = Extract<ConsoleUser, { readonly kind: 'role' }>;

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

/** How to reach the SQL port, without credentials. */
export interface SqlDoorAt extends Pick<ClientConfig, 'host' | 'port' | 'ssl'> {
  /** Headgate's own. */
  readonly role: string;
}

const cancellation = { statementMs: limits.consoleStatementMs, cancelMs: limits.consoleCancelMs };

/**
 * Statements of one session: a client of Headgate's own SQL port, logged in as the session's role, so that rights, Headgate's
 * statements and passwords work as in psql; the port passes what is no statement of Headgate's to PostgreSQL as it is.
 *
 * A reading call is one statement of the extended protocol inside `BEGIN READ ONLY` … `ROLLBACK`: it cannot end the
 * transaction and continue, and leaves no setting behind. Its connection is kept for the next one. A writing call runs as
 * given, on a connection of its own that is not reused. Bounded in time, rows and bytes; aborting `signal` cancels it.
 */
export class SqlRunner {
  readonly #connections: RoleConnections;
  readonly #running: RunningStatements;
  readonly #role: string;
  readonly #headgate: string;

  /** `running`: those of all sessions. */
  constructor({ role, ...door }: SqlDoorAt, who: Omit<RoleUser, 'kind'>, running: RunningStatements) {
    this.#running = running;
    this.#role = who.user;
    this.#headgate = role;
    this.#connections = new RoleConnections({
      ...door,
      user: who.user,
      database: who.database,
      // '' instead of undefined, so that the environment is not consulted.
      password: who.password ?? '',
      application_name: 'headgate console',
      connectionTimeoutMillis: limits.consoleConnectMs,
      keepAlive: true,
    });
  }

  /** Whether the role can log in; throws as `run` does, with 28P01 for a wrong password. */
  async enter(): Promise<void> {
    this.#connections.keep(await this.#connections.open());
  }

  /**
   * `call.own`: a statement of the console itself, in which names mean PostgreSQL's own objects, whatever others have created on the role's search_path;
   * what a user types means what it means in psql. Refuses with `login_required` if the role may no longer log in, or the session has ended.
   */
  async run(call: SqlCall, signal: AbortSignal): Promise<SqlResponse> {
    return this.#running.run(this.#role, async () => {
      const started = performance.now();
      const { sql, write, zone = '' } = call;
      const connection = write ? await this.#connections.openAgain() : await this.#connections.take();
      if (zone !== connection.zone) await goTo(connection, zone);
      const reading = new BoundedQuery(sql, write);
      const end = await this.#runOn(connection, call, reading, signal);
      if (end.kind !== 'done') throw failedEnd(end, write);
      const { tables, notices } = reading;
      return { tables, notices, ms: Math.round(performance.now() - started) };
    });
  }

  async #runOn(
    connection: RoleConnection,
    { sql, write, own = false, zone = '' }: SqlCall,
    reading: BoundedQuery,
    signal: AbortSignal,
  ): Promise<ReadEnd> {
    const { client } = connection;
    const ending = new Cancellation(client, this.#connections.config, signal, cancellation);
    let clean = false;
    try {
      const plain = write ? plainSession : plainTransaction;
      const before = [
        ...(write ? [] : ['BEGIN READ ONLY', `SET LOCAL statement_timeout = ${limits.consoleStatementMs}`]),
        ...(own ? (zone === '' ? [plain] : [keepZone, plain, returnZone]) : []),
      ];
      if (before.length > 0) await client.query(before.join('; '));
      if (own && usesCatalog(sql)) await refuseOtherCatalog(client, this.#headgate);
      const end = await reading.on(client);
      if (end.kind === 'failed' || end.kind === 'done') {
        if (!write) await client.query('ROLLBACK');
        clean = !write && !ending.cancelled;
      }
      return ending.late && end.kind !== 'done' ? { kind: 'late' } : end;
    } catch (error) {
      if (ending.late) return { kind: 'late' };
      throw failureOf(error);
    } finally {
      ending.end();
      if (clean) this.#connections.keep(connection);
      else void hangUp(client);
    }
  }

  close(): void {
    this.#connections.close();
  }
}

/** The plain settings of a transaction write times in UTC: around them the zone is kept. */
const keepZone =
  "SELECT pg_catalog.set_config('headgate.zone', pg_catalog.current_setting('TimeZone'), true)";
const returnZone =
  "SELECT pg_catalog.set_config('TimeZone', pg_catalog.current_setting('headgate.zone'), true)";

/** How many statements run for the sessions of the console: so many at one time, and fewer of one role. */
export class RunningStatements {
  #all = 0;
  readonly #ofRole = new Map<string, number>();

  /** `role`: whose sessions they are counted for. A request that is sent on its behalf counts as one. */
  async run<T>(role: string, work: () => Promise<T>): Promise<T> {
    const own = this.#ofRole.get(role) ?? 0;
    if (this.#all >= limits.consoleStatementsMax || own >= limits.consoleRoleStatementsMax)
      throw new Refused('overloaded');
    this.#all += 1;
    this.#ofRole.set(role, own + 1);
    try {
      return await work();
    } finally {
      this.#all -= 1;
      const left = (this.#ofRole.get(role) ?? 1) - 1;
      if (left === 0) this.#ofRole.delete(role);
      else this.#ofRole.set(role, left);
    }
  }
}

/** No other statement of the console uses it: their search_path has PostgreSQL's own names alone. Headgate's statements read it, too. */
const usesCatalog = (sql: string): boolean => /headgate|^\s*(?:show|explain)\s/i.test(sql);
