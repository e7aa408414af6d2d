/** What is wrong with one line of a body, and where lines are. Types and one lookup; touches nothing. */
import type { Rows } from '../flow.ts';
import type { Refusal } from '../refusals.ts';

/** A refusal that is about one line of the body, counted from 1. */
export class LineRefused extends Error {
  readonly refusal: Refusal;
  readonly line: number;

  constructor(refusal: Refusal, line: number) {
    super(refusal.message);
    this.name = 'LineRefused';
    this.refusal = refusal;
    this.line = line;
  }
}

/** Where a row stands in its body, from 1. */
export function lineOf(rows: Rows, row: number): number {
  return rows.lines?.[row] ?? row + 1;
}
