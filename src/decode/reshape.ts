/**
 * How the documents of one request become rows of one table, by a plan (row-plan.ts): keys fill columns (`typed`), or the whole document goes
 * into one of them (wrapped as `{"data":<document>}`); INCLUDE columns are put before the closing brace, where they win
 * over members of the same name, because the engine takes the last; values are converted in place. All else
 * remains byte for byte. Takes documents that scanJson has accepted. Pure.
 */
import { isJsonSpace } from '../kit/json-grammar.ts';
import { isString, Members, skipSpace } from '../kit/json-walk.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { wholeBody } from './decode.ts';
import type { DocumentKeys } from './document-keys.ts';
import { scannedFraction } from './json-tokens.ts';
import { refuseProblem } from './messages.ts';
import { changesNothing, ignoredOf, rowProblem } from './row-plan.ts';
import type { PlannedColumn, RowPlan } from './row-plan.ts';
import { RowBytes } from './row-bytes.ts';

/** The row of a document that jsonb accepts, and that was scanned last; `raw`: the body that it was made from. */
export function oneRow(
  target: Target,
  plan: RowPlan,
  included: Buffer | null,
  body: Buffer,
  effort: number,
  raw = body,
): Rows {
  if (changesNothing(plan, included) && !plan.typed) return wholeBody(target, body, effort);
  const start = plan.asText ? 0 : skipSpace(body, 0);
  const problem = rowProblem(plan, body, start);
  if (problem !== null) throw refuseProblem('payload_undecodable', problem);
  const ignored = ignoredOf(plan, plan.keys !== null && plan.keys.unknown > 0 ? 1 : 0);
  const written = wholePlanFor(plan, body, start) ?? plan;
  if (changesNothing(written, included)) return { ...wholeBody(target, body, effort), ignored };
  let end = body.length;
  while (!plan.asText && isJsonSpace(body[end - 1])) end--;
  const hexBytes = plan.takesBytes ? raw.length * 2 : 0;
  const out = new RowBytes(end - start, rowGrowth(plan, included) + hexBytes + spareBytes);
  const columns = writeRow(out, written, included, body, start, end, raw);
  const keeps = columns === null ? null : new Map([[0, columns]]);
  return { ...wholeBody(target, out.done(), effort), keeps, ignored };
}

/** Room for a few numbers that are converted to moments. */
const spareBytes = 64;

/** By how much a row is longer than its document, in bytes, without what conversions add. */
export function rowGrowth(plan: RowPlan, included: Buffer | null): number {
  return (plan.head?.length ?? 0) + (included?.length ?? 0) + 2;
}

const openingBrace = 0x7b;
const closingBrace = 0x7d;
const comma = 0x2c;

/**
 * Appends the row of the document from `start` to `end`, which are no white space unless it is kept as text. Returns the columns that it
 * leaves as they are in an existing row, or null.
 */
export function writeRow(
  out: RowBytes,
  plan: RowPlan,
  included: Buffer | null,
  bytes: Buffer,
  start: number,
  end: number,
  raw?: Buffer,
): readonly string[] | null {
  const close = (): void => {
    if (included !== null) out.write(included);
    if (plan.takesBytes) {
      if (raw === undefined) out.hex(bytes, start, end);
      else out.hex(raw, 0, raw.length);
      out.byte(quote);
    }
    out.byte(closingBrace);
  };
  if (plan.head !== null) {
    out.write(plan.head);
    if (plan.asText) writeText(out, bytes, start, end);
    else out.copy(bytes, start, end);
    if (included !== null) out.byte(comma);
    close();
    return null;
  }
  if (!plan.typed) {
    out.copy(bytes, start, end);
    return null;
  }
  kept.clear();
  if (plan.collect !== null && plan.keys !== null && plan.keys.unknown > 0) {
    writeCollected(out, plan, plan.keys, bytes, start);
    if (included !== null) out.byte(comma);
    close();
    return keptColumns(plan);
  }
  const from = plan.columns.length === 0 ? start : writeConverted(out, plan, bytes, start);
  out.copy(bytes, from, end - 1);
  if (included !== null && bytes[skipSpace(bytes, start + 1)] !== closingBrace) out.byte(comma);
  close();
  return keptColumns(plan);
}

function keptColumns({ columns }: RowPlan): readonly string[] | null {
  if (kept.size === 0) return null;
  return columns.filter(({ column }) => kept.has(column)).map(({ column }) => column);
}

/** The document without its closing brace: its columns' members, and all others as one object in a column. */
function writeCollected(
  out: RowBytes,
  plan: RowPlan,
  keys: DocumentKeys,
  bytes: Buffer,
  start: number,
): void {
  out.byte(openingBrace);
  for (const known of [true, false]) {
    if (!known) out.write(Buffer.from(`${JSON.stringify(plan.collect)}:{`));
    let first = true;
    members.open(bytes, start);
    while (members.next()) {
      const { keyStart, keyEnd, valueStart, valueEnd } = members;
      if (keys.isKnown(bytes, keyStart, keyEnd) !== known) continue;
      if (!first && !known) out.byte(comma);
      first = false;
      out.copy(bytes, keyStart - 1, valueStart);
      const column = known ? columnOfMember(plan) : null;
      const text = column === null ? null : replacement(column, bytes, valueStart, valueEnd);
      if (text === null) out.copy(bytes, valueStart, valueEnd);
      else out.ascii(text);
      if (known) out.byte(comma);
    }
  }
  out.byte(closingBrace);
  members.open(nothing, 0);
}

const quote = 0x22;

function writeText(out: RowBytes, bytes: Buffer, start: number, end: number): void {
  out.byte(quote);
  out.escaped(bytes, start, end);
  out.byte(quote);
}

/** Reshaping is synchronous, so one walk and one set serve all documents. No body is held between two of them. */
const nothing = Buffer.of();
const members = new Members(nothing, 0);
const kept = new Set<string>();

/** Appends the document up to the end of the last value that is converted; returns that position. */
function writeConverted(out: RowBytes, plan: RowPlan, bytes: Buffer, start: number): number {
  let from = start;
  members.open(bytes, start);
  while (members.next()) {
    const { valueStart, valueEnd } = members;
    const column = columnOfMember(plan);
    if (column === null) continue;
    const text = replacement(column, bytes, valueStart, valueEnd);
    if (text === null) continue;
    out.copy(bytes, from, valueStart);
    out.ascii(text);
    from = valueEnd;
  }
  members.open(nothing, 0);
  return from;
}

/** With more columns than this, a string for each key costs less than the comparison with each column. */
const comparedMax = 8;

function columnOfMember({ columns, byName }: RowPlan): PlannedColumn | null {
  if (columns.length > comparedMax || members.isEscaped) return byName.get(members.key()) ?? null;
  for (const column of columns) if (members.keyIs(column.name)) return column;
  return null;
}

/** What Debezium sends in place of a large value that an update did not touch. */
const unavailable = '__debezium_unavailable_value';

function replacement(column: PlannedColumn, bytes: Buffer, start: number, end: number): string | null {
  if (column.keepable) {
    const isUnavailable =
      isString(bytes, start) &&
      end - start === unavailable.length + 2 &&
      bytes.toString('latin1', start + 1, end - 1) === unavailable;
    // Of two members with the same name the last counts.
    if (isUnavailable) kept.add(column.column);
    else kept.delete(column.column);
    if (isUnavailable) return 'null';
  }
  return column.convert === null ? null : column.convert(bytes, start, end);
}

/** Whether a document has a value for each column of the primary key that its members fill. */
export function namesRow(plan: RowPlan, bytes: Buffer, start: number): boolean {
  if (plan.key === null) return false;
  return plan.key.every((name) => {
    let found = false;
    members.open(bytes, start);
    while (members.next()) {
      if (members.keyIs(name)) found = bytes[members.valueStart] !== 0x6e; /* null */
    }
    return found;
  });
}

/** The plan for whole numbers (`plan.whole`) if it changes a value of the document that was scanned last; null: it changes none, or there is no such plan. */
export function wholePlanFor({ whole }: RowPlan, bytes: Buffer, start: number): RowPlan | null {
  if (whole === null || !scannedFraction()) return null;
  let needs = false;
  members.open(bytes, start);
  while (!needs && members.next()) {
    const column = columnOfMember(whole);
    needs = (column?.convert?.(bytes, members.valueStart, members.valueEnd) ?? null) !== null;
  }
  members.open(nothing, 0);
  return needs ? whole : null;
}
