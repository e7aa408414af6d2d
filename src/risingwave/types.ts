/**
 * RisingWave's types, as `rw_catalog.rw_columns.data_type` prints them: `integer[]`, `struct<a integer, "B" map(character
 * varying,bigint)>`. Takes the text, returns the type, or null if it has another form; and prints a type as SQL accepts it. Pure.
 * Source: `Display` of DataType, StructType and MapType in src/common/src/types of its repository.
 */
import { quoteIdentifier } from '../kit/sql-text.ts';

export type RwType =
  | { readonly kind: 'scalar'; readonly name: string }
  | { readonly kind: 'list'; readonly element: RwType }
  | { readonly kind: 'struct'; readonly fields: readonly RwField[] }
  | { readonly kind: 'map'; readonly key: RwType; readonly value: RwType };

interface RwField {
  readonly name: string;
  readonly type: RwType;
}

/** How deeply types may be nested. */
const depthMax = 32;

export function parseType(text: string): RwType | null {
  const reader = new TypeReader(text);
  const type = reader.type(0);
  return type !== null && reader.ended ? type : null;
}

export function printType(type: RwType): string {
  switch (type.kind) {
    case 'scalar':
      return type.name;
    case 'list':
      return `${printType(type.element)}[]`;
    case 'map':
      return `map(${printType(type.key)},${printType(type.value)})`;
    case 'struct':
      return `struct<${type.fields.map((it) => `${quoteIdentifier(it.name)} ${printType(it.type)}`).join(', ')}>`;
  }
}

const fieldName = /\s*(?:"((?:[^"]|"")*)"|([^\s"<>(),]+))\s+/y;
/** `double precision`, `timestamp with time zone`, `vector(3)` */
const scalar = /[a-z_][a-z_0-9]*(?: [a-z_]+)*(?:\(\d+\))?/y;

class TypeReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get ended(): boolean {
    return this.#at === this.#text.length;
  }

  type(depth: number): RwType | null {
    if (depth > depthMax) return null;
    let type = this.#one(depth);
    for (let at = depth; type !== null && this.#takes('[]'); at++)
      type = at < depthMax ? { kind: 'list', element: type } : null;
    return type;
  }

  #one(depth: number): RwType | null {
    if (this.#takes('struct<')) return this.#struct(depth);
    if (this.#takes('map(')) {
      const key = this.type(depth + 1);
      const value = this.#takes(',') ? this.type(depth + 1) : null;
      return key === null || value === null || !this.#takes(')') ? null : { kind: 'map', key, value };
    }
    const name = this.#match(scalar)?.[0];
    // A struct without names: only `ROW` creates one, and no column can have that type.
    return name === undefined || name === 'record' ? null : { kind: 'scalar', name };
  }

  #struct(depth: number): RwType | null {
    const fields: RwField[] = [];
    do {
      const [, quoted, plain] = this.#match(fieldName) ?? [];
      const name = quoted?.replaceAll('""', '"') ?? plain;
      const type = name === undefined ? null : this.type(depth + 1);
      if (name === undefined || type === null) return null;
      fields.push({ name, type });
    } while (this.#takes(','));
    return this.#takes('>') ? { kind: 'struct', fields } : null;
  }

  #takes(sign: string): boolean {
    if (!this.#text.startsWith(sign, this.#at)) return false;
    this.#at += sign.length;
    return true;
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }
}
