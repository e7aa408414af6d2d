/**
 * Bytes to rows for one table: the door of the room. Takes the body as received; returns Rows. A small JSON document that is stored as it is, as most
 * are, is decoded here; all other bodies by decode-slices.ts, and events of the gateway by event-rows.ts. May refuse with `body_not_json` and
 * `payload_undecodable`, and with the codes of decode-slices.ts. Touches nothing.
 */
import type { DecodeRequest } from '../types/request.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import { checkDocument, codeOf, lineRows, plainScan, wholeBody } from './body-rows.ts';
import { decodeWithPauses } from './decode-slices.ts';
import { scanJson, scannedEffort } from './json-scan.ts';

/** At once if the body is small; otherwise with pauses for others. Throws Refused. */
export function decode(target: Target, request: DecodeRequest): Rows | Promise<Rows> {
  const isSmall = request.body.length <= limits.decodeSliceBytes;
  if (!isSmall || !storesWhole(target) || request.method === 'GET' || target.intake.replaces === true)
    return decodeWithPauses(target, request);
  const body = withoutMark(request.body);
  return wholeBody(target, body, null, checkDocument(body, codeOf(target), plainScan));
}

/** Each body is one document, and the row. */
function storesWhole({ shape, intake, dedupe }: Target): boolean {
  return shape.writeMode === 'copy' && intake.format === 'json' && !intake.batched && dedupe === undefined;
}

/** The rows of bodies in one buffer, each of which is stored unchanged; null: one of them is not. */
export function decodeWholes(target: Target, bytes: Buffer, spans: Uint32Array): Rows | null {
  if (!storesWhole(target)) return null;
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
