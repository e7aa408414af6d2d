/**
 * The answers of the events gateway. Takes refusals and errors, returns a status, headers and the text of the body, ready
 * to be written. Touches nothing, and reports only an answer that belongs to no request.
 */
import { randomUUID } from 'node:crypto';
import { limits } from '../config/limits.ts';
import type { HttpReply } from '../http/plain-answer.ts';
import type { Observation, Observe } from '../observe/observations.ts';
import { Refused, refusal, refusals } from '../errors/refusals.ts';
import type { Refusal, SqlError } from '../errors/refusals.ts';
import { LineRefused, reasonOf } from './line-refused.ts';
import { SqlRefused } from './sql-sessions.ts';

export const json = 'application/json; charset=utf-8';

export interface GatewayAnswer {
  /** The code for the log and the metrics. */
  readonly code: Extract<Observation, { kind: 'gateway.answered' }>['code'];
  readonly status: number;
  /** In lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** `more`: further members of the answer, e.g. the line at fault. */
export function refusalAnswer(
  { code, message, retryAfterSeconds, allow = 'POST' }: Refusal,
  more: Readonly<Record<string, unknown>> = {},
): GatewayAnswer {
  const { status } = refusals[code];
  const headers: Record<string, string> = { 'content-type': json };
  if (status === 503 || status === 429) headers['retry-after'] = retryAfter(retryAfterSeconds);
  if (status === 401) headers['www-authenticate'] = 'Bearer realm="headgate"';
  if (status === 405) headers['allow'] = allow;
  return { code, status, headers, text: JSON.stringify({ error: message, code, ...more }) };
}

/** Randomised, so that many senders do not return together. */
function retryAfter(seconds: number | undefined): string {
  return String(seconds ?? 1 + Math.floor(Math.random() * limits.retryAfterSecondsMax));
}

/** The engine's own error; one that may pass is 503. */
function sqlAnswer({ sqlstate, message, position, detail, hint }: SqlError, again: boolean): GatewayAnswer {
  return {
    code: 'sql_error',
    status: again ? 503 : 400,
    headers: again
      ? { 'content-type': json, 'retry-after': retryAfter(undefined) }
      : { 'content-type': json },
    text: JSON.stringify({ error: message, code: sqlstate, position, detail, hint }),
  };
}

/** null: an unforeseen error, which is a bug. */
export function answerTo(error: unknown): GatewayAnswer | null {
  if (error instanceof Refused) return refusalAnswer(error.refusal);
  if (error instanceof LineRefused) {
    const { code, message } = error.refusal;
    return refusalAnswer(refusal(code, `line ${error.line}: ${reasonOf(message)}`), { line: error.line });
  }
  return error instanceof SqlRefused ? sqlAnswer(error.error, error.mayPass) : null;
}

/** The answer to a bug; the log has the details under the same id. */
export function bugAnswer(requestId: string): GatewayAnswer {
  return refusalAnswer(refusal('internal'), { request_id: requestId });
}

/** The answer on a connection that has no request to answer. */
export function connectionWords(observe: Observe, remoteAddress: string, why: Refusal): HttpReply {
  const requestId = randomUUID();
  const { code, status, headers, text } = refusalAnswer(why);
  const kind = 'gateway.answered';
  observe({ kind, requestId, route: 'other', remoteAddress, status, code, rows: 0, seconds: 0 });
  const more = ['x-request-id', requestId];
  return { status, headers: headersOf(headers, Buffer.byteLength(text), more), body: text };
}

/** Names and values alternate. `bytes`: of the body; null: they are not counted. */
export function headersOf(
  own: GatewayAnswer['headers'],
  bytes: number | null,
  more: readonly string[],
): string[] {
  const all = bytes === null ? [...more] : ['content-length', String(bytes), ...more];
  for (const name in own) all.push(name, own[name] ?? '');
  return all;
}
