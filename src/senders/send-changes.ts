/** What `headgate send` changes about a request: the event's name before it is signed, headers and body afterwards. Pure. */
import type { SignedRequest } from './senders.ts';

/** Where the event's name is: in a header, or in the body at a path of keys. */
export type EventPlace = { readonly header: string } | { readonly field: readonly string[] };

/** The JSON or form with another text at the path; null: there is no text at the path. */
export function withText(body: string, path: readonly string[], text: string): string | null {
  if (!/^\s*[[{]/.test(body)) return withField(body, path.join('.'), text);
  const document: unknown = JSON.parse(body);
  const last = path.at(-1) ?? '';
  const holder = path
    .slice(0, -1)
    .reduce<unknown>((inner, key) => (isObject(inner) ? inner[key] : undefined), document);
  if (!isObject(holder) || typeof holder[last] !== 'string') return null;
  holder[last] = text;
  return JSON.stringify(document);
}

function withField(body: string, name: string, text: string): string | null {
  const form = new URLSearchParams(body);
  if (!form.has(name)) return null;
  form.set(name, text);
  return form.toString();
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Each header replaces the one with that name, in upper or lower case. */
export function withHeaders(sent: SignedRequest, headers: ReadonlyMap<string, string>): SignedRequest {
  if (headers.size === 0) return sent;
  const own = new Set([...headers.keys()].map((name) => name.toLowerCase()));
  const others = Object.entries(sent.headers).filter(([name]) => !own.has(name.toLowerCase()));
  return { ...sent, headers: { ...Object.fromEntries(others), ...Object.fromEntries(headers) } };
}

/** Replaces the last letter or digit by another one; appends a blank if there is none. */
export function tampered(sent: SignedRequest): SignedRequest {
  const text = sent.body.toString('latin1');
  const at = text.search(/[A-Za-z0-9][^A-Za-z0-9]*$/);
  const changed =
    at < 0 ? `${text} ` : text.slice(0, at) + (text[at] === '1' ? '2' : '1') + text.slice(at + 1);
  return { ...sent, body: Buffer.from(changed, 'latin1') };
}
