/**
 * Sends one request to this Headgate's own webhook listener. Takes an address made from where the listener listens, and
 * what to send; returns the answer, or status 0 if the listener cannot be reached. Follows no redirect, and trusts the
 * listener's own certificate.
 */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { TestAnswer } from './api.ts';
import { limits } from '../config/limits.ts';

const shownChars = 1_000;

export interface OwnRequest {
  readonly method: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}

export function askOwn(url: string, { method, headers, body }: OwnRequest): Promise<TestAnswer> {
  const length: readonly [string, string] = ['content-length', String(body.length)];
  const options = {
    method,
    headers: [...headers, ['host', new URL(url).host] as const, length].flat(),
    agent: false,
    timeout: limits.consoleStatementMs,
  };
  return new Promise((resolve) => {
    const failed = (): void => resolve({ status: 0, text: 'the listener could not be reached from here' });
    const request = url.startsWith('https:')
      ? httpsRequest(url, { ...options, rejectUnauthorized: false })
      : httpRequest(url, options);
    request.once('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text = (text + piece).slice(0, shownChars);
      });
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.once('error', failed);
    });
    request.once('timeout', () => request.destroy(new Error('timeout')));
    request.once('error', failed);
    request.end(body);
  });
}
