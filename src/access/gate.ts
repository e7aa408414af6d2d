/**
 * Who may come to a door, and how often. Takes an address and what proxies say of it, gives the address of the client,
 * or a refusal: `address_refused` for one outside the owner's networks, `rate_limited` for one that comes too often,
 * or for a table that is asked for too often. Touches nothing but its own counts.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { canonicalAddress, clientNetwork } from '../kit/address.ts';
import type { Networks } from '../kit/networks.ts';
import type { Rate } from '../kit/rate.ts';
import { limits } from '../tables/limits.ts';
import type { TableName } from '../tables/observations.ts';
import { refusal } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';
import { clientAddress } from './client-address.ts';
import type { ForwardedHeader } from './client-address.ts';
import { RateLimit } from './rate-limit.ts';
import type { Taken } from './rate-limit.ts';

export interface GateOptions {
  /** Networks of the owner's proxies; null: none is believed. */
  readonly trustedProxies: Networks | null;
  readonly forwardedHeader: ForwardedHeader;
  /** null: any address. */
  readonly allowed: Networks | null;
  /** Requests of one address; null: any number. */
  readonly addressRate: Rate | null;
  /** Requests for one table; null: any number. */
  readonly tableRate: Rate | null;
  /** Other processes take requests at the same rates, and are told what passes here; default: none does. */
  readonly shared?: boolean;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
}

/** What passed in one process, for the others. */
export interface Passed {
  readonly addresses: Taken;
  readonly tables: Taken;
}

export class Gate {
  readonly #options: GateOptions;
  readonly #addresses: RateLimit | null;
  readonly #tables: RateLimit | null;

  constructor(options: GateOptions) {
    const { addressRate, tableRate, shared = false } = options;
    this.#options = options;
    this.#addresses =
      addressRate === null ? null : new RateLimit(addressRate, limits.rateAddressesMax, shared);
    this.#tables = tableRate === null ? null : new RateLimit(tableRate, limits.rateTablesMax, shared);
  }

  /** Whether a client's address may be another than that of the connection's other end. */
  get believesProxies(): boolean {
    return this.#options.trustedProxies !== null;
  }

  /** `peer` as a socket has it. */
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

  /** null: a request of that client may come, and is counted. */
  refuses(address: string): Refusal | null {
    const { allowed, clock } = this.#options;
    if (allowed !== null && (address === '' || !allowed.has(address))) return refusal('address_refused');
    if (this.#addresses === null) return null;
    return tooOften(this.#addresses.take(clientNetwork(address), clock()), 'address');
  }

  /** null: one more request for that table may be stored, and is counted. */
  refusesTable({ database, schema, table }: TableName): Refusal | null {
    if (this.#tables === null) return null;
    const name = JSON.stringify([database, schema, table]);
    return tooOften(this.#tables.take(name, this.#options.clock()), 'table');
  }

  /** What passed since this was asked last; null: nothing did, or nobody counts. */
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
