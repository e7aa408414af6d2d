/**
 * Names and web pages: whether a request comes to a name of the gateway, whose pages may call it, and what their browsers ask before. Takes a request's
 * headers and its target; returns null or the refusals `host_refused` (a name that is not the gateway's: DNS rebinding) and `page_refused` (a web page of
 * another origin), answers preflights; refuses with `malformed_query` (two tokens) and `method_not_allowed`. Touches nothing. A browser cannot forge Host and
 * Origin, and any other client has no need to: these two checks protect a gateway without a token from the web pages that its owner visits.
 */
import { isIP } from 'node:net';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { GatewayExchange } from './exchange.ts';
import { valuesOf } from './query.ts';
import { routeOf } from './routes.ts';

export interface OwnNames {
  /** The address that the gateway is configured to listen on. */
  readonly host: string;
  /** Web origins that may call, in lower case; `*`: all. */
  readonly origins: readonly string[];
  /** Further names of the gateway besides its own address, with or without port; `*`: any. */
  readonly hosts: readonly string[];
  /** Whether the door itself speaks TLS. */
  readonly secure: boolean;
}

type PlacedRequest = Pick<GatewayExchange, 'one' | 'localAddress' | 'localPort'>;

export class AllowedPages {
  readonly #host: string;
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #secure: boolean;
  /** The last accepted host: nearly all requests use the same one. */
  #last = { host: '', localAddress: '', localPort: 0 };

  constructor({ host, origins, hosts, secure }: OwnNames) {
    this.#host = host.toLowerCase();
    this.#hosts = new Set(hosts.map((name) => name.toLowerCase()));
    this.#origins = new Set(origins);
    this.#secure = secure;
  }

  /** Whether pages of this origin may read answers. */
  has(origin: string): boolean {
    return this.#origins.has('*') || this.#origins.has(origin.toLowerCase());
  }

  /** null: the request comes to a name of the gateway, and from no page or from one that may call. */
  refuses(request: PlacedRequest): Refusal | null {
    const host = request.one('host');
    // A request without Host (HTTP/1.0) is not from a browser.
    if (host !== undefined && !this.#isOurs(host, request))
      return refusal('host_refused', `the events gateway is not called ${shown(host.toLowerCase())}`);
    const origin = request.one('origin')?.toLowerCase();
    if (origin === undefined) {
      if (!this.#isOfAnotherSite(request.one('sec-fetch-site'))) return null;
      return refusal('page_refused', 'web pages of other sites may not call the events gateway');
    }
    if (this.has(origin) || this.#isSameOrigin(origin, host?.toLowerCase())) return null;
    return refusal('page_refused', `web pages of ${shown(origin)} may not call the events gateway`);
  }

  #isOurs(host: string, { localAddress, localPort }: PlacedRequest): boolean {
    const last = this.#last;
    if (host === last.host && localAddress === last.localAddress && localPort === last.localPort) return true;
    const isOurs = this.#names(host.toLowerCase(), localAddress, localPort);
    if (isOurs) this.#last = { host, localAddress, localPort };
    return isOurs;
  }

  /** `named`: in lower case. */
  #names(named: string, localAddress: string, localPort: number): boolean {
    const hosts = this.#hosts;
    if (hosts.has('*') || hosts.has(named)) return true;
    const { name, port } = splitHost(named, this.#secure ? 443 : 80);
    if (hosts.has(name)) return true;
    if (port !== localPort) return false;
    return isLoopbackName(name) || plainAddress(name) === plainAddress(localAddress) || name === this.#host;
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

/** `[::1]:8000` → `::1` and 8000; without a port, the default of the scheme. */
function splitHost(host: string, implied: number): { name: string; port: number } {
  const parts = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(host);
  if (parts === null) return { name: host, port: -1 };
  return { name: parts[1] ?? parts[2] ?? '', port: parts[3] === undefined ? implied : Number(parts[3]) };
}

function isLoopbackName(name: string): boolean {
  if (name === 'localhost' || name === '::1') return true;
  return isIP(name) === 4 && name.startsWith('127.');
}

/** An IPv4 address on an IPv6 socket looks like ::ffff:127.0.0.1. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

/** A stranger's text, made short and harmless for a message. */
function shown(text: string): string {
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
