/**
 * The address of a client behind proxies. Takes the address that a socket reports and the header in which proxies say what they saw, returns an address;
 * pure. Each proxy appends the address that it saw, so the list is read from its end, and only for as long as the address that wrote an entry is
 * trusted: anything further left was written by strangers.
 */
import { canonicalAddress } from '../kit/address.ts';
import type { Networks } from '../kit/networks.ts';

/** Nearly all proxies write `x-forwarded-for`; `forwarded` is RFC 7239. */
export type ForwardedHeader = 'x-forwarded-for' | 'forwarded';

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
