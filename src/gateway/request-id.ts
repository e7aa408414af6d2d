/**
 * The id by which a request is found in the log. Takes the sender's header, returns the id that the sender chose, or a new
 * one.
 */
import { randomUUID } from 'node:crypto';
import { limits } from '../config/limits.ts';

const accepted = /^[\w.:+=@/-]+$/;

export function requestIdOf(given: string | undefined): string {
  if (given !== undefined && given.length <= limits.requestIdCharsMax && accepted.test(given)) return given;
  return randomUUID();
}
