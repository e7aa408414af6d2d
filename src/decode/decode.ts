/**
 * Bytes to rows for one table. Takes the body as received, and what else of the request becomes a column; returns one
 * JSON document per row, byte for byte except for what INCLUDE adds and what is converted. Events of the gateway are the same for any table: their
 * keys are its columns, whatever its intake says. May refuse with `body_not_json`,
 * `payload_undecodable`, `body_not_form`, `invalid_option`, `body_too_large`. Touches nothing.
 */
import type { DecodeRequest } from '../types/request.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { withoutMark, isJsonSpace } from '../kit/json-grammar.ts';
import { skipSpace } from '../kit/json-walk.ts';
import { atOnce, longWork } from '../kit/time-slices.ts';
import { Refused } from '../errors/refusals.ts';
import { limits } from '../config/limits.ts';
import { documentOf, documentOfQuery, queryOf } from './bodies.ts';
import { deliveryOf } from './delivery.ts';
import { includedMembers } from './includes.ts';
import { type JsonScanOptions, scanJson, scannedEffort } from './json-scan.ts';
import { type LineRows, readInSlices, readLines } from './lines.ts';
import { defaultOptions, readOptions } from './options.ts';
import { type BodyCode, noObject, problemSentence, refuseBody, refuseProblem } from './messages.ts';
import {
  changesNothing,
  ignoredOf,
  isRow,
  keyProblem,
  type RowPlan,
  needsWhole,
  planByKeys,
  planOf,
  rowGrowth,
  writeRow,
} from './reshape.ts';
import { RowBytes } from './row-bytes.ts';
import { storable } from './storable.ts';

export function decodeRequest(target: Target, request: DecodeRequest): Rows {
  return atOnce(decodeInSlices(target, request));
}

/** At once if the body is small; otherwise with pauses for others. Throws Refused. */
export function decode(target: Target, request: DecodeRequest): Rows | Promise<Rows> {
  const whole = decodeWhole(target, request);
  if (whole !== null) return whole;
  const rows = longWork.slices(request.body.length, decodeInSlices(target, request));
  return rows instanceof Promise ? rows.then(boundInto) : boundInto(rows);
}

/** Rows of one request that go into RisingWave are one INSERT, of a bounded size. Throws Refused. */
function boundInto(rows: Rows): Rows {
  if (rows.target.into === undefined) return rows;
  if (rows.documents.bytes.length > limits.groupBytesMax) throw new Refused('body_too_large', tooLarge);
  return { ...rows, ackTimeoutMs: Math.max(rows.ackTimeoutMs, limits.intoDeadlineMs) };
}

const tooLarge = `the rows of one request are one INSERT there, of at most ${limits.groupBytesMax} bytes`;

/** The hot path: the single row of a small body that is stored unchanged; null: this body is not. */
function decodeWhole(target: Target, request: Pick<DecodeRequest, 'body' | 'method'>): Rows | null {
  const { shape, intake, dedupe } = target;
  if (shape.writeMode !== 'copy' || intake.format !== 'json' || intake.batched || dedupe !== undefined)
    return null;
  if (request.method === 'GET') return null;
  if (request.body.length > limits.decodeSliceBytes || intake.replaces === true) return null;
  const body = withoutMark(request.body);
  return wholeBody(target, body, null, checkDocument(body, codeOf(target), plainScan));
}

/** The rows of bodies in one buffer, each of which is stored unchanged; null: one of them is not. */
export function decodeWholes(target: Target, bytes: Buffer, spans: Uint32Array): Rows | null {
  const { shape, intake, dedupe } = target;
  if (shape.writeMode !== 'copy' || intake.format !== 'json' || intake.batched || dedupe !== undefined)
    return null;
  let effort = 0;
  for (let at = 0; at < spans.length; at += 2) {
    const problem = scanJson(bytes.subarray(spans[at], spans[at + 1]), plainScan);
    if (problem !== null) return null;
    effort += scannedEffort();
  }
  const documents = { bytes, spans };
  const read = { documents, count: spans.length / 2, lines: null, keeps: null, effort, ignored: null };
  return lineRows(target, read, bytes.length > limits.groupBytesMax ? null : limits.ackDeadlineMs);
}

const plainScan: JsonScanOptions = { depthMax: limits.jsonDepthMax };

const codeOf = ({ intake }: Target): BodyCode =>
  intake.document === null ? 'payload_undecodable' : 'body_not_json';

/** The same with a pause for others now and then, if there are many rows. */
export function* decodeInSlices(target: Target, request: DecodeRequest): Generator<void, Rows> {
  const { dedupe, intake } = target;
  if (request.method === 'GET') {
    const rows = yield* decodeQuery(target, request);
    if (dedupe === undefined) return rows;
    const { rawHeaders, header } = request;
    const written = { rawHeaders, header, body: queryOf(request) };
    return { ...rows, ...deliveryOf(dedupe, formatOfQuery(intake), written) };
  }
  const rows = yield* decodeRows(target, request);
  // The digest of a large body takes as long as reading it.
  if (dedupe !== undefined && request.body.length > limits.decodeSliceBytes) yield;
  return dedupe === undefined ? rows : { ...rows, ...deliveryOf(dedupe, intake.format, request) };
}

/** The row of a GET: its query string stands for the body, which it does not have. */
function* decodeQuery(target: Target, request: DecodeRequest): Generator<void, Rows> {
  const code = codeOf(target);
  // Whoever has signed the query has not signed it.
  if (request.body.length > 0) throw refuseBody(code, 'a GET is stored by its query string and has no body');
  const read = readByQuery(target);
  const options = target.intake.document === null ? readOptions(request.rawHeaders) : defaultOptions;
  const plan = planOf(read, options);
  const included = includedMembers(target.intake, request);
  const document = yield* documentOfQuery(read, queryOf(request), code);
  if (plan.keys !== null) checkDocument(document, code, plan.scan);
  return oneRow(target, plan, included, document, 0, request.body);
}

/** The table, of which every request is one document that is not JSON. */
const readByQuery = rememberedOf((target: Target): Target => {
  const { intake } = target;
  return { ...target, intake: { ...intake, format: formatOfQuery(intake), batched: false } };
});

const formatOfQuery = ({ format }: Target['intake']) => (format === 'json' ? 'form' : format);

function* decodeRows(target: Target, request: DecodeRequest): Generator<void, Rows> {
  const { shape, intake } = target;
  // Large documents are read in one go, but no two of them in one turn.
  if (request.body.length > limits.decodeSliceBytes) yield;
  const read = withoutMark(request.body);
  const body = intake.replaces === true && intake.format === 'json' ? storable(read) : read;
  const code = codeOf(target);
  const isOneDocument = intake.format === 'json' && !intake.batched;
  if (isOneDocument && shape.writeMode === 'copy') {
    // The body is the row.
    return wholeBody(target, body, null, checkDocument(body, code, plainScan));
  }
  const plan = planOf(target, intake.document === null ? readOptions(request.rawHeaders) : defaultOptions);
  const included = includedMembers(intake, request);
  if (isOneDocument) {
    const effort = checkDocument(body, code, plan.scan);
    return oneRow(target, plan, included, body, effort, request.body);
  }
  if (intake.format !== 'json') {
    const document = yield* documentOf(target, request, code);
    if (plan.keys !== null) checkDocument(document, code, plan.scan);
    return oneRow(target, plan, included, document, 0, request.body);
  }
  const lines = yield* readInSlices(body, plan, included, 1, (line, problem) => {
    throw refuseProblem(code, problem, `line ${line}`);
  });
  return lineRows(target, lines, null);
}

/** Returns what its objects may cost the engine; see scannedEffort. */
function checkDocument(body: Buffer, code: BodyCode, options: JsonScanOptions): number {
  const problem = scanJson(body, options);
  if (problem !== null) throw refuseProblem(code, problem);
  return scannedEffort();
}

/** The row of a document that jsonb accepts, and that was scanned last; `raw`: the body that it was made from. */
function oneRow(
  target: Target,
  plan: RowPlan,
  included: Buffer | null,
  body: Buffer,
  effort: number,
  raw = body,
): Rows {
  if (changesNothing(plan, included) && !plan.typed) return wholeBody(target, body, null, effort);
  const start = plan.asText ? 0 : skipSpace(body, 0);
  if (!isRow(plan, body, start)) throw refuseBody('payload_undecodable', noObject);
  const problem = keyProblem(plan, body, start);
  if (problem !== null) throw refuseProblem('payload_undecodable', problem);
  const ignored = ignoredOf(plan, plan.keys !== null && plan.keys.unknown > 0 ? 1 : 0);
  const written = needsWhole(plan, body, start) ? (plan.whole ?? plan) : plan;
  if (changesNothing(written, included)) return { ...wholeBody(target, body, null, effort), ignored };
  let end = body.length;
  while (!plan.asText && isJsonSpace(body[end - 1])) end--;
  const hexBytes = plan.takesBytes ? raw.length * 2 : 0;
  const out = new RowBytes(end - start, rowGrowth(plan, included) + hexBytes + spareBytes);
  const kept = writeRow(out, written, included, body, start, end, raw);
  return { ...wholeBody(target, out.done(), kept, effort), ignored };
}

/** Room for a few numbers that are converted to moments. */
const spareBytes = 64;

/** A body at `jsonMembersSquaredMax` counts like the bytes of a whole group: it is committed alone. */
const effortPerByte = limits.jsonMembersSquaredMax / limits.groupBytesMax;

function wholeBody(target: Target, body: Buffer, kept: readonly string[] | null, effort: number): Rows {
  const bytes = body.length + Math.ceil(effort / effortPerByte);
  return {
    target,
    documents: { bytes: body, spans: null },
    count: 1,
    bytes,
    deletes: null,
    keeps: kept === null ? null : new Map([[0, kept]]),
    lines: null,
    ackTimeoutMs: bytes > limits.groupBytesMax ? ackTimeoutMs(0, bytes) : limits.ackDeadlineMs,
    chain: null,
    ignored: null,
  };
}

/** The rows of many documents; `givenMs`: how long their sender waits; null: according to their number and size. */
export function lineRows(target: Target, read: LineRows, givenMs: number | null): Rows {
  const { documents, count, lines, keeps, effort, ignored } = read;
  const bytes =
    documents.bytes.length +
    (documents.spans?.byteLength ?? 0) +
    (lines?.byteLength ?? 0) +
    (keeps?.size ?? 0) * keptRowBytes +
    Math.ceil(effort / effortPerByte);
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

/**
 * How long the sender of a request waits. A request that is larger than a group is committed alone, so that nobody else waits
 * for it, and gets the time that the engine needs for the slowest bytes there are, on a slow machine.
 */
function ackTimeoutMs(rows: number, bytes: number): number {
  const { ackDeadlineMs, batchRowPatienceUs, batchMiBPatienceMs, largeMiBPatienceMs, groupBytesMax } = limits;
  const forRows = (rows * batchRowPatienceUs) / 1_000;
  const perMiB = bytes > groupBytesMax ? largeMiBPatienceMs : batchMiBPatienceMs;
  return Math.ceil(ackDeadlineMs + forRows + (bytes / (1024 * 1024)) * perMiB);
}

/** One JSON object whose keys are columns, whatever the target's intake says. */
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
