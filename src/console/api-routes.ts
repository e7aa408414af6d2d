/**
 * The API of the console's page: `/console/api/…`. Takes a request whose Host was checked; returns JSON, or a stream of
 * events. Clients send a token in `Authorization`, never in a cookie; a page of another site cannot do that, and is refused
 * in any case. Every statement runs as the role of the token's session.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TailSource } from '../observe/tail.ts';
import { Refused } from '../errors/refusals.ts';
import type { Health, SenderInfo } from './api.ts';
import { writeJson } from './headers.ts';
import { LoginRoutes } from './login-routes.ts';
import type { LoginDeps } from './login-routes.ts';
import { RequestRoutes } from './request-routes.ts';
import type { RequestAnswers } from './request-routes.ts';
import { RequestSessions } from './request-sessions.ts';
import type { Asked } from './request-sessions.ts';
import { RetryRoutes } from './retry-routes.ts';
import { RoleRoutes } from './role-routes.ts';
import type { RoleAnswers } from './role-routes.ts';
import { SenderRoutes } from './sender-routes.ts';
import type { SenderAnswers } from './sender-routes.ts';
import { TailStreams } from './stream.ts';

/** What other rooms know and the page shows. */
export interface ConsoleAnswers extends RoleAnswers, SenderAnswers, RequestAnswers {
  readonly senders: readonly SenderInfo[];
  health(): Promise<Health>;
}

export interface ApiDeps extends LoginDeps {
  readonly tail: TailSource;
  readonly answers: ConsoleAnswers;
}

export class ConsoleApi {
  readonly #deps: ApiDeps;
  readonly #requests: RequestSessions;
  readonly #logins: LoginRoutes;
  readonly #senders: SenderRoutes;
  readonly #known: RequestRoutes;
  readonly #roles: RoleRoutes;
  readonly #retries: RetryRoutes;
  readonly #tails: TailStreams;

  constructor(deps: ApiDeps) {
    this.#deps = deps;
    this.#requests = new RequestSessions(deps.sessions, deps.clock);
    this.#logins = new LoginRoutes(deps, this.#requests);
    this.#senders = new SenderRoutes(deps.answers, this.#requests);
    this.#known = new RequestRoutes(deps, this.#requests);
    this.#roles = new RoleRoutes(deps.answers, this.#requests);
    this.#retries = new RetryRoutes(this.#requests);
    this.#tails = new TailStreams(deps, this.#requests);
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
      me: ['GET', () => this.#roles.me(asked)],
      senders: ['GET', async () => this.#write(asked, () => this.#deps.answers.senders)],
      health: ['GET', async () => this.#write(asked, () => this.#deps.answers.health())],
      machine: ['GET', () => this.#roles.machine(asked)],
      'make-secret': ['POST', () => this.#senders.makeSecret(asked)],
      'which-sender': ['POST', () => this.#senders.whichSender(asked)],
      unusable: ['POST', () => this.#roles.unusable(asked)],
      'secret-form': ['POST', () => this.#senders.secretForm(asked)],
      'try-hmac': ['POST', () => this.#senders.tryHmac(asked)],
      send: ['POST', () => this.#senders.send(asked)],
      replay: ['POST', () => this.#senders.replay(asked)],
      held: ['POST', () => this.#known.held(asked)],
      requests: ['POST', () => this.#known.list(asked)],
      request: ['POST', () => this.#known.find(asked)],
      retry:
        request.method === 'GET'
          ? ['GET', () => this.#retries.state(asked)]
          : ['POST', () => this.#retries.begin(asked)],
      'retry-cancel': ['POST', () => this.#retries.cancel(asked)],
      sql: ['POST', () => this.#roles.sql(asked)],
      tail: ['GET', () => this.#tails.open(asked)],
    };
    const found = Object.hasOwn(routes, route) ? routes[route] : undefined;
    if (found === undefined) throw new Refused('not_found', 'the console has no such path');
    const [method, run] = found;
    if (request.method !== method) throw new Refused('method_not_allowed', `only ${method} is allowed here`);
    refuseOtherPages(request);
    await run();
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
