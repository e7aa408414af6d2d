/**
 * One document per line: how lines become rows, for webhooks (readInSlices) and for events of the gateway (decodeEvents), whose keys are columns whatever the
 * table's intake says, and which may be one object, too. Lines end with LF or CRLF, the last one also with the body; blank lines are no rows but are counted.
 * No object is made for a line: a million of them are a list of numbers. Takes bytes, and the plan of their table; returns rows. May refuse with
 * `payload_undecodable` and `body_too_large`. Touches nothing.
 */
import { isUtf8 } from 'node:buffer';
import type { Documents, Ignored, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { isJsonSpace, withoutMark } from '../kit/json-grammar.ts';
import { atOnce } from '../kit/time-slices.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { ackTimeoutMs, checkDocument, effortBytes } from './decode.ts';
import { Spans } from './document-spans.ts';
import { isObjectOverLines } from './event-text.ts';
import { scanJson, scanLine, scannedEffort } from './json-scan.ts';
import type { JsonScanOptions } from './json-scan.ts';
import { tooManyMembersReason } from './json-tokens.ts';
import { refuseProblem } from './messages.ts';
import type { JsonProblem } from './messages.ts';
import { oneRow, rowGrowth, wholePlanFor, writeRow } from './reshape.ts';
import { KeptColumns, RowBytes } from './row-bytes.ts';
import { changesNothing, ignoredOf, planByKeys, planForScanned, rowProblem } from './row-plan.ts';
import type { RowPlan } from './row-plan.ts';

/**
 * A whole body of events, all or nothing. Unless the table has a column of moments, rows are views of the body: `documents.spans` says where each begins and
 * ends. Throws Refused, for one of several lines with its number.
 */
export function decodeEvents(target: Target, body: Buffer): Rows {
  const lineEnd = body.indexOf(lineFeed);
  // Nearly all events arrive alone.
  if (lineEnd < 0 || lineEnd === body.length - 1)
    try {
      return decodeObject(target, body);
    } catch (error) {
      // The error is told below, with its line.
      if (!(error instanceof Refused)) throw error;
    }
  // Lines first: a body that can be read as lines is not one object over several of them, so nearly all bodies are read once.
  try {
    return decodeLines(target, body, 1);
  } catch (error) {
    if (isObjectOverLines(body)) return decodeObject(target, body);
    throw error;
  }
}

const lineFeed = 10;

/** One event, whose keys are columns. */
export function decodeObject(target: Target, bytes: Buffer): Rows {
  const body = withoutMark(bytes);
  const plan = planByKeys(target.shape);
  const effort = checkDocument(body, 'payload_undecodable', plan.scan);
  return { ...oneRow(target, plan, null, body, effort), ackTimeoutMs: limits.eventsDeadlineMs };
}

/** One event per line; `firstLine` is the number of the first line, from 1. `onProblem` default: the first line that is no event refuses all. */
export function decodeLines(
  target: Target,
  bytes: Buffer,
  firstLine: number,
  onProblem: OnLineProblem = refuseLine,
): Rows {
  const body = firstLine === 1 ? withoutMark(bytes) : bytes;
  const read = atOnce(readInSlices(body, planByKeys(target.shape), null, firstLine, onProblem));
  return lineRows(target, read, limits.eventsDeadlineMs);
}

/** Called with a line that is no row, and the reason; throws, or lets the line be left out. */
type OnLineProblem = (line: number, problem: JsonProblem) => void;

const refuseLine: OnLineProblem = (line, problem) => {
  throw refuseProblem('payload_undecodable', problem, `line ${line}`);
};

/** Most lines are longer; a list that is too short grows. */
const expectedLineBytes = 128;

/**
 * The rows of a body with one document a line, each scanned once. It yields after each `decodeSliceBytes`, so that others get a turn; small bodies end before.
 * `included`: what INCLUDE adds to each row; null, as for events: nothing.
 */
export function* readInSlices(
  body: Buffer,
  plan: RowPlan,
  included: Buffer | null,
  firstLine: number,
  onProblem: OnLineProblem,
): Generator<void, LineRows> {
  const expected = Math.ceil(body.length / expectedLineBytes);
  /** null: the lines are stored unchanged. */
  const out = changesNothing(plan, included)
    ? null
    : new RowBytes(body.length, expected * rowGrowth(plan, included));
  const lines = new LineScanner(body, firstLine, plan.scan);
  const spans = new Spans(expected);
  const keeps = new KeptColumns();
  let ignored = 0;
  let sliceEnd = limits.decodeSliceBytes;
  try {
    for (;;) {
      // Before a line is scanned: what the plan knows of its keys is lost in a pause, in which other documents of the table are scanned.
      if (lines.position + (out?.length ?? 0) > sliceEnd) {
        yield;
        sliceEnd = lines.position + (out?.length ?? 0) + limits.decodeSliceBytes;
      }
      if (!lines.next()) break;
      const { start, end, number } = lines;
      const problem = lines.problem ?? rowProblem(plan, body, start);
      if (problem !== null) {
        onProblem(number, problem);
        continue;
      }
      if (plan.keys !== null && plan.keys.unknown > 0) ignored++;
      if (out !== null) {
        const at = out.length;
        const [from, to] = plan.asText ? [lines.lineStart, lines.lineEnd] : [start, end];
        const kept = writeRow(out, planForScanned(plan), included, body, from, to);
        if (kept !== null) keeps.add(spans.count, kept);
        spans.add(at, out.length, number);
      } else {
        // As a rule null, as for all events: there is no such plan.
        const whole = plan.whole === null ? null : wholePlanFor(plan, body, start);
        // From the first line on: rows are either views of the body or all written.
        if (whole !== null) return yield* readInSlices(body, whole, included, firstLine, onProblem);
        spans.add(start, end, number);
      }
    }
  } catch (error) {
    out?.drop();
    throw error;
  }
  return {
    documents: { bytes: out === null ? body : out.done(), spans: spans.places() },
    count: spans.count,
    lines: spans.lines(),
    keeps: keeps.done(),
    effort: lines.effort,
    ignored: ignoredOf(plan, ignored),
  };
}

/** The lines of a body that are not blank: `next` until it returns false. */
class LineScanner {
  /** Without surrounding white space. */
  start = 0;
  end = 0;
  /** With it. */
  lineStart = 0;
  lineEnd = 0;
  /** Counted from 1. */
  number: number;
  /** Why the line is no document. */
  problem: JsonProblem | null = null;
  /** What the objects of all lines so far may cost the engine; see scannedEffort. */
  effort = 0;
  #next = 0;
  readonly #body: Buffer;
  readonly #allUtf8: boolean;
  readonly #scanOptions: JsonScanOptions;

  constructor(body: Buffer, firstNumber: number, scanOptions: JsonScanOptions) {
    this.#body = body;
    this.#scanOptions = scanOptions;
    this.number = firstNumber - 1;
    // A line end is never a part of another character, so the whole is UTF-8 if each line is.
    this.#allUtf8 = isUtf8(body);
  }

  /** Where the next line begins. */
  get position(): number {
    return this.#next;
  }

  next(): boolean {
    const body = this.#body;
    let at = this.#next;
    this.number++;
    this.lineStart = at;
    for (; isJsonSpace(body[at]); at++) {
      if (body[at] !== 10) continue;
      this.number++;
      this.lineStart = at + 1;
    }
    if (at >= body.length) return false;
    this.start = at;
    const lineEnd = this.#allUtf8 ? scanLine(body, at, this.#scanOptions) : -1;
    if (lineEnd >= 0) this.problem = this.#addEffort();
    let end = lineEnd >= 0 ? lineEnd : this.#refused(at);
    this.#next = end + 1;
    this.lineEnd = end < body.length && body[end - 1] === 13 ? end - 1 : end;
    while (isJsonSpace(body[end - 1])) end--;
    this.end = end;
    return true;
  }

  #addEffort(): JsonProblem | null {
    if (this.effort + scannedEffort() > limits.jsonMembersSquaredMax)
      return { reason: tooManyMembersReason, offset: null };
    this.effort += scannedEffort();
    return null;
  }

  /** Sets the problem; returns the end of the line. */
  #refused(start: number): number {
    const body = this.#body;
    const newline = body.indexOf(10, start);
    const end = newline < 0 ? body.length : newline;
    this.problem = scanJson(body.subarray(start, end), this.#scanOptions);
    return end;
  }
}

interface LineRows {
  readonly documents: Documents;
  readonly count: number;
  readonly lines: Uint32Array | null;
  readonly keeps: ReadonlyMap<number, readonly string[]> | null;
  /** What the objects of the rows may cost the engine; see scannedEffort. */
  readonly effort: number;
  readonly ignored: Ignored | null;
}

/** The rows of many documents; `givenMs`: how long their sender waits; null: according to their number and size. */
export function lineRows(target: Target, read: LineRows, givenMs: number | null): Rows {
  const { documents, count, lines, keeps, effort, ignored } = read;
  const bytes =
    documents.bytes.length +
    (documents.spans?.byteLength ?? 0) +
    (lines?.byteLength ?? 0) +
    (keeps?.size ?? 0) * keptRowBytes +
    effortBytes(effort);
  return {
    target,
    documents,
    count,
    bytes,
    deletes: null,
    keeps,
    lines,
    ackTimeoutMs: givenMs ?? ackTimeoutMs(count, bytes),
    chain: null,
    ignored,
  };
}

/** The approximate size of an entry of a Map. */
const keptRowBytes = 64;
