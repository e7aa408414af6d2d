/** IP addresses as text in one form, so that equal addresses are equal texts. */
import { isIP, SocketAddress } from 'node:net';

/**
 * `203.0.113.9` or `2001:db8::1`; null: the text is no IP address. An IPv4-mapped IPv6 address, as a socket that listens
 * on both shows it, becomes an IPv4 address; a zone (`%eth0`) is dropped.
 */
export function canonicalAddress(text: string): string | null {
  const zone = text.indexOf('%');
  const bare = zone === -1 ? text : text.slice(0, zone);
  const version = isIP(bare);
  if (version === 4) return bare;
  if (version !== 6) return null;
  const { address } = new SocketAddress({ address: bare, family: 'ipv6' });
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1] ?? address;
}

/**
 * The network that one client is likely to have: an IPv4 address, or the /64 of a canonical IPv6 address, within which
 * anybody can take as many addresses as they like.
 */
export function clientNetwork(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  // An embedded IPv4 address at the end counts as two groups; it is never among the first four.
  const behind =
    tail === undefined || tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
  const zeros = tail === undefined ? 0 : 8 - groups.length - behind;
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const all = [...groups, ...Array.from({ length: zeros }, () => '0'), ...last];
  return `${all.slice(0, 4).join(':')}::/64`;
}

/** Whether only programs on this machine can reach it. */
export function isLoopbackHost(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

/** The host by which a program on this machine reaches a door: the loopback address if the door listens on every address, for which `::` has IPv4, too. */
export const reachable = (host: string): string => (host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host);

/** The host of a URL, in which an IPv6 address is in brackets. */
export const hostOf = ({ hostname }: URL): string => hostname.replaceAll(/[[\]]/g, '');

/** The host as written in a URL. */
export const urlHost = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/** The URL by which this machine calls a door of HTTP: scheme, host and port. */
export function doorUrl(
  { host, port }: { readonly host: string; readonly port: number },
  tls: boolean,
): string {
  return `${tls ? 'https' : 'http'}://${urlHost(reachable(host))}:${port}`;
}
