/**
 * Who may talk to the events gateway. Takes a request's headers and the address it arrived at, returns null or the refusal:
 * `host_refused` (a name that is not the gateway's: DNS rebinding), `page_refused` (a web page of another origin),
 * `token_required`. Pure but for the token's digest. A browser cannot forge Host and Origin, and any other client has no need
 * to: these two checks protect a gateway without a token from the web pages that its owner visits.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { refusal } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';

export interface GuardOptions {
  /** The address that the gateway is configured to listen on. */
  readonly host: string;
  readonly token: string | null;
  /** Web origins that may call, in lower case; `*`: all. */
  readonly origins: readonly string[];
  /** Further names of the gateway besides its own address, with or without port; `*`: any. */
  readonly hosts: readonly string[];
  /** Whether the door itself speaks TLS. */
  readonly secure: boolean;
}

export interface GuardedRequest {
  /** The value of a header by its lower-case name. */
  readonly one: (name: string) => string | undefined;
  /** The local end of the connection. */
  readonly localAddress: string;
  readonly localPort: number;
}

export class RequestGuard {
  readonly #options: GuardOptions;
  readonly #token: Buffer | null;
  readonly #origins: ReadonlySet<string>;
  readonly #hosts: ReadonlySet<string>;
  /** The last accepted host: nearly all requests use the same one. */
  #last = { host: '', localAddress: '', localPort: 0 };

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#token = options.token === null ? null : digest(options.token);
    this.#origins = new Set(options.origins);
    this.#hosts = new Set(options.hosts.map((host) => host.toLowerCase()));
  }

  /** Whether the request comes from an allowed place. */
  place(request: GuardedRequest): Refusal | null {
    const host = request.one('host');
    // A request without Host (HTTP/1.0) is not from a browser.
    if (host !== undefined && !this.#isOurs(host, request)) {
      return refusal('host_refused', `the events gateway is not called ${shown(host.toLowerCase())}`);
    }
    const origin = request.one('origin')?.toLowerCase();
    if (origin === undefined) {
      if (!this.#isOfAnotherSite(request.one('sec-fetch-site'))) return null;
      return refusal('page_refused', 'web pages of other sites may not call the events gateway');
    }
    if (this.allows(origin) || this.#isSameOrigin(origin, host?.toLowerCase())) return null;
    return refusal('page_refused', `web pages of ${shown(origin)} may not call the events gateway`);
  }

  /** Whether pages of this origin may read answers. */
  allows(origin: string): boolean {
    return this.#origins.has('*') || this.#origins.has(origin.toLowerCase());
  }

  /** A token of CREATE TOKEN, or a text of that form; it never grants more, even if no token is required. */
  scopedToken(authorization: string | undefined): string | null {
    const given = bearerOf(authorization);
    return given?.startsWith('hgt_') === true && !this.#isToken(given) ? given : null;
  }

  token(authorization: string | undefined): Refusal | null {
    if (this.#token === null) return null;
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

  /**
   * Browsers omit Origin from some requests (GET, HEAD), but state whether they are cross-site. Without the origin's name, an
   * allowed origin cannot be distinguished from any other.
   */
  #isOfAnotherSite(site: string | undefined): boolean {
    if (site === undefined || this.#origins.has('*')) return false;
    return !['same-origin', 'none'].includes(site.toLowerCase());
  }

  #isOurs(host: string, request: GuardedRequest): boolean {
    const { localAddress, localPort } = request;
    const last = this.#last;
    if (host === last.host && localAddress === last.localAddress && localPort === last.localPort) return true;
    const isOurs = this.#isNamed(host.toLowerCase(), request);
    if (isOurs) this.#last = { host, localAddress, localPort };
    return isOurs;
  }

  #isNamed(host: string, request: GuardedRequest): boolean {
    if (this.#hosts.has('*') || this.#hosts.has(host)) return true;
    const { name, port } = splitHost(host, this.#options.secure ? 443 : 80);
    if (this.#hosts.has(name)) return true;
    if (port !== request.localPort) return false;
    const local = plainAddress(request.localAddress);
    return isLoopbackName(name) || plainAddress(name) === local || name === this.#options.host.toLowerCase();
  }

  /**
   * A page served by the gateway itself: its host has been checked already. A proxy in front of a plain door may add TLS, so
   * https is accepted there too. A door with TLS serves no http page: such a page may have been altered on its way.
   */
  #isSameOrigin(origin: string, host: string | undefined): boolean {
    if (host === undefined) return false;
    return origin === `https://${host}` || (!this.#options.secure && origin === `http://${host}`);
  }
}

function bearerOf(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : /^bearer +([^ ]+) *$/i.exec(authorization)?.[1];
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
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
