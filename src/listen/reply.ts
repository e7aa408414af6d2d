/**
 * Answers to requests that were taken. Takes row counts and answers that tables' owners have chosen; returns status, raw header
 * lists and bodies ready to be written; touches nothing. Bodies of Headgate's own are ASCII, so one char is one byte.
 */
import { rememberedOf } from '../kit/memoize.ts';
import { often } from '../http/plain-answer.ts';
import type { HttpReply } from '../http/plain-answer.ts';
import { onlyHeader } from '../kit/header.ts';
import type { Arrival } from '../types/request.ts';
import type { CommittedAnswer, HandshakeAnswer } from '../types/answers.ts';
import type { KeptApart, Spooled } from '../types/rows.ts';
import type { RefusalCode } from '../errors/refusals.ts';

export interface WebhookReply extends HttpReply {
  readonly code: RefusalCode | 'committed' | 'handshake' | 'spooled';
  readonly rows: number;
}

export function reply(
  status: number,
  code: WebhookReply['code'],
  rows: number,
  body: string,
  extra: string[] = [],
): WebhookReply {
  const headers = [
    'Content-Type',
    'application/json',
    'Content-Length',
    String(body.length),
    // Pages may post and read the answer: there is no ambient authority here that they could borrow.
    'Access-Control-Allow-Origin',
    '*',
    ...extra,
  ];
  return { status, code, rows, headers, body };
}

type AskedHeaders = Pick<Arrival, 'rawHeaders' | 'header'>;

/**
 * The answer that the table's owner has chosen for committed requests, made once. Headers of the request may be echoed; if
 * none is, none is read.
 */
export function ownReply(rows: number, answer: CommittedAnswer, request: AskedHeaders): WebhookReply {
  const made = madeReply(answer);
  const echoed = answer.echoes.length === 0 ? [] : echoesOf(answer, request);
  if (rows === 1 && echoed.length === 0) return made;
  return { ...made, rows, headers: [...made.headers, ...echoed] };
}

const madeReply = rememberedOf((answer: CommittedAnswer): WebhookReply => {
  const headers = [...contentHeaders(answer), ...answer.headers];
  const { status, body } = answer;
  return often({ status, code: 'committed', rows: 1, headers, body });
});

/** A header that arrived twice, or whose value no header may have, is not echoed. */
function echoesOf({ echoes }: CommittedAnswer, request: AskedHeaders): string[] {
  return echoes.flatMap(({ name, header }) => {
    const value = onlyHeader(request, header) ?? '';
    return echoable.test(value) ? [name, value] : [];
  });
}

const echoable = /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/;

export function contentHeaders({ status, type, body }: HandshakeAnswer): string[] {
  return [
    ...(type === null ? [] : ['Content-Type', type]),
    // RFC 9110 §8.6: not in a 204.
    ...(status === 204 ? [] : ['Content-Length', String(body.length)]),
  ];
}

const spooledHeaders = ['Headgate-Stored', 'spool'];
const keptApartHeaders = ['Headgate-Stored', 'rejected_requests'];

/** The request is on Headgate's disk: accepted, but no row yet. A table that has an answer of its own gives that. */
export function spooledReply(
  { status, rows }: Spooled,
  answer: CommittedAnswer | null,
  request: AskedHeaders,
): WebhookReply {
  if (answer === null) return reply(status, 'spooled', 0, `{"rows":0,"spooled":${rows}}`, spooledHeaders);
  const own = ownReply(rows, answer, request);
  return { ...own, code: 'spooled', rows: 0, headers: [...own.headers, ...spooledHeaders] };
}

/** The request is where its table's owner finds refused requests, and is no row. A table that has an answer of its own gives that. */
export function keptApartReply(
  { status, rows }: KeptApart,
  answer: CommittedAnswer | null,
  request: AskedHeaders,
): WebhookReply {
  const code = 'delivery_differs';
  if (answer === null)
    return reply(status, code, 0, `{"rows":0,"kept":${rows},"code":"${code}"}`, keptApartHeaders);
  const own = ownReply(rows, answer, request);
  return { ...own, code, rows: 0, headers: [...own.headers, ...keptApartHeaders] };
}
