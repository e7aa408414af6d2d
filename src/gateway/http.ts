/**
 * What happens to a request of the events gateway: guard → route → handler. Takes exchanges from the front, answers each; refuses as the guard,
 * the gate and the handlers do, and with `malformed_path`, `malformed_request` (two Authorizations), `malformed_query` (two tokens), `route_unknown`,
 * `method_not_allowed`, `overloaded`, `draining`, `engine_unavailable` and `token_scope`.
 */
import type { Admission } from '../access/admission.ts';
import { remembered } from '../kit/memoize.ts';
import type { Connection } from '../http/connection.ts';
import type { Incoming, HttpReply } from '../http/exchange.ts';
import { monotonicMs } from '../observe/context.ts';
import type { Observe } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { eventsRoute, readEvent } from './events.ts';
import type { EventRequest } from './event-store.ts';
import { connectionWords } from './answers.ts';
import { GatewayExchange } from './exchange.ts';
import type { GatewayTracing } from './exchange.ts';
import type { GatewayOptions, OpenedGateway } from './gateway-options.ts';
import { RequestGuard } from './guard.ts';
import { openapiDocument } from './openapi.ts';
import { valuesOf } from './query.ts';
import { routeOf, targetRefusal } from './routes.ts';
import type { GatewayRoute, RouteName } from './routes.ts';
import { ScopedTokens } from './tokens.ts';
import type { TokenUse } from './tokens.ts';
import { sqlRoute } from './sql-route.ts';
import { streamRoute } from './stream-route.ts';
import type { HttpHandler } from '../http/requests.ts';

/** Throws or rejects with Refused. */
type RouteHandler = (exchange: GatewayExchange) => Promise<void> | void;

export class GatewayHttp implements HttpHandler<GatewayExchange> {
  readonly offers = null;
  readonly #options: GatewayOptions & OpenedGateway;
  readonly #guard: RequestGuard;
  readonly #gate: Admission;
  readonly #observe: Observe;
  /** null: no request is traced. */
  readonly #tracing: GatewayTracing | null;
  readonly #tokens: ScopedTokens;
  /** Requests that were admitted and have not ended: what strangers do not send of a refused body keeps nobody out. */
  #inFlight = 0;
  /** Of these, those with a token of CREATE TOKEN, or without one that somebody else would need. */
  #ofTokens = 0;
  readonly #eventOf: (target: string) => EventRequest;
  readonly #posted: (target: string) => Sought;
  /** null: served elsewhere. */
  readonly #handlers: { readonly [name in RouteName]: RouteHandler | null };

  constructor(options: GatewayOptions & OpenedGateway) {
    const { gate, observe, sessions, streams, limits, version, token, metrics, databases } = options;
    const { clock = monotonicMs } = options;
    const { events, database, unavailable, tokens } = databases;
    this.#options = options;
    this.#gate = gate;
    this.#observe = observe;
    const { tracer = null, tls } = options;
    this.#tracing = tracer === null ? null : { tracer, scheme: tls === null ? 'http' : 'https' };
    this.#tokens = new ScopedTokens(tokens, clock);
    this.#eventOf = remembered((target) => readEvent(target, database), limits.eventsTargetsMax);
    this.#posted = remembered((target) => soughtBy('POST', target), limits.eventsTargetsMax);
    this.#guard = new RequestGuard({ ...options, secure: options.tls !== null });
    const document = JSON.stringify(openapiDocument(version, token !== null));
    this.#handlers = {
      events: eventsRoute(events, this.#eventOf),
      stream: streamRoute(streams, database, limits.gatewayReadPauseMs),
      sql: sqlRoute(sessions, database, limits.gatewayReadPauseMs),
      health: (exchange) => {
        if (unavailable() !== null) throw new Refused('engine_unavailable');
        exchange.answerJson('{"status":"ok"}');
      },
      openapi: (exchange) => exchange.answerJson(document),
      metrics:
        metrics === null
          ? null
          : async (exchange) => {
              const headers = { 'content-type': metrics.contentType };
              exchange.answer({ code: 'ok', status: 200, headers, text: await metrics.text() });
            },
    };
  }

  exchange(incoming: Incoming): GatewayExchange {
    const exchange = new GatewayExchange(this.#observe, incoming);
    // What follows a stream would be done, and its answer held, but never sent.
    if (exchange.method === 'GET' && isStream(exchange.target)) exchange.closeAfterAnswer();
    return exchange;
  }

  words(why: Refusal, connection: Connection): HttpReply {
    const address = this.#gate.clientAddress(connection.remoteAddress, { headers: {} });
    return connectionWords(this.#observe, address, why);
  }

  serve(exchange: GatewayExchange): void {
    const { method, target } = exchange;
    const { doubtful, route } = method === 'POST' ? this.#posted(target) : soughtBy(method, target);
    const why = doubtful ?? doubledRefusal(exchange);
    if (why !== null) return exchange.refuse(why, true);
    if (exchange.context.draining) return exchange.refuse(refusal('draining'), true);
    try {
      const served = this.#serve(exchange, route);
      if (served instanceof Promise) served.catch((error: unknown) => exchange.refuseFor(error));
    } catch (error) {
      void exchange.refuseFor(error);
    }
  }

  #serve(exchange: GatewayExchange, route: GatewayRoute | Refusal): Promise<void> | void {
    const name = 'code' in route ? null : route.name;
    if (name === 'events' || name === 'stream' || name === 'sql') {
      exchange.route = name;
      if (this.#tracing !== null) exchange.trace(this.#tracing);
    }
    const kind =
      name === 'stream' ? 'stream' : name === 'events' || isEventsPreflight(exchange) ? 'events' : null;
    const asks = this.#admit(exchange, kind);
    const settle = this.#begin(asks !== null);
    if (asks === null) {
      exchange.onEnded(settle);
      return this.#handle(exchange, route);
    }
    const handled = this.#tokens.admit(asks).then((scope) => {
      exchange.scope = scope;
      return this.#handle(exchange, route);
    });
    return handled.finally(settle);
  }

  /** Counts a request; the returned function ends that. A stranger who holds a token need not send the rest of a body. Throws Refused. */
  #begin(isOfToken: boolean): () => void {
    const { gatewayRequestsMax, gatewayRequestsOfTokensMax } = this.#options.limits;
    if (this.#inFlight >= gatewayRequestsMax) throw new Refused('overloaded');
    if (isOfToken && this.#ofTokens >= gatewayRequestsOfTokensMax)
      throw new Refused('overloaded', 'too many requests with tokens are in flight');
    const ofTokens = isOfToken ? 1 : 0;
    this.#inFlight += 1;
    this.#ofTokens += ofTokens;
    return () => {
      this.#inFlight -= 1;
      this.#ofTokens -= ofTokens;
    };
  }

  #handle(exchange: GatewayExchange, route: GatewayRoute | Refusal): Promise<void> | void {
    if (exchange.method === 'OPTIONS') return preflight(exchange);
    const handler = 'code' in route ? null : this.#handlers[route.name];
    if (handler === null) throw new Refused('code' in route ? route : 'route_unknown');
    return handler(exchange);
  }

  /** null: the request is admitted; otherwise what remains to be checked of its token, or of its page. Throws Refused. */
  #admit(exchange: GatewayExchange, kind: 'events' | 'stream' | null): TokenUse | null {
    const { method, target } = exchange;
    // A health check reveals nothing else, and may use any host name, as load balancers do.
    const isHealth = method === 'GET' && target === '/v1/healthz';
    const place = this.#guard.place(exchange);
    const [origin, authorization] = [exchange.one('origin'), exchange.one('authorization')];
    const isPreflight = method === 'OPTIONS';
    const inQuery = kind === 'stream' ? tokenInQuery(target) : null;
    const scoped = isHealth || isPreflight ? null : (inQuery ?? this.#guard.scopedToken(authorization));
    // Only the database knows which pages its tokens allow.
    const isAsked =
      kind !== null && (scoped !== null || (isPreflight && origin !== undefined && place !== null));
    const passes = place?.code === 'host_refused' ? isHealth : isAsked;
    if (place !== null && !passes) throw new Refused(place);
    if (origin !== undefined && this.#guard.allows(origin)) exchange.allowOrigin(origin);
    const unwelcome = this.#gate.refuses(exchange.remoteAddress);
    if (unwelcome !== null) throw new Refused(unwelcome);
    if (scoped !== null && kind === null) throw new Refused('token_scope', onlyEvents);
    // A preflight carries no credentials.
    const token = isHealth || isPreflight || isAsked ? null : this.#guard.token(authorization);
    if (token !== null) throw new Refused(token);
    if (!isAsked) return null;
    const reads = kind === 'stream';
    // A preflight may be for either method.
    const { database } =
      reads || isPreflight
        ? { database: this.#options.databases.database(valuesOf(target, 'database')[0]) }
        : this.#eventOf(target);
    return { database, reads, token: scoped, origin, place, allowOrigin: (it) => exchange.allowOrigin(it) };
  }
}

/** What follows from the target alone. */
interface Sought {
  /** null: the target is well formed. */
  readonly doubtful: Refusal | null;
  readonly route: GatewayRoute | Refusal;
}

function soughtBy(method: string, target: string): Sought {
  const doubtful = targetRefusal(target);
  return { doubtful, route: doubtful ?? routeOf(method, target) };
}

function isStream(target: string): boolean {
  const { route } = soughtBy('GET', target);
  return !('code' in route) && route.name === 'stream';
}

const onlyEvents =
  'with a token of CREATE TOKEN there is POST /v1/events or, FOR SELECT, GET /v1/events, and nothing else';

/** null: there is none. If there is one, no other credential of the request counts. Throws Refused. */
function tokenInQuery(target: string): string | null {
  const [token = null, another] = valuesOf(target, 'token');
  if (another !== undefined)
    throw new Refused('malformed_query', 'the parameter token is given more than once');
  return token;
}

function isEventsPreflight({ method, target }: GatewayExchange): boolean {
  const route = method === 'OPTIONS' ? routeOf('POST', target) : null;
  return route !== null && !('code' in route) && route.name === 'events';
}

function preflight(exchange: GatewayExchange): void {
  const route = routeOf(exchange.method, exchange.target);
  const refused = 'code' in route && route.code === 'method_not_allowed' ? route : 'method_not_allowed';
  if (exchange.one('origin') === undefined) throw new Refused(refused);
  const headers = {
    'access-control-allow-methods': 'GET, POST',
    'access-control-allow-headers':
      'authorization, content-type, content-encoding, x-request-id, last-event-id',
    'access-control-max-age': '600',
  };
  exchange.answer({ code: 'ok', status: 204, headers, text: '' });
}

/** Node takes the first of two Authorizations; a proxy may have checked the other one. */
function doubledRefusal(exchange: GatewayExchange): Refusal | null {
  if (exchange.header?.('authorization') !== undefined) return null;
  const { rawHeaders } = exchange;
  let found = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 13 && name.toLowerCase() === 'authorization') found += 1;
  }
  return found > 1 ? refusal('malformed_request', 'more than one Authorization header') : null;
}
