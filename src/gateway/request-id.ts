/** By which a request is found in the log. Takes its headers, gives the id that its sender chose, or a new one. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { limits } from '../tables/limits.ts';

const accepted = /^[\w.:+=@/-]+$/;

export function requestIdOf(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id'];
  if (typeof given === 'string' && given.length <= limits.requestIdCharsMax && accepted.test(given))
    return given;
  return randomUUID();
}
