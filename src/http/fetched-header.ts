/**
 * The header that marks a row as fetched from its sender's log (`reconcile`). Only Headgate itself gives it to a request: from what arrives through a door it
 * is removed before anything reads it, so no sender can mark a row. Pure.
 */
import type { IncomingMessage } from 'node:http';

export const fetchedHeader = 'Headgate-Fetched';

/** In lower case. */
export const fetchedName = fetchedHeader.toLowerCase();

export function withoutFetched({ rawHeaders, headers }: IncomingMessage): void {
  if (headers[fetchedName] === undefined) return;
  delete headers[fetchedName];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2)
    if (rawHeaders[at]?.toLowerCase() === fetchedName) rawHeaders.splice(at, 2);
}
