/**
 * Rows of a WebSocket's batch, whose items are not the body of a request. Takes bytes, returns Rows; may refuse with `payload_undecodable`,
 * `invalid_option`, `body_too_large`, `delivery_id_missing`. Touches nothing.
 */
import { isUtf8 } from 'node:buffer';
import { deliveryOf, together } from './delivery.ts';
import type { DeliveryDigest } from './delivery.ts';
import { derived } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import type { DecodeHead } from '../types/request.ts';
import type { Documents, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { isJsonSpace } from '../kit/json-grammar.ts';
import { skipSpace } from '../kit/json-walk.ts';
import { longWork } from '../kit/time-slices.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { Spans } from './document-spans.ts';
import { includedMembers } from './includes.ts';
import { scanItem, scanJson, scannedEffort } from './json-scan.ts';
import { tooManyMembersReason } from './json-tokens.ts';
import { lineRows } from './lines.ts';
import { defaultOptions, readOptions } from './options.ts';
import { withStorableEscapes } from './storable.ts';
import { noObject, refuseBody, refuseProblem } from './messages.ts';
import type { JsonProblem } from './messages.ts';
import { namesRow, rowGrowth, wholePlanFor, writeRow } from './reshape.ts';
import { KeptColumns, RowBytes } from './row-bytes.ts';
import { changesNothing, ignoredOf, isRow, planForScanned, planOf, rowProblem } from './row-plan.ts';
import type { RowPlan } from './row-plan.ts';

/** One batch of a WebSocket, with the head of the request that opened it. */
export interface ItemsRequest extends DecodeHead {
  /** The data of each item; not checked yet, but each ends at a comma, a closing bracket or white space before one. */
  readonly documents: Documents & { readonly spans: Uint32Array };
  /** 1 for an item that deletes; null: none does. */
  readonly deletes: Uint8Array | null;
}

/** At once if the batch is small; otherwise with pauses for others. Errors name the item, from 1: `item 2: …`. */
export function decodeItems(target: Target, items: ItemsRequest): Rows | Promise<Rows> {
  return longWork.slices(items.documents.bytes.length, itemsInSlices(target, items));
}

/** Errors name the item, from 1: `item 2: …`. Pauses for others now and then, if there are many items. */
export function* itemsInSlices(target: Target, request: ItemsRequest): Generator<void, Rows> {
  const { intake } = target;
  const plan = planOf(target, intake.document === null ? readOptions(request.rawHeaders) : defaultOptions);
  const included = includedMembers(intake, request);
  return yield* itemsWith(target, request, plan, included);
}

function* itemsWith(
  target: Target,
  request: ItemsRequest,
  plan: RowPlan,
  included: Buffer | null,
): Generator<void, Rows> {
  const { bytes: source, spans } = request.documents;
  // As in decode-slices.ts: no two large batches in one turn, and none in the turn in which it was unmasked.
  if (source.length > limits.decodeSliceBytes) yield;
  const count = spans.length / 2;
  const out = changesNothing(plan, included)
    ? null
    : new RowBytes(source.length, count * rowGrowth(plan, included));
  try {
    return yield* rowsOfItems(target, request, plan, included, out);
  } catch (error) {
    out?.drop();
    throw error;
  }
}

/** `out` null: the items are stored unchanged. */
function* rowsOfItems(
  target: Target,
  request: ItemsRequest,
  plan: RowPlan,
  included: Buffer | null,
  out: RowBytes | null,
): Generator<void, Rows> {
  const { deletes, rawHeaders } = request;
  const { spans } = request.documents;
  const { dedupe } = target;
  // Which keeps the places of all items.
  const source = target.intake.replaces
    ? withStorableEscapes(request.documents.bytes)
    : request.documents.bytes;
  const items: DeliveryDigest[] = [];
  const count = spans.length / 2;
  const written = out === null ? null : new Spans(count);
  const keeps = new KeptColumns();
  const allUtf8 = isUtf8(source);
  let effort = 0;
  let ignored = 0;
  let sliceEnd = (spans[0] ?? 0) + limits.decodeSliceBytes;
  for (let i = 0; i < count; i++) {
    const start = skipSpace(source, spans[2 * i] ?? 0);
    if (start + (out?.length ?? 0) > sliceEnd) {
      yield;
      sliceEnd = start + (out?.length ?? 0) + limits.decodeSliceBytes;
    }
    let end = spans[2 * i + 1] ?? 0;
    while (end > start && isJsonSpace(source[end - 1])) end--;
    const removed = deletes?.[i] === 1;
    const problem = itemProblem(target, plan, source, start, end, allUtf8, removed);
    if (problem !== null) throw refuseProblem('payload_undecodable', problem, `item ${i + 1}`);
    if (!removed && plan.keys !== null && plan.keys.unknown > 0) ignored++;
    effort += scannedEffort();
    if (effort > limits.jsonMembersSquaredMax)
      throw refuseBody('payload_undecodable', tooManyMembersReason, `item ${i + 1}`);
    if (dedupe !== undefined) {
      const item = itemOf(dedupe, rawHeaders, source.subarray(start, end), i);
      // A delete is no repetition of the item that stored the row.
      items.push(removed ? { ...item, delivery: derived(item.delivery, 'delete') } : item);
    }
    if (out === null) {
      const whole = wholePlanFor(plan, source, start);
      if (whole !== null) return yield* itemsWith(target, request, whole, included);
      continue;
    }
    const at = out.length;
    const kept = writeRow(out, planForScanned(plan), included, source, start, end);
    if (kept !== null && !removed) keeps.add(i, kept);
    written?.add(at, out.length, i + 1);
  }
  const documents = { bytes: out?.done() ?? source, spans: written?.places() ?? spans };
  const read = {
    documents,
    count,
    lines: null,
    keeps: keeps.done(),
    effort,
    ignored: ignoredOf(plan, ignored),
  };
  const rows = lineRows(target, read, null);
  const delivery = items.length === 0 ? {} : together(items);
  return { ...rows, ...delivery, deletes: deletes?.includes(1) === true ? deletes : null };
}

/** Items have no headers of their own: those of the upgrade are the same for all of them. */
function itemOf(dedupe: Dedupe, rawHeaders: readonly string[], body: Buffer, index: number): DeliveryDigest {
  try {
    return deliveryOf(dedupe, 'json', { body, rawHeaders });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new Refused(error.refusal.code, `item ${index + 1}: ${error.refusal.message}`);
  }
}

function itemProblem(
  target: Target,
  plan: RowPlan,
  bytes: Buffer,
  start: number,
  end: number,
  allUtf8: boolean,
  removed: boolean,
): JsonProblem | null {
  const behind = allUtf8 ? scanItem(bytes, start, plan.scan) : -1;
  if (behind < end || skipSpace(bytes, end) < behind) {
    const problem = scanJson(bytes.subarray(start, end), plan.scan);
    if (problem !== null) return problem;
  }
  if (!removed) return rowProblem(plan, bytes, start);
  if (!isRow(plan, bytes, start)) return { reason: noObject, offset: null };
  // Of a row to delete only the key is examined.
  const reason = deleteProblem(target, plan, bytes, start);
  return reason === null ? null : { reason, offset: null };
}

function deleteProblem({ shape }: Target, plan: RowPlan, bytes: Buffer, start: number): string | null {
  if (shape.key.length === 0) return 'deletes need the primary key, and the table has none';
  return namesRow(plan, bytes, start) ? null : 'deletes need the primary key';
}
