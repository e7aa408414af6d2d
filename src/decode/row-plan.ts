/**
 * What is known of a table before its documents are read (make-plan.ts): how they are scanned, which of their keys are columns, and whose values are
 * converted; and what follows from it for the document that was scanned last. Takes a plan and a document; pure.
 */
import type { Ignored } from '../types/rows.ts';
import type { Convert } from './conversions.ts';
import type { DocumentKeys } from './document-keys.ts';
import { scannedFraction } from './json-tokens.ts';
import type { JsonProblem, JsonScanOptions } from './json-scan.ts';
import { noObject } from './messages.ts';

/** What is known of a table before any request, with the options of one. */
export interface RowPlan {
  /** `{"data":`; null: the document is the row. */
  readonly head: Buffer | null;
  /** The document is stored as a string that holds its text, including white space around it; see Shape.document. */
  readonly asText: boolean;
  /** How documents are scanned. */
  readonly scan: JsonScanOptions;
  /** Documents must be objects, because their keys are columns. */
  readonly typed: boolean;
  readonly columns: readonly PlannedColumn[];
  readonly byName: ReadonlyMap<string, PlannedColumn>;
  /** Which keys of a document are columns; null: its keys fill none. */
  readonly keys: DocumentKeys | null;
  /** The column that takes members whose keys are no columns, as one object; null: no column does. */
  readonly collect: string | null;
  /** Columns of the primary key that a document itself must have to name a row; null: no document can. */
  readonly key: readonly Buffer[] | null;
  /** What INCLUDE adds ends with the bytes that the row was made from. */
  readonly takesBytes: boolean;
  /** The same for a document with numbers that columns of integers take only as whole ones; null: there is no such column. */
  readonly whole: RowPlan | null;
}

/** A column whose members are examined. */
export interface PlannedColumn {
  readonly name: Buffer;
  readonly column: string;
  readonly convert: Convert | null;
  /** Debezium's placeholder for a value that the sender does not have leaves the column as it is. */
  readonly keepable: boolean;
}

/** Whether every row of this plan is its document as received. */
export function changesNothing(plan: RowPlan, included: Buffer | null): boolean {
  return plan.head === null && included === null && plan.columns.length === 0 && plan.collect === null;
}

/** Why the document that was scanned last, and begins at `start`, is no row; null: it is one. */
export function rowProblem(plan: RowPlan, bytes: Buffer, start: number): JsonProblem | null {
  if (!isRow(plan, bytes, start)) return { reason: noObject, offset: null };
  const { keys, collect } = plan;
  return keys === null || keys.unknown === 0 ? null : keys.problem(bytes, start, collect !== null);
}

/** What was not stored of so many documents. */
export function ignoredOf({ keys, collect }: RowPlan, documents: number): Ignored | null {
  if (keys === null || collect !== null || documents === 0) return null;
  return { documents, keys: keys.remembered };
}

export function isRow(plan: RowPlan, bytes: Buffer, start: number): boolean {
  return !plan.typed || bytes[start] === 0x7b; /* { */
}

/** The plan for the document that was scanned last. */
export function planForScanned(plan: RowPlan): RowPlan {
  return plan.whole !== null && scannedFraction() ? plan.whole : plan;
}
