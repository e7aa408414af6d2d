/**
 * Who may send a request to the events gateway. Takes a request, and what it is for; returns null, or what the database must be asked about its token;
 * refuses with `token_required`, `token_scope`, as pages.ts does because of the name that it comes to and the page that it comes from, and as the gate does.
 * Pure but for the token's digest and the gate's counts.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Admission } from '../access/admission.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { GatewayExchange } from './exchange.ts';
import { AllowedPages, tokenInQuery } from './pages.ts';
import type { OwnNames } from './pages.ts';
import type { ShownToken } from './tokens.ts';

export interface GuardOptions extends OwnNames {
  readonly token: string | null;
  /** Without a token nobody is let in but by a token of CREATE TOKEN. */
  readonly closed?: boolean;
  /** Decides who may connect and how often, and identifies the client behind a proxy. */
  readonly gate: Admission;
}

export class RequestGuard {
  readonly #gate: Admission;
  readonly #token: Buffer | null;
  readonly #closed: boolean;
  readonly #pages: AllowedPages;

  constructor(options: GuardOptions) {
    this.#gate = options.gate;
    this.#token = options.token === null ? null : digest(options.token);
    this.#closed = options.closed === true;
    this.#pages = new AllowedPages(options);
  }

  /**
   * null: the request may pass. Otherwise the database must be asked about its token of CREATE TOKEN, or about its page. Such tokens, and the pages that
   * they allow, are for storing and reading events alone: `kind`. Throws Refused.
   */
  admit(exchange: GatewayExchange, kind: 'events' | 'stream' | null): ShownToken | null {
    const { method, target } = exchange;
    // A health check reveals nothing else, and may use any host name, as load balancers do.
    const isHealth = method === 'GET' && target === '/v1/healthz';
    const place = this.#pages.refuses(exchange);
    const [origin, authorization] = [exchange.one('origin'), exchange.one('authorization')];
    const isPreflight = method === 'OPTIONS';
    const inQuery = kind === 'stream' ? tokenInQuery(target) : null;
    const scoped = isHealth || isPreflight ? null : (inQuery ?? this.scopedToken(authorization));
    // Only the database knows which pages its tokens allow.
    const isAsked =
      kind !== null && (scoped !== null || (isPreflight && origin !== undefined && place !== null));
    const passes = place?.code === 'host_refused' ? isHealth : isAsked;
    if (place !== null && !passes) throw new Refused(place);
    if (origin !== undefined && this.#pages.has(origin)) exchange.allowOrigin(origin);
    const unwelcome = this.#gate.refuses(exchange.remoteAddress);
    if (unwelcome !== null) throw new Refused(unwelcome);
    if (scoped !== null && kind === null) throw new Refused('token_scope', onlyEvents);
    // A preflight carries no credentials.
    const token = isHealth || isPreflight || isAsked ? null : this.refusesToken(authorization);
    if (token !== null) throw new Refused(token);
    if (!isAsked) return null;
    const allowOrigin = (it: string) => exchange.allowOrigin(it);
    return { reads: kind === 'stream', token: scoped, origin, place, allowOrigin };
  }

  /** A token of CREATE TOKEN, or a text of that form; it never grants more, even if no token is required. */
  scopedToken(authorization: string | undefined): string | null {
    const given = bearerOf(authorization);
    return given?.startsWith('hgt_') === true && !this.#isToken(given) ? given : null;
  }

  refusesToken(authorization: string | undefined): Refusal | null {
    if (this.#token === null) return this.#closed ? refusal('token_required', notOpened) : null;
    const given = bearerOf(authorization);
    if (given !== undefined && this.#isToken(given)) return null;
    return refusal(
      'token_required',
      given === undefined ? undefined : 'the bearer token is not the right one',
    );
  }

  /** Compared by digest, in constant time: reveals neither content nor length of the token. */
  #isToken(given: string): boolean {
    return this.#token !== null && timingSafeEqual(digest(given), this.#token);
  }
}

const notOpened =
  'this gateway is in front of a PostgreSQL that asks for a password, and is closed until EVENTS_API_TOKEN is set (HEADGATE_INSECURE=true opens it to whoever reaches it)';

const onlyEvents =
  'with a token of CREATE TOKEN there is POST /v1/events or, FOR SELECT, GET /v1/events, and nothing else';

function bearerOf(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : /^bearer +([^ ]+) *$/i.exec(authorization)?.[1];
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
