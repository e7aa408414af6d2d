/**
 * Who may come to a door, and how often. Takes an address and what proxies say of it, returns the address of the
 * client, or a refusal: `address_refused` for an address outside the owner's networks, `rate_limited` for an address
 * that sends too often, or for a table that gets too many requests. Touches nothing but its own counts.
 *
 * Each proxy appends the address that it saw to a header, so the list is read from its end, and only for as long as the address that wrote an entry is
 * trusted: anything further left was written by strangers.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { canonicalAddress, clientNetwork } from '../kit/address.ts';
import type { Networks } from '../kit/networks.ts';
import type { Rate } from '../kit/rate.ts';
import { limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { RateLimit } from './rate-limit.ts';
import type { RateCounts } from './rate-limit.ts';

export interface AdmissionOptions {
  /** Networks of the owner's proxies; null: none is trusted. */
  readonly trustedProxies: Networks | null;
  readonly forwardedHeader: ForwardedHeader;
  /** null: any address. */
  readonly allowed: Networks | null;
  /** Limit on requests from one address; null: any number. */
  readonly addressRate: Rate | null;
  /** Limit on requests for one table; null: any number. */
  readonly tableRate: Rate | null;
  /** Other processes take requests under the same limits, and are told what passes here; default: none does. */
  readonly shared?: boolean;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

/** What passed in one process, for the other processes. */
export interface Passed {
  readonly addresses: RateCounts;
  readonly tables: RateCounts;
}

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #addresses: RateLimit | null;
  readonly #tables: RateLimit | null;

  constructor(options: AdmissionOptions) {
    const { addressRate, tableRate, shared = false } = options;
    this.#options = options;
    this.#addresses =
      addressRate === null ? null : new RateLimit(addressRate, limits.rateAddressesMax, shared);
    this.#tables = tableRate === null ? null : new RateLimit(tableRate, limits.rateTablesMax, shared);
  }

  /** Whether a client's address may differ from that of the other end of the connection. */
  get believesProxies(): boolean {
    return this.#options.trustedProxies !== null;
  }

  /** `peer`: the address as the socket reports it. */
  clientAddress(peer: string, request: { readonly headers: IncomingHttpHeaders }): string {
    const { trustedProxies, forwardedHeader } = this.#options;
    if (trustedProxies === null) return canonicalAddress(peer) ?? peer;
    const header = request.headers[forwardedHeader];
    return clientAddress(
      peer,
      Array.isArray(header) ? header.join() : header,
      forwardedHeader,
      trustedProxies,
    );
  }

  /** null: a request from that client may pass, and is counted. */
  refuses(address: string): Refusal | null {
    const { allowed, clock } = this.#options;
    if (allowed !== null && (address === '' || !allowed.has(address))) return refusal('address_refused');
    if (this.#addresses === null) return null;
    return tooOften(this.#addresses.take(clientNetwork(address), clock()), 'address');
  }

  /** One more request for that table is counted; throws Refused if it may not be stored. */
  admitTable({ database, schema, table }: TableName): void {
    if (this.#tables === null) return;
    // No name in PostgreSQL contains NUL.
    const waitMs = this.#tables.take(`${database}\0${schema}\0${table}`, this.#options.clock());
    const why = tooOften(waitMs, 'table');
    if (why !== null) throw new Refused(why);
  }

  /** What passed since the last call; null: nothing did, or nothing is counted. */
  passed(): Passed | null {
    const addresses = this.#addresses?.told() ?? [];
    const tables = this.#tables?.told() ?? [];
    return addresses.length + tables.length === 0 ? null : { addresses, tables };
  }

  /** Counts what passed in another process. */
  charge({ addresses, tables }: Passed): void {
    const now = this.#options.clock();
    this.#addresses?.charge(addresses, now);
    this.#tables?.charge(tables, now);
  }
}

const messages = {
  address: 'too many requests from this address',
  table: 'too many requests for this table',
} as const;

function tooOften(waitMs: number, of: keyof typeof messages): Refusal | null {
  if (waitMs === 0) return null;
  return { ...refusal('rate_limited', messages[of]), retryAfterSeconds: Math.ceil(waitMs / 1_000) };
}

/** Nearly all proxies write `x-forwarded-for`; `forwarded` is RFC 7239. */
type ForwardedHeader = 'x-forwarded-for' | 'forwarded';

/** If an entry cannot be read, the address is that of the proxy which wrote it. */
export function clientAddress(
  peer: string,
  header: string | undefined,
  kind: ForwardedHeader,
  trusted: Networks,
): string {
  let address = canonicalAddress(peer) ?? peer;
  if (header === undefined) return address;
  // Not parsed as a whole: a quote that a stranger left open would swallow what the proxies appended.
  for (let end = header.length; end > 0 && isTrusted(trusted, address);) {
    const comma = header.lastIndexOf(',', end - 1);
    const entry = readEntry(header.slice(comma + 1, end).trim(), kind);
    if (entry === null) return address;
    address = entry;
    end = comma;
  }
  return address;
}

function isTrusted(trusted: Networks, address: string): boolean {
  return address !== '' && trusted.has(address);
}

function readEntry(text: string, kind: ForwardedHeader): string | null {
  if (kind === 'x-forwarded-for') return readNode(text);
  for (const pair of text.split(';')) {
    const [, value = ''] = /^\s*for\s*=\s*(.*?)\s*$/i.exec(pair) ?? [];
    if (value !== '') return readNode(/^"(.*)"$/.exec(value)?.[1] ?? value);
  }
  return null;
}

/** An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. */
function readNode(text: string): string | null {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text);
  if (bracketed !== null) return canonicalAddress(bracketed[1] ?? '');
  const withPort = /^([\d.]+):\d{1,5}$/.exec(text);
  return canonicalAddress(withPort?.[1] ?? text);
}
