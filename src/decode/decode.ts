/**
 * Bytes to rows for one table. Takes the body as it arrived, and what else of the request becomes a column; gives one
 * JSON document a row, byte for byte but for what INCLUDE adds and what is converted. May refuse with `body_not_json`,
 * `payload_undecodable`, `invalid_option`, `body_too_large`. Touches nothing.
 */
import type { DecodeRequest, Rows, Target } from '../flow.ts';
import { skipSpace } from '../kit/json-walk.ts';
import { isJsonSpace } from '../kit/json-grammar.ts';
import { limits } from '../limits.ts';
import { documentOf } from './bodies.ts';
import { includedMembers } from './includes.ts';
import { scanJson } from './json-scan.ts';
import { type LineRows, readLines } from './lines.ts';
import { defaultOptions, readOptions } from './options.ts';
import { type BodyCode, noObject, problemText, refuseBody } from './problems.ts';
import { changesNothing, isRow, type Plan, planOf, rowGrowth, writeRow } from './reshape.ts';
import { RowBytes } from './row-bytes.ts';

export function decodeRequest(target: Target, request: DecodeRequest): Rows {
  const { body, rawHeaders, arrivedAtMs } = request;
  const { shape, intake } = target;
  const code: BodyCode = intake.document === null ? 'payload_undecodable' : 'body_not_json';
  const isOneDocument = intake.format === 'json' && !intake.batched;
  if (isOneDocument && shape.way === 'copy') {
    // The hot path: the body is the row.
    checkDocument(body, code);
    return wholeBody(target, body, null);
  }
  const plan = planOf(target, intake.document === null ? readOptions(rawHeaders) : defaultOptions);
  const included = includedMembers(intake, rawHeaders, arrivedAtMs);
  if (isOneDocument) {
    checkDocument(body, code);
    return oneRow(target, plan, included, body);
  }
  if (intake.format !== 'json') return oneRow(target, plan, included, documentOf(target, body, code));
  const read = readLines(body, plan, included, 1, (line, problem) => {
    throw refuseBody(code, problemText(problem), `line ${line}`);
  });
  return lineRows(target, read, null);
}

export function checkDocument(body: Buffer, code: BodyCode): void {
  const problem = scanJson(body, { depthMax: limits.jsonDepthMax });
  if (problem !== null) throw refuseBody(code, problemText(problem));
}

/** The row of one document that jsonb takes. */
export function oneRow(target: Target, plan: Plan, included: Buffer | null, body: Buffer): Rows {
  if (changesNothing(plan, included) && !plan.typed) return wholeBody(target, body, null);
  const start = skipSpace(body, 0);
  if (!isRow(plan, body, start)) throw refuseBody('payload_undecodable', noObject);
  if (changesNothing(plan, included)) return wholeBody(target, body, null);
  let end = body.length;
  while (isJsonSpace(body[end - 1])) end--;
  const out = new RowBytes(end - start, rowGrowth(plan, included) + spareBytes);
  const kept = writeRow(out, plan, included, body, start, end);
  return wholeBody(target, out.done(), kept);
}

/** Room for a few numbers that become moments. */
const spareBytes = 64;

function wholeBody(target: Target, body: Buffer, kept: readonly string[] | null): Rows {
  return {
    target,
    documents: { bytes: body, spans: null },
    count: 1,
    bytes: body.length,
    removes: null,
    keeps: kept === null ? null : new Map([[0, kept]]),
    lines: null,
    patienceMs: limits.ackDeadlineMs,
    chain: null,
  };
}

/** The rows of many documents; `patienceMs` null: as long as their number and size deserve. */
export function lineRows(target: Target, read: LineRows, patienceMs: number | null): Rows {
  const { documents, count, lines, keeps } = read;
  const bytes =
    documents.bytes.length +
    (documents.spans?.byteLength ?? 0) +
    (lines?.byteLength ?? 0) +
    (keeps?.size ?? 0) * keptRowBytes;
  return {
    target,
    documents,
    count,
    bytes,
    removes: null,
    keeps,
    lines,
    patienceMs: patienceMs ?? batchPatienceMs(count, bytes),
    chain: null,
  };
}

/** What an entry of a Map takes, about. */
const keptRowBytes = 64;

export function batchPatienceMs(rows: number, bytes: number): number {
  const forRows = (rows * limits.batchRowPatienceUs) / 1_000;
  const forBytes = (bytes / (1024 * 1024)) * limits.batchMiBPatienceMs;
  return Math.ceil(limits.ackDeadlineMs + forRows + forBytes);
}
