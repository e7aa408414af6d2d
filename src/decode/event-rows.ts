/**
 * Events of the gateway, whose keys are columns whatever the table's intake says: one object, or one a line. Takes their bytes; returns Rows. May refuse
 * with `payload_undecodable` and `body_too_large`. Touches nothing.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Rows } from '../types/rows.ts';
import type { Shape } from '../types/shape.ts';
import type { Target } from '../types/target.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { Refused } from '../errors/refusals.ts';
import { checkDocument, lineRows } from './body-rows.ts';
import { oneRow } from './decode-slices.ts';
import { isObjectOverLines } from './event-text.ts';
import { readLines } from './lines.ts';
import type { OnLineProblem } from './lines.ts';
import { refuseProblem } from './messages.ts';
import { makePlan } from './make-plan.ts';
import { defaultOptions } from './options.ts';
import type { RowPlan } from './row-plan.ts';

/** A whole body, all or nothing. `ackTimeoutMs`: how long its sender waits. Throws Refused. */
export function decodeEvents(target: Target, body: Buffer, ackTimeoutMs: number): Rows {
  const lineEnd = body.indexOf(lineFeed);
  // Nearly all events arrive alone.
  if (lineEnd < 0 || lineEnd === body.length - 1)
    try {
      return decodeObject(target, body, ackTimeoutMs);
    } catch (error) {
      // The error is told below, with its line.
      if (!(error instanceof Refused)) throw error;
    }
  // Lines first: a body that can be read as lines is not one object over several of them, so nearly all bodies are read once.
  try {
    return decodeLines(target, body, ackTimeoutMs, 1);
  } catch (error) {
    if (isObjectOverLines(body)) return decodeObject(target, body, ackTimeoutMs);
    throw error;
  }
}

const lineFeed = 10;

/** One JSON object per line; `firstLine` is the number of the first line, from 1. `onProblem` default: the first line that is no event refuses all. */
export function decodeLines(
  target: Target,
  bytes: Buffer,
  ackTimeoutMs: number,
  firstLine: number,
  onProblem: OnLineProblem = refuseLine,
): Rows {
  const body = firstLine === 1 ? withoutMark(bytes) : bytes;
  const read = readLines(body, planByKeys(target.shape), null, firstLine, onProblem);
  return lineRows(target, read, ackTimeoutMs);
}

const refuseLine: OnLineProblem = (line, problem) => {
  throw refuseProblem('payload_undecodable', problem, `line ${line}`);
};

/** One JSON object whose keys are columns. */
export function decodeObject(target: Target, bytes: Buffer, ackTimeoutMs: number): Rows {
  const body = withoutMark(bytes);
  const plan = planByKeys(target.shape);
  const effort = checkDocument(body, 'payload_undecodable', plan.scan);
  return { ...oneRow(target, plan, null, body, effort), ackTimeoutMs };
}

/** For rows whose keys are columns whatever the table's intake says; made once for a shape. */
const planByKeys = rememberedOf((shape: Shape): RowPlan => {
  const intake = { document: null, includes: [], unknown: 'ignore', format: 'json' } as const;
  // Events of the gateway have the values of their columns.
  return { ...makePlan(shape, intake, defaultOptions), whole: null };
});
