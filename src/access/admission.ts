/**
 * Who may come to a door, and how often. Takes an address and what proxies say of it, returns the address of the
 * client, or a refusal: `address_refused` for an address outside the owner's networks, `rate_limited` for an address
 * that sends too often, or for a table that gets too many requests. Touches nothing but its own counts.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { canonicalAddress, clientNetwork } from '../kit/address.ts';
import type { Networks } from '../kit/networks.ts';
import type { Rate } from '../kit/rate.ts';
import { limits } from '../config/limits.ts';
import type { TableName } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { clientAddress } from './client-address.ts';
import type { ForwardedHeader } from './client-address.ts';
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
