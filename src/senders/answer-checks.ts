/** How senders judge an answer: each function returns why it would not be accepted, or null. Pure. */
import type { HandshakeReply, HandshakeQuery, Asking, HandshakeQuestion } from './sender.ts';

type AnswerCheck = HandshakeQuestion['judge'];

/** The first reason, if any. */
export const all =
  (...judges: readonly AnswerCheck[]): AnswerCheck =>
  (answer, asking) => {
    for (const judge of judges) {
      const why = judge(answer, asking);
      if (why !== null) return why;
    }
    return null;
  };

export const status =
  (...wanted: readonly number[]): AnswerCheck =>
  ({ status }) =>
    wanted.includes(status) ? null : `the status is ${status}, but must be ${wanted.join(' or ')}`;

export const success: AnswerCheck = ({ status }) =>
  status >= 200 && status < 300 ? null : `the status is ${status}, but must be 2xx`;

/** The required media type, compared without parameters. */
export const type =
  (wanted: string): AnswerCheck =>
  ({ headers }) => {
    const found = headers['content-type']?.split(';')[0]?.trim().toLowerCase();
    return found === wanted ? null : `the type is ${found ?? 'missing'}, but must be ${wanted}`;
  };

const shown = (text: string) => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);

export const text =
  (wanted: (asking: Asking) => string): AnswerCheck =>
  ({ body }, asking) =>
    body === wanted(asking) ? null : `the body is ${shown(body)}, but must be ${shown(wanted(asking))}`;

export const empty: AnswerCheck = ({ body }) =>
  body === '' ? null : `the body is ${shown(body)}, but must be empty`;

/** The members that the JSON must have, and no others. */
export const json =
  (wanted: (asking: Asking) => Readonly<Record<string, unknown>>): AnswerCheck =>
  ({ body }, asking) => {
    const members = wanted(asking);
    return canonical(parsed(body)) === canonical(members)
      ? null
      : `the body is ${shown(body)}, but must be ${shown(JSON.stringify(members))}`;
  };

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return JSON.stringify(value) ?? '';
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(entries);
}

export const header =
  (name: string, wanted: (asking: Asking) => string): AnswerCheck =>
  ({ headers }, asking) => {
    const found = headers[name.toLowerCase()];
    return found === wanted(asking)
      ? null
      : `the header ${name} is ${found === undefined ? 'missing' : shown(found)}, but must be ${shown(wanted(asking))}`;
  };

export const atMost =
  (bytesMax: number): AnswerCheck =>
  ({ bytes }: HandshakeReply) =>
    bytes <= bytesMax ? null : `the answer has ${bytes} bytes, but at most ${bytesMax} are allowed`;

export const challengeOf = ({ challenge }: Asking): string => challenge;

/** A GET with these fields in the query, after the existing ones. */
export function get(url: string, fields: Readonly<Record<string, string>>): HandshakeQuery {
  const full = new URL(url);
  for (const [name, value] of Object.entries(fields)) full.searchParams.set(name, value);
  return { method: 'GET', url: full.href, headers: {}, body: Buffer.alloc(0) };
}

export function head(url: string): HandshakeQuery {
  return { method: 'HEAD', url, headers: {}, body: Buffer.alloc(0) };
}

export function post(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): HandshakeQuery {
  return {
    method: 'POST',
    url,
    headers: { 'Content-Type': 'application/json', ...headers },
    body: Buffer.from(body),
  };
}
