/**
 * Converts values that senders write differently from what PostgreSQL reads: a number for a moment, base64 for a large
 * integer. Only values of the columns themselves, not those inside arrays or composites. A value that cannot be converted
 * remains as it is: PostgreSQL then says what is wrong with it. Pure.
 */
import type { Column } from '../types/shape.ts';
import { isNumber, isString, stringAt } from '../kit/json-walk.ts';
import { momentText, timeText, type Unit, wholeMomentText } from './epoch.ts';
import type { DecodeOptions } from './options.ts';

/** The JSON text that replaces the value at this place; null: the value remains. */
export type Convert = (bytes: Buffer, start: number, end: number) => string | null;

/** The types of PostgreSQL whose input refuses an empty text, without those that no form fills: arrays, ranges, geometry … */
export const emptyIsNoValue: ReadonlySet<number> = new Set([
  16 /* bool */, 20, 21, 23 /* integers */, 26 /* oid */, 114 /* json */, 700, 701 /* floats */, 829, 774 /* macaddr */,
  869, 650 /* inet, cidr */, 1082, 1083, 1114, 1184, 1186, 1266 /* dates and times */, 1700 /* numeric */, 2950 /* uuid */, 3802 /* jsonb */,
]); // prettier-ignore

/** The same for a field of a form: one that was left empty has no value, and is NULL. */
export function formConversionOf(column: Column, options: DecodeOptions): Convert | null {
  const convert = conversionOf(column, options);
  if (!emptyIsNoValue.has(column.baseType)) return convert;
  return (bytes, start, end) =>
    end - start === 2 && isString(bytes, start) ? 'null' : (convert?.(bytes, start, end) ?? null);
}

/** pg_type.oid */
const oids = {
  int2: 21,
  int4: 23,
  int8: 20,
  numeric: 1700,
  time: 1083,
  timetz: 1266,
  timestamp: 1114,
  timestamptz: 1184,
};

/** How values of this column are converted; null: none ever is. */
export function conversionOf(column: Column, options: DecodeOptions): Convert | null {
  switch (column.baseType) {
    case oids.timestamp:
      return moments(options.timestamp === 'milli' ? 'milli' : null);
    case oids.timestamptz:
      return timestamptz(options.timestamptz);
    case oids.time:
      return options.time === null ? null : times(options.time, '');
    case oids.timetz:
      return options.time === null ? null : times(options.time, '+00');
    case oids.int2:
    case oids.int4:
    case oids.int8:
    case oids.numeric:
      return options.bigintUnsigned === 'precise' ? twosComplement : null;
    default:
      return null;
  }
}

function timestamptz(mode: DecodeOptions['timestamptz']): Convert | null {
  switch (mode) {
    case 'guess':
      return moments(null);
    case 'milli':
    case 'micro':
      return moments(mode);
    case 'utc_without_suffix':
      return zoned;
    case 'utc_string':
      return null;
  }
}

/** A longer number is no moment that anybody meant, and not worth its cost. */
const numberCharsMax = 1_000;

const moments =
  (unit: 'milli' | 'micro' | null): Convert =>
  (bytes, start, end) => {
    if (!isNumber(bytes, start) || end - start > numberCharsMax) return null;
    const whole = exactWhole(bytes, start, end);
    const text =
      whole === null ? momentText(bytes.toString('latin1', start, end), unit) : wholeMomentText(whole, unit);
    return text === null ? null : `"${text}"`;
  };

/** A number of up to fifteen digits and nothing else; null: it is none. */
function exactWhole(bytes: Buffer, start: number, end: number): number | null {
  if (end - start > 15) return null;
  let number = 0;
  for (let i = start; i < end; i++) {
    const digit = bytes[i]! - 48;
    if (digit < 0 || digit > 9) return null;
    number = number * 10 + digit;
  }
  return number;
}

const times =
  (unit: Unit, zone: string): Convert =>
  (bytes, start, end) => {
    if (!isNumber(bytes, start) || end - start > numberCharsMax) return null;
    const text = timeText(bytes.toString('latin1', start, end), unit);
    return text === null ? null : `"${text}${zone}"`;
  };

const naive = /^\s*(\d{4,6}-\d\d?-\d\d?)(?:(?:[Tt]|\s+)(\d\d?:\d\d(?::\d\d(?:\.\d+)?)?))?\s*$/;

/** A date and time without a zone is UTC, whatever the session's TimeZone. */
const zoned: Convert = (bytes, start, end) => {
  if (!isString(bytes, start) || end - start > numberCharsMax) return null;
  const parts = naive.exec(stringAt(bytes, start, end));
  return parts === null ? null : `"${parts[1]} ${parts[2] ?? '00:00'}Z"`;
};

/** Longest number in two's complement that is read, in characters of base64; unsigned 64 bits have 12. */
const base64CharsMax = 256;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The most digits that bigint has, and some zeros. */
const wholeCharsMax = 64;

/**
 * `7.0` and `1e3` in a column of integers, which PostgreSQL's input does not read, are 7 and 1000, as `7.0::numeric::bigint` is; `7.5` remains, and
 * is refused.
 */
const whole: Convert = (bytes, start, end) => {
  if (!isNumber(bytes, start) || end - start > wholeCharsMax) return null;
  const [, sign = '', digits = '', fraction = '', exponent = ''] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/.exec(bytes.toString('latin1', start, end)) ?? [];
  if (digits === '' || (fraction === '' && exponent === '')) return null;
  const all = digits + fraction;
  const point = digits.length + Number(exponent);
  if (/^0*$/.test(all)) return '0';
  if (point > wholeCharsMax || !/^0*$/.test(all.slice(Math.max(point, 0)))) return null;
  return `${sign}${all
    .slice(0, Math.max(point, 0))
    .padEnd(point, '0')
    .replace(/^0+(?=\d)/, '')}`;
};

/** The same for a document that has a number with a point or an exponent; null: the column takes no integers. */
export function wholeConversionOf(column: Column, options: DecodeOptions): Convert | null {
  if (![oids.int2, oids.int4, oids.int8].includes(column.baseType)) return null;
  const convert = conversionOf(column, options);
  return (bytes, start, end) => whole(bytes, start, end) ?? convert?.(bytes, start, end) ?? null;
}

/** `"AeJA"`, which is 01 e2 40, is 123456; `"/w=="` is -1. */
const twosComplement: Convert = (bytes, start, end) => {
  if (!isString(bytes, start) || end - start <= 2 || end - start > base64CharsMax) return null;
  const text = stringAt(bytes, start, end);
  if (!base64.test(text)) return null;
  const number = Buffer.from(text, 'base64');
  return BigInt.asIntN(number.length * 8, BigInt(`0x${number.toString('hex')}`)).toString();
};
