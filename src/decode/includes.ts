/**
 * INCLUDE columns: members of a JSON object that are filled from the request's headers and the time of its arrival.
 * Pure.
 */
import { isUtf8 } from 'node:buffer';
import type { DecodeRequest, Include, Intake } from '../tables/flow.ts';

/** `"id":"…","headers":{…}`: what stands between the braces; null: the table has no INCLUDE column. */
export function includedMembers(
  intake: Intake,
  request: Pick<DecodeRequest, 'rawHeaders' | 'arrivedAtMs'>,
): Buffer | null {
  const { includes, hiddenHeaders } = intake;
  if (includes.length === 0) return null;
  const headers = readHeaders(request.rawHeaders);
  const members = includes.map((include) => {
    const value = valueOf(include, headers, hiddenHeaders, request.arrivedAtMs);
    return `${JSON.stringify(include.column)}:${value}`;
  });
  return Buffer.from(members.join(','));
}

function valueOf(
  include: Include,
  headers: ReadonlyMap<string, string>,
  hidden: ReadonlySet<string> | null,
  arrivedAtMs: number,
): string {
  switch (include.what) {
    case 'header':
      return JSON.stringify(headers.get(include.header.toLowerCase()) ?? null);
    case 'headers': {
      const shown = hidden === null ? [] : [...headers].filter(([name]) => !hidden.has(name));
      return `{${shown.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`;
    }
    case 'timestamp':
      return JSON.stringify(new Date(arrivedAtMs).toISOString());
  }
}

/** By lower-case name, in order of arrival; one that arrives more than once is joined as HTTP says (RFC 9110, 5.3). */
function readHeaders(rawHeaders: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    const value = headerText(rawHeaders[at + 1] ?? '');
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

/** node:http hands each byte over as one character. They are UTF-8 where they can be, else Latin-1 as HTTP/1.0 had it. */
function headerText(value: string): string {
  for (let i = 0; i < value.length; i++) {
    if (value.charCodeAt(i) < 0x80) continue;
    const bytes = Buffer.from(value, 'latin1');
    return isUtf8(bytes) ? bytes.toString('utf8') : value;
  }
  return value;
}
