/**
 * The API of the console's page: `/console/api/…`. Takes a request whose Host was checked; returns JSON, or a stream of
 * events. Clients send a token in `Authorization`, never in a cookie; a page of another site cannot do that, and is refused
 * in any case. Every statement runs as the role of the token's session.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '../config/limits.ts';
import type { TailSource } from '../observe/tail.ts';
import { Refused } from '../errors/refusals.ts';
import type { Health, Machine, Me, SenderInfo, SqlCall } from './api.ts';
import { readObject, readOids, readRetry, readSqlCall } from './body.ts';
import { writeJson } from './headers.ts';
import { LoginRoutes } from './login-routes.ts';
import type { LoginDeps } from './login-routes.ts';
import { RequestRoutes } from './request-routes.ts';
import type { RequestAnswers } from './request-routes.ts';
import { goneOf, RequestSessions } from './request-sessions.ts';
import type { Asked } from './request-sessions.ts';
import { RunningRetry } from './retries.ts';
import { RunningStatements } from './sql.ts';
import { SenderRoutes } from './sender-routes.ts';
import type { SenderAnswers } from './sender-routes.ts';
import { visibleTables } from './statements.ts';
import type { SqlRunner } from './sql.ts';
import { streamTail } from './stream.ts';

/** What other rooms know and the page shows. */
export interface ConsoleAnswers extends SenderAnswers, RequestAnswers {
  readonly senders: readonly SenderInfo[];
  health(): Promise<Health>;
  machine(): Promise<Machine>;
  /** Why requests for these tables cannot be taken, by oid: of those alone for which they cannot. */
  unusable(database: string, oids: readonly number[]): Promise<Readonly<Record<string, string>>>;
  /** What is the same for all sessions. */
  about(role: string, database: string): Omit<Me, 'role' | 'superuser' | 'database' | 'shared' | 'login'>;
}

export interface ApiDeps extends LoginDeps {
  readonly tail: TailSource;
  readonly answers: ConsoleAnswers;
}

export class ConsoleApi {
  readonly #deps: ApiDeps;
  /** Of all sessions. */
  readonly #running = new RunningStatements();
  /** Watchers by role; '': of the owner of the data directory. */
  readonly #watching = new Map<string, number>();
  /** The last retry of each session. */
  readonly #retries = rememberedOf<SqlRunner, { last: RunningRetry | null }>(() => ({ last: null }));
  readonly #requests: RequestSessions;
  readonly #logins: LoginRoutes;
  readonly #senders: SenderRoutes;
  readonly #known: RequestRoutes;

  constructor(deps: ApiDeps) {
    this.#deps = deps;
    this.#requests = new RequestSessions(deps.sessions, deps.clock);
    this.#logins = new LoginRoutes(deps, this.#requests, this.#running);
    this.#senders = new SenderRoutes(deps.answers, this.#requests, this.#running);
    this.#known = new RequestRoutes(deps, this.#requests, this.#running);
  }

  /** Rejects with Refused. */
  async serve(route: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = { request, response };
    const routes: Readonly<Record<string, readonly ['GET' | 'POST', () => Promise<void>]>> = {
      login:
        request.method === 'GET'
          ? ['GET', () => this.#logins.howTo(asked)]
          : ['POST', () => this.#logins.logIn(asked)],
      logout: ['POST', () => this.#logins.logOut(asked)],
      local: ['POST', () => this.#logins.local(asked)],
      tab: ['POST', () => this.#logins.tab(asked)],
      share: ['POST', () => this.#logins.share(asked)],
      'shared-link': ['POST', () => this.#logins.shared(asked)],
      me: ['GET', () => this.#me(asked)],
      senders: ['GET', async () => this.#write(asked, () => this.#deps.answers.senders)],
      health: ['GET', async () => this.#write(asked, () => this.#deps.answers.health())],
      machine: ['GET', () => this.#machine(asked)],
      'make-secret': ['POST', () => this.#senders.makeSecret(asked)],
      'which-sender': ['POST', () => this.#senders.whichSender(asked)],
      unusable: ['POST', () => this.#unusable(asked)],
      'secret-form': ['POST', () => this.#senders.secretForm(asked)],
      'try-hmac': ['POST', () => this.#senders.tryHmac(asked)],
      send: ['POST', () => this.#senders.send(asked)],
      replay: ['POST', () => this.#senders.replay(asked)],
      held: ['POST', () => this.#known.held(asked)],
      requests: ['POST', () => this.#known.list(asked)],
      request: ['POST', () => this.#known.find(asked)],
      retry:
        request.method === 'GET'
          ? ['GET', () => this.#retryState(asked)]
          : ['POST', () => this.#retry(asked)],
      'retry-cancel': ['POST', () => this.#cancelRetry(asked)],
      sql: ['POST', () => this.#sql(asked)],
      tail: ['GET', () => this.#tail(asked)],
    };
    const found = Object.hasOwn(routes, route) ? routes[route] : undefined;
    if (found === undefined) throw new Refused('not_found', 'the console has no such path');
    const [method, run] = found;
    if (request.method !== method) throw new Refused('method_not_allowed', `only ${method} is allowed here`);
    refuseOtherPages(request);
    await run();
  }

  async #me(asked: Asked): Promise<void> {
    const { runner, who } = this.#requests.ofRole(asked.request);
    const sql =
      'SELECT pg_catalog.current_database(), current_user, (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)';
    const answer = await this.#requests.run(asked, () =>
      runner.run({ sql, write: false, own: true }, goneOf(asked.response)),
    );
    if (answer === null) return;
    const [database, role, superuser] = answer.tables[0]?.rows[0] ?? [];
    const { login } = this.#requests.session(asked.request);
    const me: Me = {
      role: role ?? who.user,
      superuser: superuser === 't',
      database: database ?? who.database,
      shared: login.maker !== null,
      login: login.id,
      ...this.#deps.answers.about(who.user, who.database),
    };
    writeJson(asked.response, 200, me);
  }

  /** Details of the machine are shown to the roles to which PostgreSQL would show such things. */
  async #machine(asked: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(asked.request);
    const sql = `SELECT pg_has_role('pg_monitor', 'USAGE')`;
    const answer = await this.#requests.run(asked, () =>
      runner.run({ sql, write: false, own: true }, goneOf(asked.response)),
    );
    if (answer === null) return;
    const may = answer.tables[0]?.rows[0]?.[0] === 't';
    writeJson(asked.response, 200, may ? await this.#deps.answers.machine() : null);
  }

  async #sql(asked: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(asked.request);
    const call = readSqlCall(await readObject(asked.request));
    const answer = await this.#requests.run(asked, () => runner.run(call, goneOf(asked.response)));
    if (answer !== null) writeJson(asked.response, 200, answer);
  }

  async #unusable(asked: Asked): Promise<void> {
    const { runner, who } = this.#requests.ofRole(asked.request);
    const oids = readOids(await readObject(asked.request));
    if (oids.length === 0) return writeJson(asked.response, 200, {});
    const call = { sql: visibleTables(oids), write: false, own: true } as const;
    const answer = await this.#requests.run(asked, async () => {
      const seen = (await runner.run(call, goneOf(asked.response)))?.tables[0]?.rows ?? [];
      return this.#deps.answers.unusable(
        who.database,
        seen.map(([oid]) => Number(oid)),
      );
    });
    if (answer !== null) writeJson(asked.response, 200, answer);
  }

  /** One at a time for each session. */
  async #retry({ request, response }: Asked): Promise<void> {
    const { runner, ended } = this.#requests.ofRole(request);
    const { filter, force } = readRetry(await readObject(request));
    if (this.#retries(runner).last?.state.kind === 'running')
      throw new Refused('overloaded', 'a retry is running already: wait for it, or cancel it');
    const run = async (call: SqlCall) => (await runner.run(call, ended)).tables.at(-1);
    const retrying = new RunningRetry(run, filter, force, ended);
    this.#retries(runner).last = retrying;
    writeJson(response, 200, retrying.state);
  }

  async #retryState({ request, response }: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(request);
    writeJson(response, 200, this.#retries(runner).last?.state ?? null);
  }

  async #cancelRetry({ request, response }: Asked): Promise<void> {
    const { runner } = this.#requests.ofRole(request);
    this.#retries(runner).last?.cancel();
    writeJson(response, 200, {});
  }

  async #tail({ request, response }: Asked): Promise<void> {
    const session = this.#requests.session(request);
    const role = session.who.kind === 'role' ? session.who.user : '';
    const own = this.#watching.get(role) ?? 0;
    const all = [...this.#watching.values()].reduce((sum, count) => sum + count, 0);
    if (own >= limits.tailRoleWatchersMax)
      throw new Refused('overloaded', `${own} pages of this role watch already: close one`);
    if (all >= limits.tailWatchersMax) throw new Refused('overloaded', 'too many watch at present');
    this.#watching.set(role, own + 1);
    response.once('close', () => {
      const left = (this.#watching.get(role) ?? 1) - 1;
      if (left === 0) this.#watching.delete(role);
      else this.#watching.set(role, left);
    });
    const { tail, clock, answers } = this.#deps;
    streamTail(response, session, tail, clock, () => answers.ready());
  }

  async #write({ request, response }: Asked, value: () => unknown): Promise<void> {
    this.#requests.session(request);
    writeJson(response, 200, await value());
  }
}

/**
 * Browsers state the origin of the page that makes a request. Without that, the client is an old browser or a program, and
 * must send a header that a page of another site cannot send without a preflight.
 */
function refuseOtherPages({ method, headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') throw new Refused('foreign_page');
  if (method === 'GET') return;
  if (site === undefined && headers['x-headgate-console'] === undefined) throw new Refused('foreign_page');
  if (!/^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '')) throw new Refused('foreign_page');
}
