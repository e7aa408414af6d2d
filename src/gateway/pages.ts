/**
 * Web pages that call the events gateway: whose pages may, and what their browsers ask before. Takes a request's headers and its target; returns null or
 * the refusal `page_refused`, answers preflights; refuses with `malformed_query` (two tokens) and `method_not_allowed`. Pure. A browser cannot forge
 * Origin, and any other client has no need to.
 */
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { GatewayExchange } from './exchange.ts';
import { valuesOf } from './query.ts';
import { routeOf } from './routes.ts';

export class AllowedPages {
  readonly #origins: ReadonlySet<string>;
  readonly #secure: boolean;

  /** `origins`: in lower case; `*`: all. `secure`: the door itself speaks TLS. */
  constructor(origins: readonly string[], secure: boolean) {
    this.#origins = new Set(origins);
    this.#secure = secure;
  }

  /** Whether pages of this origin may read answers. */
  has(origin: string): boolean {
    return this.#origins.has('*') || this.#origins.has(origin.toLowerCase());
  }

  /** null: no page calls, or one that may. */
  refuses(request: Pick<GatewayExchange, 'one'>, host: string | undefined): Refusal | null {
    const origin = request.one('origin')?.toLowerCase();
    if (origin === undefined) {
      if (!this.#isOfAnotherSite(request.one('sec-fetch-site'))) return null;
      return refusal('page_refused', 'web pages of other sites may not call the events gateway');
    }
    if (this.has(origin) || this.#isSameOrigin(origin, host?.toLowerCase())) return null;
    return refusal('page_refused', `web pages of ${shown(origin)} may not call the events gateway`);
  }

  /**
   * Browsers omit Origin from some requests (GET, HEAD), but state whether they are cross-site. Without the origin's name, an
   * allowed origin cannot be distinguished from any other.
   */
  #isOfAnotherSite(site: string | undefined): boolean {
    if (site === undefined || this.#origins.has('*')) return false;
    return !['same-origin', 'none'].includes(site.toLowerCase());
  }

  /**
   * A page served by the gateway itself: its host has been checked already. A proxy in front of a plain door may add TLS, so
   * https is accepted there too. A door with TLS serves no http page: such a page may have been altered on its way.
   */
  #isSameOrigin(origin: string, host: string | undefined): boolean {
    if (host === undefined) return false;
    return origin === `https://${host}` || (!this.#secure && origin === `http://${host}`);
  }
}

/** A stranger's text, made short and harmless for a message. */
export function shown(text: string): string {
  return text.replaceAll(/[^\x21-\x7e]/g, '?').slice(0, 100);
}

/** The token of a page that cannot send Authorization; null: there is none. If there is one, no other credential of the request counts. Throws Refused. */
export function tokenInQuery(target: string): string | null {
  const [token = null, another] = valuesOf(target, 'token');
  if (another !== undefined)
    throw new Refused('malformed_query', 'the parameter token is given more than once');
  return token;
}

export function isEventsPreflight({ method, target }: Pick<GatewayExchange, 'method' | 'target'>): boolean {
  const route = method === 'OPTIONS' ? routeOf('POST', target) : null;
  return route !== null && !('code' in route) && route.name === 'events';
}

/** Answers OPTIONS. Throws Refused. */
export function preflight(exchange: GatewayExchange): void {
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
