/**
 * The only way in which Headgate makes calls over the network: because of a request, a GET over TLS to a host that the caller has pinned;
 * for its owner, a POST to a URL from the settings, deliveries to hosts that are listed there, calls of senders' APIs, and exchanges with the authority, both from the settings.
 * Takes a URL; returns the answer.
 * Refuses (throws OutgoingError) whatever is not plain: an unknown port, a user, an address that is not public, a redirect, a status that
 * the call does not accept, and an answer that takes too long or is too large. Names are resolved once, and exactly the address that was
 * checked is connected to, with the certificate checked for the name. Proxies from the environment are not used.
 */
import { lookup } from 'node:dns/promises';
import { request as requestPlain } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import { request } from 'node:https';
import { abortAfter } from '../kit/abort-signal.ts';
import { canonicalAddress, hostOf, isLoopbackHost } from '../kit/address.ts';
import { Networks } from '../kit/networks.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';

class OutgoingError extends Error {}

/** How names and addresses are reached: the network, or a test's replacement for it. */
export interface Network {
  /** Every address of a host. */
  readonly resolve: (host: string) => Promise<readonly string[]>;
  readonly isAllowed: (address: string) => boolean;
  /** The port to connect to for a URL with this port; null: none. */
  readonly port: (of: string) => number | null;
  /** Certificate authorities instead of the system's. */
  readonly ca?: string | undefined;
  /** Also without TLS. */
  readonly plain?: boolean;
}

export type Fetch = (url: URL) => Promise<Buffer>;
/** Sends JSON; only a 2xx status is accepted. */
export type Post = (url: URL, json: string, signal: AbortSignal) => Promise<void>;

/** Addresses that are not public: private, local, documentation, tunnels that lead to such addresses, and multicast. */
const specialText =
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 ' +
  '192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 ' +
  '2001::/23 2001:db8::/32 2002::/16 3fff::/20';
/** Parsed when the first address is checked: few Headgates call out, and parsing takes a fiftieth of a startup. */
let networks: readonly ReturnType<typeof Networks.parse>[] | null = null;

export function isPublicAddress(text: string): boolean {
  const address = canonicalAddress(text);
  const [special, global6] = (networks ??= [Networks.parse(specialText), Networks.parse('2000::/3')]);
  if (address === null || !(special instanceof Networks) || !(global6 instanceof Networks)) return false;
  return !special.has(address) && (!address.includes(':') || global6.has(address));
}

/**
 * Every address of a host. The process has two threads for this, and a name whose server does not answer holds one for as long as the system tries: so
 * names that were not resolved in `quickMs` the last time, or never before, are looked up one after the other, and one name once, however many calls want it.
 */
export function createResolver(
  look: (host: string) => Promise<readonly string[]>,
  quickMs: number,
): Network['resolve'] {
  const pending = new Map<string, Promise<readonly string[]>>();
  const quick = new Set<string>();
  let last: Promise<unknown> = Promise.resolve();
  const ask = async (host: string): Promise<readonly string[]> => {
    const startedMs = performance.now();
    const late = setTimeout(() => quick.delete(host), quickMs).unref();
    const found = await look(host).finally(() => clearTimeout(late));
    if (performance.now() - startedMs < quickMs) quick.add(host);
    return found;
  };
  return (host) => {
    const known = pending.get(host);
    if (known !== undefined) return known;
    const isQuick = quick.has(host);
    const begun = (isQuick ? ask(host) : last.then(() => ask(host))).finally(() => pending.delete(host));
    if (!isQuick) last = begun.catch(() => undefined);
    pending.set(host, begun);
    return begun;
  };
}

const lookUp = async (host: string): Promise<readonly string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address);

export const publicNetwork: Network = {
  resolve: createResolver(lookUp, limits.outgoingLookupMs),
  isAllowed: isPublicAddress,
  // 553 is Event Grid's port; the caller has pinned host and port.
  port: (of) => (of === '' ? 443 : of === '553' ? 553 : null),
};

/** Where a URL from the settings may lead: its owner has chosen the host, and without TLS it has to be this machine. */
function ownersNetwork(isPlain: boolean): Network {
  return {
    resolve: publicNetwork.resolve,
    isAllowed: isPlain ? (address) => isLoopbackHost(canonicalAddress(address) ?? '') : () => true,
    port: (of) => (of === '' ? (isPlain ? 80 : 443) : Number(of)),
    plain: isPlain,
  };
}

/** As settings list the hosts that may be called. */
export function hostAndPort({ protocol, hostname, port }: URL): string {
  return `${hostname}:${port === '' ? (protocol === 'https:' ? '443' : '80') : port}`;
}

/** Where a listed host's name may lead: to public addresses, to networks that are listed, or to the address that the URL itself has. */
export function networkFor(to: URL, listed: string | null): Network {
  const own = canonicalAddress(hostOf(to));
  const parsed = listed === null ? null : Networks.parse(listed);
  const isListed = (address: string): boolean => parsed instanceof Networks && parsed.has(address);
  const isPlain = to.protocol === 'http:';
  return {
    resolve: publicNetwork.resolve,
    isAllowed: (text) => {
      const address = canonicalAddress(text);
      if (address === null) return false;
      if (address === own && (!isPlain || isLoopbackHost(address))) return true;
      // Without TLS only where somebody answers for the network.
      return isListed(address) || (!isPlain && isPublicAddress(address));
    },
    port: (of) => (of === '' ? (isPlain ? 80 : 443) : Number(of)),
    plain: isPlain,
  };
}

/** For URLs from the settings only: it never calls a URL that came with a request. */
export function createPost(bounds: OutgoingBounds): Post {
  return async (url, json, signal) => {
    const network = ownersNetwork(url.protocol === 'http:');
    const body = { type: 'application/json', text: json };
    await call(network, bounds, url, { method: 'POST', body, signal, good: isDone });
  };
}

const isDone = (status: number) => status >= 200 && status < 300;

/** Any status is an answer. */
export type HttpExchange = (url: URL, sent: Omit<OutgoingRequest, 'good'>) => Promise<OutgoingResponse>;

/** Over TLS to any host, for URLs from the settings only. */
export function createExchange(bounds: OutgoingBounds): HttpExchange {
  return (url, sent) => call(ownersNetwork(false), bounds, url, { ...sent, good: () => true });
}

/** To the API that the settings name, without TLS only on this machine; any status is an answer. */
export const createApiCall =
  (bounds: OutgoingBounds): HttpExchange =>
  (url, sent) =>
    call(ownersNetwork(url.protocol === 'http:'), bounds, url, { ...sent, good: () => true });

/** To a host that the owner has listed; any status is an answer. */
export const createDelivery =
  (network: Network, bounds: OutgoingBounds) =>
  (url: URL, sent: Omit<OutgoingRequest, 'good'>): Promise<OutgoingResponse> =>
    call(network, bounds, url, { ...sent, good: () => true });

/** Sends JSON; any status is an answer. */
export type HttpPost = (
  url: URL,
  headers: Readonly<Record<string, string>>,
  json: string,
  signal: AbortSignal,
) => Promise<OutgoingResponse>;

/** For the receiver of telemetry that the settings name: over TLS to any address, without it to one that is not public. */
export function createTelemetryPost(bounds: OutgoingBounds): HttpPost {
  return (url, headers, text, signal) => {
    const isPlain = url.protocol === 'http:';
    const network = {
      ...ownersNetwork(isPlain),
      isAllowed: (address: string) => !isPlain || !isPublicAddress(address),
    };
    const body = { type: 'application/json', text };
    return call(network, bounds, url, { method: 'POST', headers, body, signal, good: () => true });
  };
}

interface OutgoingRequest {
  readonly headers?: Readonly<Record<string, string>>;
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly body?: { readonly type: string; readonly text: string };
  /** Aborted when the caller gives up. */
  readonly signal?: AbortSignal;
  /** Given a status: whether the answer is read, or refused. */
  readonly good: (status: number) => boolean;
}

export interface OutgoingResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** What `Retry-After` says (RFC 9110 §10.2.3), in ms from `nowMs`: less than 0 is a date that has passed; null: nothing that can be read. */
export function retryAfterMs({ headers }: Pick<OutgoingResponse, 'headers'>, nowMs: number): number | null {
  const said = headers['retry-after'] ?? '';
  const ms = /^\d{1,9}$/.test(said) ? Number(said) * 1_000 : Date.parse(said) - nowMs;
  return Number.isFinite(ms) ? ms : null;
}

type OutgoingBounds = Pick<Limits, 'outgoingMs' | 'outgoingBytesMax'>;

export function createFetch(network: Network, bounds: OutgoingBounds): Fetch {
  return async (url) =>
    (await call(network, bounds, url, { method: 'GET', good: (status) => status === 200 })).body;
}

async function call(
  network: Network,
  bounds: OutgoingBounds,
  url: URL,
  sent: OutgoingRequest,
): Promise<OutgoingResponse> {
  const { protocol, port, username, password, hash } = url;
  const dialled = network.port(port);
  const scheme = network.plain === true ? 'http:' : 'https:';
  if (protocol !== scheme || dialled === null || username !== '' || password !== '' || hash !== '')
    throw new OutgoingError('the URL is not a plain https one');
  const signal = abortAfter(bounds.outgoingMs, ...(sent.signal === undefined ? [] : [sent.signal]));
  const addresses = await inTime(network.resolve(hostOf(url)), signal);
  const [address] = addresses;
  // One address that is not public is reason enough to refuse: the next lookup may return another order.
  if (address === undefined || !addresses.every((it) => network.isAllowed(it)))
    throw new OutgoingError(`${url.hostname} has no address that may be called`);
  return ask(url, address, { ...network, port: dialled }, bounds, { ...sent, signal });
}

function ask(
  url: URL,
  address: string,
  { port, ca, plain }: { readonly port: number } & Pick<Network, 'ca' | 'plain'>,
  bounds: OutgoingBounds,
  { method, headers = {}, body, signal, good }: OutgoingRequest & { readonly signal: AbortSignal },
): Promise<OutgoingResponse> {
  return new Promise((resolve, reject) => {
    const fail = (message: string) => reject(new OutgoingError(`${url.hostname}: ${message}`));
    const asked = (plain === true ? requestPlain : request)({
      method,
      host: address,
      // An address cannot be sent as a TLS server name; the certificate is checked for it all the same.
      ...(canonicalAddress(hostOf(url)) === null ? { servername: url.hostname } : {}),
      port,
      path: `${url.pathname}${url.search}`,
      headers: {
        Host: url.host,
        Accept: '*/*',
        'User-Agent': 'Headgate',
        ...headers,
        ...(body === undefined
          ? {}
          : { 'Content-Type': body.type, 'Content-Length': Buffer.byteLength(body.text) }),
      },
      agent: false,
      signal,
      maxHeaderSize: Math.min(bounds.outgoingBytesMax, 65_536),
      ...(ca === undefined ? {} : { ca }),
    });
    asked.once('error', (error) => fail(signal.aborted ? 'it took too long' : error.message));
    const tooLarge = () => {
      fail('the answer is too large');
      asked.destroy();
    };
    // There may be any number of interim answers (103), and of extensions of chunks: they would keep the event loop busy until the time is over.
    const isEndless = () =>
      (asked.socket?.bytesRead ?? 0) > bounds.outgoingBytesMax + limits.outgoingBesidesBytesMax;
    asked.on('information', () => {
      if (!asked.destroyed && isEndless()) tooLarge();
    });
    // Without a listener Node closes the connection, and says neither that it failed nor what it answered.
    asked.once('upgrade', ({ statusCode = 0 }, socket) => {
      socket.destroy();
      fail(`it answered ${statusCode}`);
    });
    asked.once('response', (answer) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      answer.on('data', (part: Buffer) => {
        parts.push(part);
        bytes += part.length;
        if (bytes > bounds.outgoingBytesMax || isEndless()) tooLarge();
      });
      answer.once('error', (error) => fail(signal.aborted ? 'it took too long' : error.message));
      const { statusCode: status = 0, headers } = answer;
      answer.once('end', () => resolve({ status, headers, body: Buffer.concat(parts) }));
      if (good(status)) return;
      fail(`it answered ${status}`);
      asked.destroy();
    });
    asked.end(body?.text);
  });
}

async function inTime<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(new OutgoingError('the name was not resolved in time')), {
      once: true,
    });
    promise.then(resolve, (error: Error) => reject(new OutgoingError(error.message)));
  });
}
