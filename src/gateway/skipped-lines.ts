/**
 * Lines of events, and those that on_error=skip leaves out: the first few in detail, all of them as a count. Takes bytes, returns Rows; refuses as
 * decode does, with the line at fault. Touches nothing.
 */
import { isObjectOverLines } from '../decode/event-text.ts';
import type { Lines } from '../decode/line-splitter.ts';
import { decodeLines, decodeObject } from '../decode/lines.ts';
import { problemSentence } from '../decode/messages.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { Refused } from '../errors/refusals.ts';
import { asLineRefused, reasonOf } from './line-refused.ts';

export class Skipped {
  readonly #listMax: number;
  readonly #lines: { readonly line: number; readonly error: string }[] = [];
  #count = 0;

  constructor(listMax: number) {
    this.#listMax = listMax;
  }

  get count(): number {
    return this.#count;
  }

  /** Sorted by line. */
  get lines(): readonly { readonly line: number; readonly error: string }[] {
    return this.#lines.toSorted((a, b) => a.line - b.line);
  }

  /** What further lines have is not listed. */
  get isFull(): boolean {
    return this.#lines.length >= this.#listMax;
  }

  add(line: number, error: string): void {
    this.#count++;
    if (!this.isFull) this.#lines.push({ line, error });
  }
}

/** A whole body but for the lines that are no events. */
export function decodeGood(target: Target, body: Buffer, skipped: Skipped): Rows | null {
  return isObjectOverLines(body)
    ? objectOf(target, body, skipped)
    : linesOf(target, { bytes: body, firstLine: 1 }, skipped);
}

/** One JSON object; null: it is none, and is left out. Throws Refused. */
export function objectOf(target: Target, body: Buffer, skipped: Skipped | null): Rows | null {
  try {
    return decodeObject(target, body);
  } catch (error) {
    if (skipped === null || !(error instanceof Refused)) throw asLineRefused(error);
    skipped.add(1, reasonOf(error.refusal.message));
    return null;
  }
}

/** One JSON object a line; null: there is none. `skipped` null: the first line that is none refuses all. Throws Refused and LineRefused. */
export function linesOf(target: Target, { bytes, firstLine }: Lines, skipped: Skipped | null): Rows | null {
  if (skipped !== null) {
    const rows = decodeLines(target, bytes, firstLine, (line, problem) =>
      skipped.add(line, skipped.isFull ? '' : problemSentence(problem)),
    );
    return rows.count === 0 ? null : rows;
  }
  try {
    const rows = decodeLines(target, bytes, firstLine);
    return rows.count === 0 ? null : rows;
  } catch (error) {
    throw asLineRefused(error);
  }
}
