/**
 * Bytes to rows, whatever the table and the body are: forms, text and bytes, many lines, columns that keys or INCLUDE fill, deliveries stored once.
 * Takes the body as received, and what else of the request becomes a column; returns one JSON document per row, byte for byte except for what INCLUDE
 * adds and what is converted. May refuse with `body_not_json`, `payload_undecodable`, `body_not_form`, `invalid_option`, `body_too_large`. Touches nothing.
 */
import type { DecodeRequest } from '../types/request.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { rememberedOf } from '../kit/memoize.ts';
import { withoutMark } from '../kit/json-grammar.ts';
import { atOnce, longWork } from '../kit/time-slices.ts';
import { Refused } from '../errors/refusals.ts';
import { limits } from '../config/limits.ts';
import { documentOf, documentOfQuery, queryOf } from './bodies.ts';
import { checkDocument, codeOf, plainScan, storesWhole, wholeBody } from './decode.ts';
import { deliveryOf } from './delivery.ts';
import { includedMembers } from './includes.ts';
import { scanJson, scannedEffort } from './json-scan.ts';
import { lineRows, readInSlices } from './lines.ts';
import { defaultOptions, readOptions } from './options.ts';
import { refuseBody, refuseProblem } from './messages.ts';
import { oneRow } from './reshape.ts';
import { planOf } from './row-plan.ts';
import { storable } from './storable.ts';

/** Throws Refused, or rejects with it. */
export function decodeWithPauses(target: Target, request: DecodeRequest): Rows | Promise<Rows> {
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

/** All of it in one go, for rows that nobody waits for. Throws Refused. */
export function decodeRequest(target: Target, request: DecodeRequest): Rows {
  return atOnce(decodeInSlices(target, request));
}

/** With a pause for others now and then, if there are many rows. Throws Refused. */
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
  if (isOneDocument && shape.writeMode === 'documents') {
    // The body is the row.
    return wholeBody(target, body, checkDocument(body, code, plainScan, request));
  }
  const plan = planOf(target, intake.document === null ? readOptions(request.rawHeaders) : defaultOptions);
  const included = includedMembers(intake, request);
  if (isOneDocument) {
    const effort = checkDocument(body, code, plan.scan, request);
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
