/**
 * Rows that do not come as the body of a webhook request: the items of a WebSocket's batch, and the events of the
 * gateway, whose keys are columns of any table. Takes bytes, gives Rows; may refuse with `body_not_json`,
 * `payload_undecodable`, `body_too_large`. Touches nothing.
 */
import type { Chain, Rows, Target } from '../flow.ts';
import { isJsonSpace } from '../kit/json-grammar.ts';
import { skipSpace } from '../kit/json-walk.ts';
import { limits } from '../limits.ts';
import { batchPatienceMs, checkDocument, lineRows, oneRow } from './decode.ts';
import { includedMembers } from './includes.ts';
import { scanJson } from './json-scan.ts';
import { readLines } from './lines.ts';
import type { DecodeOptions } from './options.ts';
import { noObject, problemText, refuseBody } from './problems.ts';
import { changesNothing, isRow, namesRow, planByKeys, planOf, rowGrowth, writeRow } from './reshape.ts';
import { Keeps, RowBytes, Spans } from './row-bytes.ts';

/** The documents of one batch, as places in bytes that scanJson has accepted as a whole. */
export interface Items {
  /** Where each document begins and ends, in turn. */
  readonly spans: Uint32Array;
  /** 1 where an item deletes; null: none does. */
  readonly removes: Uint8Array | null;
}

export interface ItemsContext {
  /** Of the request that opened the connection: INCLUDE columns are filled from them. */
  readonly rawHeaders: readonly string[];
  readonly arrivedAtMs: number;
  /** Of `readOptions(rawHeaders)`, once for a connection. */
  readonly options: DecodeOptions;
  readonly chain: Chain | null;
}

/** Errors name the item, from 0: `item 2: …`. */
export function decodeItems(target: Target, source: Buffer, items: Items, context: ItemsContext): Rows {
  const { spans, removes } = items;
  const count = spans.length / 2;
  const plan = planOf(target, context.options);
  const included = includedMembers(target.intake, context.rawHeaders, context.arrivedAtMs);
  const out = changesNothing(plan, included)
    ? null
    : new RowBytes(source.length, count * rowGrowth(plan, included));
  const written = out === null ? null : new Spans(count);
  const keeps = new Keeps();
  for (let i = 0; i < count; i++) {
    const start = skipSpace(source, spans[2 * i] ?? 0);
    let end = spans[2 * i + 1] ?? 0;
    while (end > start && isJsonSpace(source[end - 1])) end--;
    if (!isRow(plan, source, start)) throw refuseBody('payload_undecodable', noObject, `item ${i}`);
    if (removes?.[i] === 1) {
      const problem = deleteProblem(target, () => namesRow(plan, source, start));
      if (problem !== null) throw refuseBody('payload_undecodable', problem, `item ${i}`);
    }
    if (out === null) continue;
    const at = out.length;
    const kept = writeRow(out, plan, included, source, start, end);
    if (kept !== null) keeps.add(i, kept);
    written?.add(at, out.length, i + 1);
  }
  const documents = { bytes: out?.done() ?? source, spans: written?.places() ?? spans };
  const bytes = documents.bytes.length + documents.spans.byteLength + (removes?.byteLength ?? 0);
  return {
    target,
    documents,
    count,
    bytes,
    removes: removes?.includes(1) === true ? removes : null,
    keeps: keeps.done(),
    lines: null,
    patienceMs: batchPatienceMs(count, bytes),
    chain: context.chain,
  };
}

function deleteProblem({ shape }: Target, isNamed: () => boolean): string | null {
  if (shape.key.length === 0) return 'deletes need the primary key, and the table has none';
  return isNamed() ? null : 'deletes need the primary key';
}

/** One JSON object whose keys are columns, whatever the target's intake says. */
export function decodeObject(target: Target, body: Buffer, patienceMs: number): Rows {
  checkDocument(body, 'payload_undecodable');
  return { ...oneRow(target, planByKeys(target.shape), null, body), patienceMs };
}

/** One JSON object a line, all or nothing; `firstLine` is the number of the first one, from 1. */
export function decodeLines(target: Target, body: Buffer, patienceMs: number, firstLine = 1): Rows {
  const read = readLines(body, planByKeys(target.shape), null, firstLine, (line, problem) => {
    throw refuseBody('payload_undecodable', problemText(problem), `line ${line}`);
  });
  return lineRows(target, read, patienceMs);
}

/** A body that is one JSON object, over several lines perhaps, or one object a line. */
export function decodeEvents(target: Target, body: Buffer, patienceMs: number): Rows {
  return isOneDocument(body) ? decodeObject(target, body, patienceMs) : decodeLines(target, body, patienceMs);
}

export function isOneDocument(body: Buffer): boolean {
  return scanJson(body, { depthMax: limits.jsonDepthMax }) === null;
}

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

/** Those lines that are JSON objects; `firstLine` is the number of the first one, from 1. */
export function decodeGoodLines(target: Target, body: Buffer, patienceMs: number, firstLine = 1): GoodLines {
  const skipped: SkippedLine[] = [];
  let skippedCount = 0;
  const read = readLines(body, planByKeys(target.shape), null, firstLine, (line, problem) => {
    skippedCount++;
    if (skipped.length < limits.skippedLinesMax) skipped.push({ line, reason: problemText(problem) });
  });
  return { rows: lineRows(target, read, patienceMs), skipped, skippedCount };
}
