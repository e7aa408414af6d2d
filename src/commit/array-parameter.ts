/** Parameters that are arrays, in PostgreSQL's binary form; pure. */
import type { Rows } from '../types/rows.ts';
import { typeOids } from './statements.ts';
import { documentCount, documentLength } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';

/** The oids of a type and of its arrays: pg_type.oid, fixed in every PostgreSQL. */
export interface ArrayType {
  readonly element: number;
  readonly array: number;
}

export const arrayTypes = {
  int4: { element: 23, array: 1007 },
  text: { element: typeOids.text, array: 1009 },
  oid: { element: typeOids.oid, array: 1028 },
  jsonb: { element: typeOids.jsonb, array: 3807 },
} as const;

const nothing = Buffer.alloc(0);
/** jsonb's binary form is a version byte and the text. */
const jsonbVersion = Buffer.from([1]);

/** An array of one dimension; each element begins with `prefix`. */
export function arrayOf(
  { element: type }: ArrayType,
  elements: readonly Buffer[],
  prefix = nothing,
): WireParameter {
  const bytes = elements.reduce((sum, element) => sum + 4 + prefix.length + element.length, 20);
  const value = Buffer.allocUnsafe(bytes);
  let at = 0;
  // Dimensions, whether there are NULLs, the type, the length, the first index.
  for (const head of [1, 0, type, elements.length, 1]) at = value.writeInt32BE(head, at);
  for (const element of elements) {
    at = value.writeInt32BE(prefix.length + element.length, at);
    value.set(prefix, at);
    value.set(element, at + prefix.length);
    at += prefix.length + element.length;
  }
  return { format: 1, value };
}

/** An element of an array of int4 or oid. */
export function numberOf(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The documents of all rows of these requests, in order, as jsonb. */
export function documentsOf(members: readonly Rows[]): WireParameter {
  const documents = members.flatMap(({ documents: of }) =>
    Array.from({ length: documentCount(of) }, (_, i) => {
      const start = of.spans?.[2 * i] ?? 0;
      return of.bytes.subarray(start, start + documentLength(of, i));
    }),
  );
  return arrayOf(arrayTypes.jsonb, documents, jsonbVersion);
}
