/**
 * The headers common to all answers of the console, and the functions that write its answers. The policy lists
 * everything that a page may load: only its own files, and nothing inline.
 */
import type { ServerResponse } from 'node:http';
import { refusals } from '../errors/refusals.ts';
import type { Refusal, SqlError } from '../errors/refusals.ts';
import type { ApiError } from './api.ts';

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

export const guardHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-frame-options': 'DENY',
};

export const noStore = { ...guardHeaders, 'cache-control': 'no-store' } as const;

export function writeJson(response: ServerResponse, status: number, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, {
    ...noStore,
    'content-type': 'application/json; charset=utf-8',
    'content-length': body.length,
  });
  response.end(body);
}

export function writeRefusal(response: ServerResponse, { code, message }: Refusal): void {
  const error: ApiError = { error: message, code };
  // The unread rest of a body ends with the connection.
  if (!response.req.complete) response.setHeader('connection', 'close');
  writeJson(response, refusals[code].status, error);
}

/** An error of the engine. */
export function writeSqlError(
  response: ServerResponse,
  { sqlstate, message, detail, hint, position }: SqlError,
): void {
  const error: ApiError = {
    error: message,
    code: 'sql_error',
    sqlstate,
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
    ...(position === undefined ? {} : { position }),
  };
  if (!response.destroyed) writeJson(response, refusals.row_refused.status, error);
}
