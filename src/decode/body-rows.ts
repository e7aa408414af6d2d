/**
 * The rows of bodies that are stored as they are, and what rows of any body count: their size, and how long their sender waits. Takes a body, or where
 * the documents in it are; returns Rows. May refuse with `body_not_json` and `payload_undecodable`. Touches nothing.
 */
import type { DecodeRequest } from '../types/request.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import { type JsonScanOptions, scanJson, scannedEffort } from './json-scan.ts';
import type { LineRows } from './lines.ts';
import { type BodyCode, refuseProblem } from './messages.ts';

/** The hot path: the single row of a small body that is stored unchanged; null: this body is not. */
export function decodeWhole(target: Target, request: Pick<DecodeRequest, 'body' | 'method'>): Rows | null {
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

export const plainScan: JsonScanOptions = { depthMax: limits.jsonDepthMax };

export const codeOf = ({ intake }: Target): BodyCode =>
  intake.document === null ? 'payload_undecodable' : 'body_not_json';

/** Returns what its objects may cost the engine; see scannedEffort. */
export function checkDocument(body: Buffer, code: BodyCode, options: JsonScanOptions): number {
  const problem = scanJson(body, options);
  if (problem !== null) throw refuseProblem(code, problem);
  return scannedEffort();
}

/** A body at `jsonMembersSquaredMax` counts like the bytes of a whole group: it is committed alone. */
const effortPerByte = limits.jsonMembersSquaredMax / limits.groupBytesMax;

export function wholeBody(
  target: Target,
  body: Buffer,
  kept: readonly string[] | null,
  effort: number,
): Rows {
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
