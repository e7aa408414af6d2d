/** The messages of refused bodies: what was to be read, and why it could not be. */
import { Refused, refusals } from '../errors/refusals.ts';
import type { JsonProblem } from './json-scan.ts';

/** For a table that takes the whole document, and for one whose columns are filled by keys. */
export type BodyCode = 'body_not_json' | 'payload_undecodable';

/** `code`: for a body that is no storable document. */
export function refuseProblem(code: BodyCode, problem: JsonProblem, place: string | null = null): Refused {
  return refuseBody(problem.code ?? code, problemText(problem), place);
}

/** The problem as a sentence of its own. */
export function problemSentence(problem: JsonProblem): string {
  const text = problemText(problem);
  return problem.code === undefined ? text : `${refusals[problem.code].message}: ${text}`;
}

function problemText({ reason, offset }: JsonProblem): string {
  return offset === null ? reason : `${reason} at byte ${offset}`;
}

/** `place`: where in the request, e.g. `line 7`. */
export function refuseBody(
  code: BodyCode | 'body_not_form' | NonNullable<JsonProblem['code']>,
  reason: string,
  place: string | null = null,
): Refused {
  const sentence = `${refusals[code].message}: ${reason}`;
  return new Refused(code, place === null ? sentence : `${place}: ${sentence}`);
}

export const noObject = 'it is not a JSON object';
