/**
 * What is known of a table before its documents are read. Takes a table and the options of a request; returns a plan, which is made once for all requests
 * without options. Pure.
 */
import { rememberedOf } from '../kit/memoize.ts';
import type { Intake, Target } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { limits } from '../config/limits.ts';
import { conversionOf, formConversionOf, wholeConversionOf } from './conversions.ts';
import { DocumentKeys } from './document-keys.ts';
import { bodyInclude } from './includes.ts';
import { defaultOptions } from './options.ts';
import type { DecodeOptions } from './options.ts';
import type { PlannedColumn, RowPlan } from './row-plan.ts';

/** One plan per target in service, as most requests bring no option. */
const ordinary = rememberedOf(({ shape, intake }: Target) => makePlan(shape, intake, defaultOptions));

export function planOf(target: Target, options: DecodeOptions): RowPlan {
  return options === defaultOptions ? ordinary(target) : makePlan(target.shape, target.intake, options);
}

/** pg_type.oid */
const jsonType = 114;

/** Made for each call. */
export function makePlan(
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
    const head = shape.writeMode === 'copy' ? null : Buffer.from(`{${JSON.stringify(document)}:`);
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
