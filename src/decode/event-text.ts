/**
 * Whether the text of a body of events is lines, or one object over several of them. The first line tells which of the two it is, not the Content-Type,
 * which `curl -d` sets to that of a form. Takes bytes; pure.
 */
import { isJsonSpace } from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import { scanJson } from './json-scan.ts';

/** Whether the first line is no document, but the whole body is. */
export function isObjectOverLines(body: Buffer): boolean {
  const line = firstLine(body);
  return opening(line) === 'open' && line.length < body.length && opening(body) === 'whole';
}

/** Whether the first line is the beginning of a document that goes on behind it. */
export function beginsObject(body: Buffer): boolean {
  return opening(firstLine(body)) === 'open';
}

/** What a text is on its own: a document, the beginning of one, or neither. */
function opening(text: Buffer): 'whole' | 'open' | 'broken' {
  const problem = scanJson(text, { depthMax: limits.jsonDepthMax });
  if (problem === null) return 'whole';
  return problem.offset !== null && problem.offset >= text.length ? 'open' : 'broken';
}

/** Of a body, the place of the first byte that is not blank; its length: there is none. */
export function firstByte(body: Buffer): number {
  let at = 0;
  while (isJsonSpace(body[at])) at++;
  return at;
}

/** From the first byte that is not blank to the end of its line. */
function firstLine(body: Buffer): Buffer {
  const start = firstByte(body);
  const end = body.indexOf(10, start);
  return body.subarray(start, end < 0 ? body.length : end);
}
