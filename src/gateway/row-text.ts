/**
 * One row as a JSON object, with every digit as the engine printed it. Takes the texts of its values and the names and types of
 * their columns, returns text; refuses nothing. Pure.
 */
import { builtinTypes, encodeText } from './sql-types.ts';
import type { SqlType } from './sql-types.ts';

export interface Field {
  readonly name: string;
  readonly dataTypeID: number;
}

export type TypeLookup = (oid: number) => SqlType | undefined;

/** `"name":` and the type of each column. */
export type Encoders = readonly { readonly key: string; readonly type: SqlType }[];

export interface RowSink {
  add(text: string): void;
  /** The inside of a JSON string, not yet encoded. */
  addLarge(value: string): void;
}

/** Values of this many characters or more are encoded in slices of this size. */
export const largeChars = 1024 * 1024;

/** null: a type is unknown. */
export function encodersOf(fields: readonly Field[], known: TypeLookup): Encoders | null {
  const names = uniqueNames(fields);
  const encoders: { key: string; type: SqlType }[] = [];
  for (const [index, field] of fields.entries()) {
    const type = builtinTypes.get(field.dataTypeID) ?? known(field.dataTypeID);
    if (type === undefined) return null;
    encoders.push({ key: `${JSON.stringify(names[index])}:`, type });
  }
  return encoders;
}

/** A row is an object: the second column called `a` becomes `a_2`. */
export function uniqueNames(fields: readonly Field[]): string[] {
  const taken = new Set(fields.map((field) => field.name));
  /** How often each name has come, numbers that are taken included. */
  const counts = new Map<string, number>();
  return fields.map(({ name }) => {
    let n = (counts.get(name) ?? 0) + 1;
    while (n > 1 && taken.has(`${name}_${n}`)) n++;
    counts.set(name, n);
    return n === 1 ? name : `${name}_${n}`;
  });
}

export function addRow(
  to: RowSink,
  encoders: Encoders,
  values: readonly (string | null)[],
  first: boolean,
): void {
  let text = first ? '{' : ',{';
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? null;
    const column = encoders[i];
    if (i > 0) text += ',';
    text += column?.key ?? `${encodeText(String(i))}:`;
    const encode = column?.type.encode ?? encodeText;
    if (value === null) text += 'null';
    else if (encode !== encodeText || value.length < largeChars) text += encode(value);
    else {
      to.add(`${text}"`);
      to.addLarge(value);
      text = '"';
    }
  }
  to.add(`${text}}`);
}

/** The content of a JSON string between its quotes. */
export function inside(text: string): string {
  return encodeText(text).slice(1, -1);
}
