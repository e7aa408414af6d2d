/**
 * One document a line: where the lines are, and their rows. Lines end with LF or CRLF, the last one also with the body;
 * blank ones are no rows but are counted. No object is made for a line, so that a million of them are a list of numbers.
 */
import { isUtf8 } from 'node:buffer';
import type { Documents } from '../flow.ts';
import { isJsonSpace } from '../kit/json-grammar.ts';
import { limits } from '../limits.ts';
import { type JsonProblem, notUtf8, scanRange } from './json-scan.ts';
import { noObject } from './problems.ts';
import { changesNothing, isRow, type Plan, rowGrowth, writeRow } from './reshape.ts';
import { Keeps, RowBytes, Spans } from './row-bytes.ts';

/** The lines of a body that are not blank: `next` until it says false. */
class Lines {
  /** Without the blanks around it. */
  start = 0;
  end = 0;
  /** Counted from 1. */
  number: number;
  #next = 0;
  readonly #body: Buffer;

  constructor(body: Buffer, firstNumber: number) {
    this.#body = body;
    this.number = firstNumber - 1;
  }

  next(): boolean {
    const body = this.#body;
    while (this.#next < body.length) {
      const newline = body.indexOf(10, this.#next);
      let start = this.#next;
      let end = newline < 0 ? body.length : newline;
      this.#next = end + 1;
      this.number++;
      while (start < end && isJsonSpace(body[start])) start++;
      while (start < end && isJsonSpace(body[end - 1])) end--;
      if (start === end) continue;
      this.start = start;
      this.end = end;
      return true;
    }
    return false;
  }
}

export interface LineRows {
  readonly documents: Documents;
  readonly count: number;
  readonly lines: Uint32Array | null;
  readonly keeps: ReadonlyMap<number, readonly string[]> | null;
}

/** Told of a line that is no row, with the reason; throws, or lets it be left out. */
export type OnLineProblem = (line: number, problem: JsonProblem) => void;

/** Most lines are longer; a list that is too short grows. */
const expectedLineBytes = 128;

export function readLines(
  body: Buffer,
  plan: Plan,
  included: Buffer | null,
  firstLine: number,
  onProblem: OnLineProblem,
): LineRows {
  const lines = new Lines(body, firstLine);
  const spans = new Spans(Math.ceil(body.length / expectedLineBytes));
  const keeps = new Keeps();
  const out = changesNothing(plan, included)
    ? null
    : new RowBytes(body.length, Math.ceil(body.length / expectedLineBytes) * rowGrowth(plan, included));
  // A line end is never a part of another character, so that the whole is UTF-8 when each line is.
  const allUtf8 = isUtf8(body);
  while (lines.next()) {
    const { start, end, number } = lines;
    const problem = lineProblem(body, start, end, plan, allUtf8);
    if (problem !== null) {
      onProblem(number, problem);
    } else if (out === null) {
      spans.add(start, end, number);
    } else {
      const at = out.length;
      const kept = writeRow(out, plan, included, body, start, end);
      if (kept !== null) keeps.add(spans.count, kept);
      spans.add(at, out.length, number);
    }
  }
  const documents = { bytes: out === null ? body : out.done(), spans: spans.places() };
  return { documents, count: spans.count, lines: spans.lines(), keeps: keeps.done() };
}

function lineProblem(
  body: Buffer,
  start: number,
  end: number,
  plan: Plan,
  allUtf8: boolean,
): JsonProblem | null {
  if (!allUtf8 && !isUtf8(body.subarray(start, end))) return notUtf8;
  const problem = scanRange(body, start, end, limits.jsonDepthMax);
  if (problem !== null) return problem;
  return isRow(plan, body, start) ? null : { reason: noObject, offset: null };
}
