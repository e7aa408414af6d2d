/**
 * One document that is one row: the door of the room. Takes the body as received; returns Rows. A small JSON document that is stored as it is, as most are,
 * is decoded here; all other bodies by decode-slices.ts, and events of the gateway by lines.ts. May refuse with `body_not_json` and `payload_undecodable`.
 * Touches nothing.
 */
import type { DecodeHead, DecodeRequest } from '../types/request.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { readsLikeForm } from '../kit/form.ts';
import { firstHeader } from '../kit/header.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import { scanJson, scannedEffort } from './json-scan.ts';
import type { JsonScanOptions } from './json-scan.ts';
import { formReason, refuseProblem } from './messages.ts';
import type { BodyCode } from './messages.ts';

/** null: the body is not small, or not the row; decodeWithPauses takes it. Throws Refused. */
export function decodeWhole(target: Target, request: DecodeRequest): Rows | null {
  const isSmall = request.body.length <= limits.decodeSliceBytes;
  if (!isSmall || !storesWhole(target) || request.method === 'GET' || target.intake.replaces === true)
    return null;
  const body = withoutMark(request.body);
  return wholeBody(target, body, checkDocument(body, codeOf(target), plainScan, request));
}

/** Each body is one document, and the row. */
export function storesWhole({ shape, intake, dedupe }: Target): boolean {
  return (
    shape.writeMode === 'documents' && intake.format === 'json' && !intake.batched && dedupe === undefined
  );
}

export const plainScan: JsonScanOptions = { depthMax: limits.jsonDepthMax };

export const codeOf = ({ intake }: Target): BodyCode =>
  intake.document === null ? 'payload_undecodable' : 'body_not_json';

/** Throws Refused unless jsonb can hold it; returns what its objects may cost the engine; see scannedEffort. */
export function checkDocument(
  body: Buffer,
  code: BodyCode,
  options: JsonScanOptions,
  request: DecodeHead | null = null,
): number {
  const problem = scanJson(body, options);
  if (problem === null) return scannedEffort();
  const isForm = request !== null && isMeantAsForm(request, body);
  throw refuseProblem(code, isForm ? { reason: formReason, offset: null } : problem);
}

/** Many clients call every body a form: only one that reads like one is meant so. */
function isMeantAsForm(request: DecodeHead, body: Buffer): boolean {
  const type = firstHeader(request, 'content-type') ?? '';
  return (
    /^multipart\/form-data\b/i.test(type) ||
    (/^application\/x-www-form-urlencoded\b/i.test(type) && readsLikeForm(body))
  );
}

/** The row of one document, with the size that groups and lanes count. `effort`: see scannedEffort. */
export function wholeBody(target: Target, body: Buffer, effort: number): Rows {
  const bytes = body.length + effortBytes(effort);
  return {
    target,
    documents: { bytes: body, spans: null },
    count: 1,
    bytes,
    deletes: null,
    keeps: null,
    lines: null,
    ackTimeoutMs: bytes > limits.groupBytesMax ? ackTimeoutMs(0, bytes) : limits.ackDeadlineMs,
    chain: null,
    ignored: null,
  };
}

const effortPerByte = limits.jsonMembersSquaredMax / limits.groupBytesMax;

/** What objects may cost the engine, as bytes: a body at `jsonMembersSquaredMax` counts like a whole group, and is committed alone. */
export function effortBytes(effort: number): number {
  return Math.ceil(effort / effortPerByte);
}

/**
 * How long the sender of a request waits. A request that is larger than a group is committed alone, so that nobody else waits
 * for it, and gets the time that the engine needs for the slowest bytes there are, on a slow machine.
 */
export function ackTimeoutMs(rows: number, bytes: number): number {
  const { ackDeadlineMs, batchRowPatienceUs, batchMiBPatienceMs, largeMiBPatienceMs, groupBytesMax } = limits;
  const forRows = (rows * batchRowPatienceUs) / 1_000;
  const perMiB = bytes > groupBytesMax ? largeMiBPatienceMs : batchMiBPatienceMs;
  return Math.ceil(ackDeadlineMs + forRows + (bytes / (1024 * 1024)) * perMiB);
}
