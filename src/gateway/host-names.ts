/** Whether a Host header names the gateway that it arrived at. Takes names and addresses, returns whether; pure. */
import { isIP } from 'node:net';

export interface OwnNames {
  /** The address that the gateway is configured to listen on. */
  readonly host: string;
  /** Further names, in lower case, with or without port; `*`: any. */
  readonly hosts: ReadonlySet<string>;
  readonly secure: boolean;
  /** The local end of the connection. */
  readonly localAddress: string;
  readonly localPort: number;
}

/** `named`: a Host header in lower case. */
export function isNameOf(own: OwnNames, named: string): boolean {
  const { host, hosts, secure, localAddress, localPort } = own;
  if (hosts.has('*') || hosts.has(named)) return true;
  const { name, port } = splitHost(named, secure ? 443 : 80);
  if (hosts.has(name)) return true;
  if (port !== localPort) return false;
  return (
    isLoopbackName(name) || plainAddress(name) === plainAddress(localAddress) || name === host.toLowerCase()
  );
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
