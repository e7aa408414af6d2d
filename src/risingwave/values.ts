/**
 * JSON values as SQL expressions of RisingWave's types, with every digit as it was written. Takes a column's type and raw JSON; returns text
 * for `INSERT … VALUES`; throws ValueError if no expression of that type can represent the value. Pure.
 *
 * Scalars and arrays of them are texts that RisingWave parses by the column's type. A STRUCT is `ROW(…)`, because its text form is split at
 * every comma (`StructValue::from_str`), and a MAP is created by map_from_key_values, because it has no text form (`ScalarImpl::from_text`).
 */
import { arrayText } from '../kit/array-text.ts';
import type { ArrayValue } from '../kit/array-text.ts';
import { arrayItems, objectMembers, stringOf } from '../kit/json-values.ts';
import { printType } from './types.ts';
import type { RwType } from './types.ts';

/** A value that does not fit its column's type; the message is for the sender. */
export class ValueError extends Error {
  override readonly name = 'ValueError';
}

/** `typed`: the expression has to state its type, because nothing around it does. */
export function expression(type: RwType, raw: string, typed = false): string {
  const isNull = raw === 'null';
  const text = isNull ? 'NULL' : valueOf(type, raw);
  // ROW is parsed by the type that it is cast to, and a map has its own type.
  return typed && (isNull || type.kind !== 'map') ? `${text}::${printType(type)}` : text;
}

function valueOf(type: RwType, raw: string): string {
  const isText = raw.startsWith('"');
  switch (type.kind) {
    case 'scalar':
      return quoted(scalarText(type.name, raw));
    case 'list':
      if (isText) return quoted(stringOf(raw));
      return list(type, itemsOf(type, raw));
    case 'struct': {
      const members = membersOf(type, raw);
      const fields = type.fields.map((field) => expression(field.type, members.get(field.name) ?? 'null'));
      return `ROW(${fields.join(',')})`;
    }
    case 'map': {
      const members = membersOf(type, raw);
      const keys = [...members.keys()].map((key) => JSON.stringify(key));
      const typedList = (element: RwType, items: readonly string[]): string => {
        const of = { kind: 'list', element } as const;
        return `${list(of, items)}::${printType(of)}`;
      };
      return `map_from_key_values(${typedList(type.key, keys)},${typedList(type.value, [...members.values()])})`;
    }
  }
}

function list(type: RwType & { kind: 'list' }, items: readonly string[]): string {
  if (items.length === 0) return `'{}'`;
  if (hasText(type.element)) return quoted(arrayText(textItems(type.element, items)));
  return `ARRAY[${items.map((item) => expression(type.element, item, true)).join(',')}]`;
}

/** Whether values of the type have a text form inside an array's text. */
function hasText(type: RwType): boolean {
  return type.kind === 'scalar' || (type.kind === 'list' && hasText(type.element));
}

function textItems(type: RwType, items: readonly string[]): ArrayValue {
  return items.map((raw) => {
    if (raw === 'null') return null;
    if (type.kind === 'list') return textItems(type.element, itemsOf(type, raw));
    return scalarText(type.kind === 'scalar' ? type.name : '', raw);
  });
}

function scalarText(name: string, raw: string): string {
  if (name === 'jsonb') return raw;
  const first = raw[0];
  if (first === '"') return checked(name, stringOf(raw));
  const isNested = first === '{' || first === '[';
  if (!isNested) return checked(name, raw);
  if (name === 'character varying' || (first === '[' && name.startsWith('vector'))) return raw;
  throw new ValueError(`${first === '{' ? 'an object' : 'an array'} is no ${name}`);
}

function checked(name: string, text: string): string {
  if (name === 'numeric' && !keepsDigits(text))
    throw new ValueError('numeric has 28 digits, and would round the value');
  return text;
}

const decimal = /^[+-]?0*(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,6}))?$/;
/** What a rust_decimal can hold: an integer of 96 bits, of which up to 28 digits are after the decimal point. */
const mantissaMax = 2n ** 96n - 1n;
const scaleMax = 28;

/** A longer text is not a number that could be kept; the expressions below take time quadratic in its length. */
const decimalCharsMax = 400;

/** RisingWave rounds what it cannot hold; a text that is not a number it refuses itself. */
function keepsDigits(text: string): boolean {
  if (text.length > decimalCharsMax) return false;
  const [all, whole = '', part = '', exponent = '0'] = decimal.exec(text) ?? [];
  if (all === undefined) return true;
  // Most are short, and lose nothing.
  if (whole.length + part.length <= scaleMax && exponent === '0') return true;
  const fraction = part.replace(/0+$/, '');
  const scale = fraction.length - Number(exponent);
  // RisingWave refuses an integer that is too large, in its own words.
  if (scale <= 0) return true;
  const digits = (whole + fraction).replace(/^0+/, '');
  const needless = Math.min(/0*$/.exec(digits)?.[0].length ?? 0, scale);
  const mantissa = digits.slice(0, digits.length - needless);
  return scale - needless <= scaleMax && mantissa.length <= scaleMax + 1 && BigInt(mantissa) <= mantissaMax;
}

function membersOf(type: RwType, raw: string): Map<string, string> {
  if (raw.startsWith('{')) return objectMembers(raw);
  throw new ValueError(`the value of a ${printType(type)} is an object`);
}

function itemsOf(type: RwType, raw: string): string[] {
  if (raw.startsWith('[')) return arrayItems(raw);
  throw new ValueError(`the value of a ${printType(type)} is an array`);
}

function quoted(text: string): string {
  if (text.includes('\0')) throw new ValueError('a text cannot hold \\u0000');
  return literal(text);
}

/** A text as a literal of RisingWave, in which a backslash in '…' is always an ordinary character. */
export function literal(text: string): string {
  return text.includes("'") ? `'${text.replaceAll("'", "''")}'` : `'${text}'`;
}
