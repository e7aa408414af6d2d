/**
 * The host names under which the console may be called. A page of another site whose name was pointed at this machine
 * (DNS rebinding) sends that name in `Host`, whatever the browser believes about origins. Takes the header, returns
 * whether the name is allowed. Pure.
 */
import { isLoopbackHost } from '../kit/address.ts';

/** `more`: names besides those of loopback, with or without port. */
export function isOwnHost(host: string | undefined, more: readonly string[]): boolean {
  if (host === undefined) return false;
  const named = /^(\[[0-9a-f:.]+\]|[^:[\]/@\s]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase();
  if (named === undefined) return false;
  if (isLoopbackHost(named.replace(/^\[(.*)\]$/, '$1'))) return true;
  return more.some((it) => [named, host.toLowerCase()].includes(it.toLowerCase()));
}
