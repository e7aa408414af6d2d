/** The sentences in which a body is refused: what was to be read, and why it could not be. */
import { Refused, refusals } from '../refusals.ts';
import type { JsonProblem } from './json-scan.ts';

/** For a table that takes the whole document, and for one whose columns its keys fill. */
export type BodyCode = 'body_not_json' | 'payload_undecodable';

export function problemText({ reason, offset }: JsonProblem): string {
  return offset === null ? reason : `${reason} at byte ${offset}`;
}

/** `place` says where in the request, e.g. `line 7`. */
export function refuseBody(code: BodyCode, reason: string, place: string | null = null): Refused {
  const sentence = `${refusals[code].message}: ${reason}`;
  return new Refused(code, place === null ? sentence : `${place}: ${sentence}`);
}

export const noObject = 'it is not a JSON object';
