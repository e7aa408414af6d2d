/**
 * Events of the gateway, whose keys are columns whatever the table's intake says: one object, or one a line. Takes their bytes; returns Rows, and of lines
 * that may be left out the reasons. May refuse with `payload_undecodable` and `body_too_large`. Touches nothing.
 */
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { checkDocument, lineRows } from './body-rows.ts';
import { oneRow } from './decode-slices.ts';
import { readLines } from './lines.ts';
import { problemSentence, refuseProblem } from './messages.ts';
import { planByKeys } from './row-plan.ts';

/** One JSON object whose keys are columns. */
export function decodeObject(target: Target, bytes: Buffer, ackTimeoutMs: number): Rows {
  const body = withoutMark(bytes);
  const plan = planByKeys(target.shape);
  const effort = checkDocument(body, 'payload_undecodable', plan.scan);
  return { ...oneRow(target, plan, null, body, effort), ackTimeoutMs };
}

/** One JSON object per line, all or nothing; `firstLine` is the number of the first line, from 1. */
export function decodeLines(target: Target, bytes: Buffer, ackTimeoutMs: number, firstLine = 1): Rows {
  const body = firstLine === 1 ? withoutMark(bytes) : bytes;
  if (firstLine === 1 && isOneLine(body))
    try {
      return decodeObject(target, bytes, ackTimeoutMs);
    } catch (error) {
      // The error is told below, with its line.
      if (!(error instanceof Refused)) throw error;
    }
  const read = readLines(body, planByKeys(target.shape), null, firstLine, (line, problem) => {
    throw refuseProblem('payload_undecodable', problem, `line ${line}`);
  });
  return lineRows(target, read, ackTimeoutMs);
}

/** Nearly all events arrive alone. */
function isOneLine(body: Buffer): boolean {
  const end = body.indexOf(lineFeed);
  return end < 0 || end === body.length - 1;
}

const lineFeed = 10;

export interface SkippedLine {
  readonly line: number;
  readonly reason: string;
}

export interface GoodLines {
  readonly rows: Rows;
  /** The first `limits.skippedLinesMax` lines that are no rows. */
  readonly skipped: readonly SkippedLine[];
  readonly skippedCount: number;
}

/** The lines that are JSON objects; `firstLine` is the number of the first line, from 1. */
export function decodeGoodLines(
  target: Target,
  bytes: Buffer,
  ackTimeoutMs: number,
  firstLine = 1,
): GoodLines {
  const body = firstLine === 1 ? withoutMark(bytes) : bytes;
  const skipped: SkippedLine[] = [];
  let skippedCount = 0;
  const read = readLines(body, planByKeys(target.shape), null, firstLine, (line, problem) => {
    skippedCount++;
    if (skipped.length < limits.skippedLinesMax) skipped.push({ line, reason: problemSentence(problem) });
  });
  return { rows: lineRows(target, read, ackTimeoutMs), skipped, skippedCount };
}
