/**
 * INCLUDE columns: members of a JSON object that are filled from the request and not from its document. Pure.
 */
import { isUtf8 } from 'node:buffer';
import { canonicalAddress } from '../kit/address.ts';
import type { DecodeHead } from '../types/request.ts';
import type { Include, Intake } from '../types/target.ts';

/** The column that takes the bytes of the body, if there is one. */
export function bodyInclude(includes: readonly Include[]): Include | null {
  return includes.find(({ what }) => what === 'body') ?? null;
}

/**
 * `"id":"…","headers":{…}`: the text between the braces; null: the table has no INCLUDE column. With INCLUDE BODY it ends
 * inside a string, `…,"raw":"\\x`, which each row ends with its own bytes.
 */
export function includedMembers(intake: Intake, head: DecodeHead): Buffer | null {
  const { includes, hiddenHeaders } = intake;
  if (includes.length === 0) return null;
  const body = bodyInclude(includes);
  const headers = readHeaders(head.rawHeaders);
  const members = includes
    .filter((include) => include !== body)
    .map((include) => {
      const value = valueOf(include, headers, hiddenHeaders, head);
      return `${JSON.stringify(include.column)}:${value}`;
    });
  if (body !== null) members.push(`${JSON.stringify(body.column)}:"\\\\x`);
  return Buffer.from(members.join(','));
}

function valueOf(
  include: Include,
  headers: ReadonlyMap<string, string>,
  hidden: ReadonlySet<string> | null,
  { arrivedAtMs, method, target, remoteAddress, traceparent }: DecodeHead,
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
    case 'method':
      return JSON.stringify(method);
    case 'path':
      return JSON.stringify(headerText(target.split('?', 1)[0] ?? ''));
    case 'query':
      return JSON.stringify(target.includes('?') ? headerText(target.slice(target.indexOf('?') + 1)) : null);
    case 'remote address':
      return JSON.stringify(canonicalAddress(remoteAddress));
    // Of Headgate's own span, whatever header came.
    case 'traceparent':
      return JSON.stringify(traceparent ?? null);
    // The bytes go into one column only, the first.
    case 'body':
      return 'null';
  }
}

/** By lower-case name, in order of arrival; a header that arrives more than once is joined as in HTTP (RFC 9110, 5.3). */
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

/** node:http passes each byte as one character. The bytes are read as UTF-8 if they are valid, else as Latin-1, as in HTTP/1.0. */
function headerText(value: string): string {
  for (let i = 0; i < value.length; i++) {
    if (value.charCodeAt(i) < 0x80) continue;
    const bytes = Buffer.from(value, 'latin1');
    return isUtf8(bytes) ? bytes.toString('utf8') : value;
  }
  return value;
}
