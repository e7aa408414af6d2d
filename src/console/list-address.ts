/**
 * What a list of requests shows, as it stands in the page's address: filters, the range of time, the request that is open beside it. Names
 * are short, values are those of PostgreSQL and of the API, times are UTC. Pure.
 */
import { anyKept } from './request-filter.ts';
import type { KeptFilter } from './request-filter.ts';

/** Everything but the request that is open. '' is no filter. */
export interface ListAddress {
  readonly result: string;
  readonly schema: string;
  readonly table: string;
  readonly code: string;
  readonly cause: string;
  readonly sender: string;
  readonly event: string;
  readonly stored: string;
  readonly checked: string;
  readonly q: string;
  /** `15m`, `1h`, `24h`, `7d`, `30d`: up to now. */
  readonly range: string;
  /** As ISO 8601. */
  readonly from: string;
  readonly until: string;
}

export const noAddress: ListAddress = {
  result: '',
  schema: '',
  table: '',
  code: '',
  cause: '',
  sender: '',
  event: '',
  stored: '',
  checked: '',
  q: '',
  range: '',
  from: '',
  until: '',
};

export const ranges: Readonly<Record<string, readonly [string, number]>> = {
  '15m': ['15 minutes', 900_000],
  '1h': ['1 hour', 3_600_000],
  '24h': ['24 hours', 86_400_000],
  '7d': ['7 days', 604_800_000],
  '30d': ['30 days', 2_592_000_000],
};

export function addressOf(query: URLSearchParams): ListAddress {
  const names = Object.keys(noAddress) as (keyof ListAddress)[];
  const address = Object.fromEntries(
    names.map((name) => [name, query.get(name) ?? '']),
  ) as unknown as ListAddress;
  // Both in one, as people write it: a list of all requests would not be what it asks for.
  const [schema = '', ...table] = (query.get('endpoint') ?? '').split('.');
  return table.length > 0 && address.table === '' ? { ...address, schema, table: table.join('.') } : address;
}

/** Addresses of the list of refused requests, before there was one of all. */
export function addressOfRefused(query: URLSearchParams): Record<string, string> {
  const of = (name: string): string => query.get(name) ?? '';
  const [schema, table, code, checked] = [of('schema'), of('table'), of('code'), of('checked')];
  return { result: 'refused', schema, table, code, checked, q: of('text'), range: of('since') };
}

export const isFiltered = (address: ListAddress): boolean => Object.values(address).some((it) => it !== '');

export function filterOf(address: ListAddress, nowMs: number): KeptFilter {
  const { q, range, from, until, ...same } = address;
  const span = Object.hasOwn(ranges, range) ? (ranges[range]?.[1] ?? 0) : 0;
  const fromMs = span > 0 ? nowMs - span : momentOf(from);
  return { ...anyKept, ...same, text: q, fromMs, untilMs: span > 0 ? 0 : momentOf(until) };
}

const momentOf = (text: string): number => Math.max(0, Math.floor(Date.parse(text) || 0));

/** For its title and for empty lists: `refused, payments, “evt_99”, since 13:09`. */
export function wordsOf(address: ListAddress, senderName: (id: string) => string): string {
  const { result, table, code, sender, event, q, range, from, until, stored, cause } = address;
  return [
    result === ''
      ? ''
      : (Object.hasOwn(resultWords, result) ? (resultWords[result] ?? '') : result).toLowerCase(),
    table,
    code,
    cause,
    sender === '' ? '' : senderName(sender),
    event,
    stored === 'no' ? 'not yet stored' : stored === 'yes' ? 'stored since' : '',
    q === '' ? '' : `“${q}”`,
    Object.hasOwn(ranges, range) ? `the last ${ranges[range]?.[0]}` : '',
    from === '' ? '' : `since ${from}`,
    until === '' ? '' : `until ${until}`,
  ]
    .filter((word) => word !== '')
    .join(', ');
}

export const resultWords: Readonly<Record<string, string>> = {
  '': 'All',
  stored: 'Stored',
  spooled: 'On disk',
  refused: 'Refused',
  later: 'Told to come again',
  handshake: 'Handshakes',
};
