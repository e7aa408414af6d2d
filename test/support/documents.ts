/** Typed targets, and the documents of Rows one by one, for tests of decode's results. */
import { type ItemsRequest, itemsInSlices } from '../../src/decode/batches.ts';
import { Elements } from '../../src/kit/json-walk.ts';
import { atOnce } from '../../src/kit/time-slices.ts';
import type { Column, Shape } from '../../src/types/shape.ts';
import type { Intake, Target } from '../../src/types/target.ts';
import type { Rows } from '../../src/types/rows.ts';
import { targetOf } from './rows.ts';

/** pg_type.oid of the types that tests name. */
const baseTypes: Readonly<Record<string, number>> = {
  bytea: 17, int8: 20, int2: 21, int4: 23, text: 25, json: 114, date: 1082, time: 1083, timestamp: 1114,
  timestamptz: 1184, timetz: 1266, numeric: 1700, jsonb: 3802,
}; // prettier-ignore

function columnsOf(types: Readonly<Record<string, string>>): Column[] {
  return Object.entries(types).map(([name, type]) => ({
    name,
    type,
    baseType: baseTypes[type] ?? 0,
    fallback: null,
  }));
}

/** A table whose columns are filled from the keys of the same name. */
export function typedTarget(
  types: Readonly<Record<string, string>>,
  intake: Partial<Intake> = {},
  shape: Partial<Shape> = {},
): Target {
  const target = targetOf({ shape: { writeMode: 'insert', columns: columnsOf(types), ...shape } });
  return { ...target, intake: { ...target.intake, document: null, ...intake } };
}

export function documentsOf(rows: Rows): string[] {
  const { bytes, spans } = rows.documents;
  if (spans === null) return [bytes.toString()];
  return Array.from({ length: rows.count }, (_, i) => bytes.toString('utf8', spans[2 * i], spans[2 * i + 1]));
}

/** Decodes a WebSocket's batch without pausing for others. */
export function decodeItems(target: Target, request: ItemsRequest): Rows {
  return atOnce(itemsInSlices(target, request));
}

/** The positions of the elements of the first array in these bytes. */
export function elementsOf(bytes: Buffer): Uint32Array {
  const walk = new Elements(bytes, bytes.indexOf('['));
  const spans: number[] = [];
  while (walk.next()) spans.push(walk.start, walk.end);
  return Uint32Array.from(spans);
}
