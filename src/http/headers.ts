/**
 * The headers of a request: joined as Node joins them, and without the one that marks a row as fetched from its sender's log (`reconcile`). Only Headgate
 * itself gives that one to a request: from what arrives through a door it is removed before anything reads it, so no sender can mark a row. Pure.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';

export const fetchedHeader = 'Headgate-Fetched';

/** In lower case. */
export const fetchedName = fetchedHeader.toLowerCase();

export function withoutFetched({ rawHeaders, headers }: IncomingMessage): void {
  if (headers[fetchedName] === undefined) return;
  delete headers[fetchedName];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2)
    if (rawHeaders[at]?.toLowerCase() === fetchedName) rawHeaders.splice(at, 2);
}

/** If one of these headers is repeated, Node keeps the first; others are joined (its documentation, message.headers). */
const kept = new Set(
  (
    'age authorization content-length content-type etag expires from host if-modified-since if-unmodified-since ' +
    'last-modified location max-forwards proxy-authorization referer retry-after server user-agent'
  ).split(' '),
);

/** Names in lower case, with their values; `rawHeaders`: names and values in turn, as received. */
export function joinHeaders(rawHeaders: readonly string[]): IncomingHttpHeaders {
  const headers: Record<string, string | string[]> = {};
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    const value = rawHeaders[i + 1] ?? '';
    const before = headers[name];
    if (name === 'set-cookie') headers[name] = Array.isArray(before) ? [...before, value] : [value];
    else if (typeof before !== 'string') headers[name] = value;
    else if (!kept.has(name)) headers[name] = `${before}${name === 'cookie' ? '; ' : ', '}${value}`;
  }
  return headers;
}
