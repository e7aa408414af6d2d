/**
 * What is known of a table before its documents are read: how they are scanned, which of their keys are columns, and whose values are converted; and what
 * follows from it for the document that was scanned last. Takes a table, and the options of a request; returns a plan, which is made once for all requests
 * without options. Pure.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Ignored } from '../types/rows.ts';
import type { Intake, Target } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { limits } from '../config/limits.ts';
import { conversionOf, formConversionOf, wholeConversionOf } from './conversions.ts';
import type { Convert } from './conversions.ts';
import { DocumentKeys } from './document-keys.ts';
import { bodyInclude } from './includes.ts';
import { scannedFraction } from './json-tokens.ts';
import type { JsonScanOptions } from './json-scan.ts';
import { noObject } from './messages.ts';
import type { JsonProblem } from './messages.ts';
import { defaultOptions } from './options.ts';
import type { DecodeOptions } from './options.ts';

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

/** Whether every row of this plan is its document as received: no head, no INCLUDE, and no column whose values are converted. */
export function changesNothing(plan: RowPlan, included: Buffer | null): boolean {
  return plan.head === null && included === null && plan.columns.length === 0 && plan.collect === null;
}

/** Why the document that was scanned last, and begins at `start`, is no row; null: it is one. */
export function rowProblem(plan: RowPlan, bytes: Buffer, start: number): JsonProblem | null {
  if (!isRow(plan, bytes, start)) return { reason: noObject, offset: null };
  const { keys, collect } = plan;
  return keys === null || keys.unknown === 0 ? null : keys.problem(bytes, start, collect !== null);
}

/** Of how many documents members were left out because their keys are no columns, and which keys; null: of none. */
export function ignoredOf({ keys, collect }: RowPlan, documents: number): Ignored | null {
  if (keys === null || collect !== null || documents === 0) return null;
  return { documents, keys: keys.remembered };
}

export function isRow(plan: RowPlan, bytes: Buffer, start: number): boolean {
  return !plan.typed || bytes[start] === 0x7b; /* { */
}

/** The plan for the document that was scanned last: `plan` itself, unless that document has a number with a point or an exponent and a column takes only whole ones. */
export function planForScanned(plan: RowPlan): RowPlan {
  return plan.whole !== null && scannedFraction() ? plan.whole : plan;
}

/** One plan per target in service, as most requests bring no option. */
const ordinary = rememberedOf(({ shape, intake }: Target) => makePlan(shape, intake, defaultOptions));

export function planOf(target: Target, options: DecodeOptions): RowPlan {
  return options === defaultOptions ? ordinary(target) : makePlan(target.shape, target.intake, options);
}

/**
 * For events of the gateway, whose keys are columns whatever the table's intake says; made once for a shape. Only numbers for columns of moments are
 * converted: a table without such columns takes its events unchanged (`changesNothing`). `whole: null`: `7.0` for an integer is left to
 * PostgreSQL's input, which refuses it.
 */
export const planByKeys = rememberedOf((shape: Shape): RowPlan => {
  const intake = { document: null, includes: [], unknown: 'ignore', format: 'json' } as const;
  return { ...makePlan(shape, intake, defaultOptions), whole: null };
});

/** pg_type.oid */
const jsonType = 114;

/** Made for each call. */
function makePlan(
  shape: Shape,
  { document, includes, unknown, format }: Pick<Intake, 'document' | 'includes' | 'unknown' | 'format'>,
  options: DecodeOptions,
): RowPlan {
  const included = new Set(includes.map((include) => include.column));
  const takesBytes = bodyInclude(includes) !== null;
  const key = shape.key
    .filter(({ name, generated }) => generated === null && !included.has(name) && name !== document)
    .map(({ name }) => Buffer.from(name));
  if (document !== null) {
    const head = shape.writeMode === 'documents' ? null : Buffer.from(`{${JSON.stringify(document)}:`);
    const asText = shape.columns.some(({ name, baseType }) => name === document && baseType === jsonType);
    return {
      head,
      asText,
      scan: { depthMax: limits.jsonDepthMax, asText },
      typed: false,
      columns: [],
      byName: new Map(),
      keys: null,
      collect: null,
      key: key.length === 0 ? key : null,
      takesBytes,
      whole: null,
    };
  }
  const keyNames = new Set(shape.key.map(({ name }) => name));
  const own = shape.columns.filter(({ name }) => !included.has(name));
  const planned = (conversion: typeof conversionOf): PlannedColumn[] =>
    own
      .map((column) => ({
        name: Buffer.from(column.name),
        column: column.name,
        convert: conversion(column, options),
        keepable: options.toast && shape.writeMode === 'upsert' && !keyNames.has(column.name),
      }))
      .filter(({ convert, keepable }) => convert !== null || keepable);
  const collect = typeof unknown === 'object' ? unknown.into : null;
  // A column that INCLUDE fills is filled by no member, and the column that collects members takes none for itself.
  const names = shape.columns
    .map(({ name }) => name)
    .filter((name) => !included.has(name) && name !== collect);
  const keys = new DocumentKeys(names, unknown === 'reject');
  const scan = { depthMax: limits.jsonDepthMax, keys };
  const shared = { head: null, asText: false, scan, typed: true, keys, collect, key, takesBytes };
  const withColumns = (columns: PlannedColumn[], whole: RowPlan | null): RowPlan => ({
    ...shared,
    columns,
    byName: new Map(columns.map((it) => [it.column, it])),
    whole,
  });
  const columns = planned(format === 'form' ? formConversionOf : conversionOf);
  const integers = own.some((column) => wholeConversionOf(column, options) !== null);
  if (format !== 'json' || !integers) return withColumns(columns, null);
  const whole = planned((column) => wholeConversionOf(column, options) ?? conversionOf(column, options));
  return withColumns(columns, withColumns(whole, null));
}
