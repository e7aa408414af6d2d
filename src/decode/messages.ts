/** The messages of refused bodies: what was to be read, why it could not be, and the names of keys in them. */
import { limits } from '../config/limits.ts';
import { Refused, refusals } from '../errors/refusals.ts';

export interface JsonProblem {
  /** Absent: it is no storable document. */
  readonly code?: 'no_column_matched' | 'key_unknown';
  /** What is wrong, without any text of the document. */
  readonly reason: string;
  /** 0-based byte where it was noticed; null: not known. */
  readonly offset: number | null;
}

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

export const formReason =
  "it is a form: its sender has to send application/json, or its table needs format = 'form'";

export const noObject = 'it is not a JSON object';

/** In quotes; the first `keysShownMax` of them. */
export function listedNames(names: readonly string[]): string {
  const { keysShownMax } = limits;
  const told = names.slice(0, keysShownMax).map(shownName).join(', ');
  return names.length > keysShownMax ? `${told} and ${names.length - keysShownMax} more` : told;
}

/** In quotes, with characters replaced that a terminal might obey. */
export function shownName(name: string): string {
  return JSON.stringify(cutName(name)).replaceAll(/[\p{Cc}\p{Cf}]/gu, '\ufffd');
}

/** At most `keyShownCharsMax` characters of it. */
export function cutName(name: string): string {
  const points = Array.from(name.slice(0, 2 * limits.keyShownCharsMax));
  return points.length > limits.keyShownCharsMax
    ? `${points.slice(0, limits.keyShownCharsMax).join('')}…`
    : name;
}
