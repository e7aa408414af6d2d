/**
 * What rows of any body count: their size, and how long their sender waits. Takes a body that is one row, or where the documents in it are; returns Rows.
 * May refuse with `body_not_json` and `payload_undecodable`. Touches nothing.
 */
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { type JsonScanOptions, scanJson, scannedEffort } from './json-scan.ts';
import type { LineRows } from './lines.ts';
import { type BodyCode, refuseProblem } from './messages.ts';

export const plainScan: JsonScanOptions = { depthMax: limits.jsonDepthMax };

export const codeOf = ({ intake }: Target): BodyCode =>
  intake.document === null ? 'payload_undecodable' : 'body_not_json';

/** Throws Refused unless jsonb can hold it; returns what its objects may cost the engine; see scannedEffort. */
export function checkDocument(body: Buffer, code: BodyCode, options: JsonScanOptions): number {
  const problem = scanJson(body, options);
  if (problem !== null) throw refuseProblem(code, problem);
  return scannedEffort();
}

/** A body at `jsonMembersSquaredMax` counts like the bytes of a whole group: it is committed alone. */
const effortPerByte = limits.jsonMembersSquaredMax / limits.groupBytesMax;

/** The row of one document, with the size that groups and lanes count. `kept`: columns that it leaves as they are; `effort`: see scannedEffort. */
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
