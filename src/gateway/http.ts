/**
 * What happens to a request of the events gateway: route → guard → token → handler. Takes exchanges from the front, answers each; refuses as the guard,
 * the tokens and the handlers do, and with `malformed_path`, `malformed_request` (two Authorizations), `route_unknown`, `method_not_allowed`, `overloaded`,
 * `draining` and `engine_unavailable`.
 */
import { remembered } from '../kit/memoize.ts';
import type { HttpReply } from '../http/plain-answer.ts';
import { monotonicMs } from '../observe/context.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { storeEvents } from './events.ts';
import type { EventRequest } from './event-store.ts';
import { connectionWords } from './answers.ts';
import { GatewayExchange } from './exchange.ts';
import type { GatewayTracing } from './exchange.ts';
import type { GatewayOptions, OpenedGateway } from './gateway-options.ts';
import { RequestGuard } from './guard.ts';
import { openapiDocument } from './openapi.ts';
import { isEventsPreflight, preflight } from './pages.ts';
import { readEvent, valuesOf } from './query.ts';
import { routeOf } from './routes.ts';
import type { GatewayRoute } from './routes.ts';
import { ScopedTokens } from './tokens.ts';
import type { ShownToken } from './tokens.ts';
import { answerSql } from './sql-route.ts';
import { streamRows } from './stream-route.ts';
import type { Connection } from '../http/connection.ts';
import type { Incoming } from '../http/exchange.ts';
import type { HttpHandler } from '../http/received-requests.ts';

export class GatewayHttp implements HttpHandler<GatewayExchange> {
  readonly #options: GatewayOptions & OpenedGateway;
  readonly #guard: RequestGuard;
  /** null: no request is traced. */
  readonly #tracing: GatewayTracing | null;
  readonly #tokens: ScopedTokens;
  /** Requests that were admitted and have not ended: what strangers do not send of a refused body keeps nobody out. */
  #inFlight = 0;
  /** Of these, those with a token of CREATE TOKEN, or without one that somebody else would need. */
  #ofTokens = 0;
  /** Both remember what follows from a request's target. */
  readonly #routeOfPost: (target: string) => GatewayRoute | Refusal;
  readonly #eventOf: (target: string) => EventRequest;
  readonly #document: string;

  constructor(options: GatewayOptions & OpenedGateway) {
    const { tracer = null, tls, limits, version, token, databases, clock = monotonicMs } = options;
    this.#options = options;
    this.#tracing = tracer === null ? null : { tracer, scheme: tls === null ? 'http' : 'https' };
    this.#tokens = new ScopedTokens(databases.tokens, clock);
    this.#routeOfPost = remembered((target) => routeOf('POST', target), limits.eventsTargetsMax);
    this.#eventOf = remembered((target) => readEvent(target, databases.database), limits.eventsTargetsMax);
    this.#guard = new RequestGuard({ ...options, secure: tls !== null });
    this.#document = JSON.stringify(openapiDocument(version, token !== null || options.closed === true));
  }

  exchange(incoming: Incoming): GatewayExchange {
    const exchange = new GatewayExchange(this.#options.observe, incoming);
    // What follows a stream would be done, and its answer held, but never sent.
    if (exchange.method === 'GET' && isStream(exchange.target)) exchange.closeAfterAnswer();
    return exchange;
  }

  serve(exchange: GatewayExchange): void {
    const { method, target } = exchange;
    const route = method === 'POST' ? this.#routeOfPost(target) : routeOf(method, target);
    const isDoubtful = 'code' in route && route.code === 'malformed_path';
    const why = isDoubtful ? route : doubledRefusal(exchange);
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
    const isEvents = name === 'events' || isEventsPreflight(exchange);
    // null, unless it comes with a token of CREATE TOKEN, or from a page that only such a token may allow.
    const shown = this.#guard.admit(exchange, isEvents ? 'events' : name === 'stream' ? 'stream' : null);
    if (shown !== null) return this.#serveIfAllowed(exchange, route, shown);
    exchange.onEnded(this.#begin(false));
    return this.#handle(exchange, route);
  }

  /** A stranger who holds a token need not send the rest of a body. */
  #serveIfAllowed(
    exchange: GatewayExchange,
    route: GatewayRoute | Refusal,
    shown: ShownToken,
  ): Promise<void> {
    const { method, target } = exchange;
    // A preflight may be for either method.
    const database =
      shown.reads || method === 'OPTIONS'
        ? this.#options.databases.database(valuesOf(target, 'database')[0])
        : this.#eventOf(target).database;
    const settle = this.#begin(true);
    const handled = this.#tokens.admit(database, shown).then((scope) => {
      exchange.scope = scope;
      return this.#handle(exchange, route);
    });
    return handled.finally(settle);
  }

  /** Counts a request; the returned function ends that. Throws Refused. */
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

  /** Throws or rejects with Refused. */
  #handle(exchange: GatewayExchange, route: GatewayRoute | Refusal): Promise<void> | void {
    if (exchange.method === 'OPTIONS') return preflight(exchange);
    if ('code' in route) throw new Refused(route);
    const { databases, sessions, streams, limits, metrics } = this.#options;
    switch (route.name) {
      case 'events':
        return storeEvents(exchange, this.#eventOf(exchange.target), databases.events);
      case 'stream':
        return streamRows(exchange, streams, databases.database, limits.gatewayReadPauseMs);
      case 'sql':
        return answerSql(exchange, sessions, databases.database, limits.gatewayReadPauseMs);
      case 'health':
        if (databases.unavailable() !== null) throw new Refused('engine_unavailable');
        return exchange.answerJson('{"status":"ok"}');
      case 'openapi':
        return exchange.answerJson(this.#document);
      case 'metrics':
        if (metrics === null) throw new Refused('route_unknown');
        return answerMetrics(exchange, metrics);
    }
  }

  words(why: Refusal, connection: Connection): HttpReply {
    const { gate, observe } = this.#options;
    const address = gate.clientAddress(connection.remoteAddress, { headers: {} });
    return connectionWords(observe, address, why);
  }
}

async function answerMetrics(
  exchange: GatewayExchange,
  { contentType, text }: NonNullable<GatewayOptions['metrics']>,
): Promise<void> {
  const headers = { 'content-type': contentType };
  exchange.answer({ code: 'ok', status: 200, headers, text: await text() });
}

function isStream(target: string): boolean {
  const route = routeOf('GET', target);
  return !('code' in route) && route.name === 'stream';
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
