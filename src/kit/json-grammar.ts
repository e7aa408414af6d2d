/**
 * Which JSON of RFC 8259 PostgreSQL's jsonb accepts, as rules over character codes and positions, so that the scanner of
 * bytes and that of text share each rule. `\u0000`, lone surrogates and numbers beyond `numeric` are not accepted.
 */

/** numeric.c: digits before the point (NUMERIC_WEIGHT_MAX), digits after it (NUMERIC_DSCALE_MAX), and any exponent. */
const integerDigitsMax = 131_072;
const scaleMax = 16_383;
export const exponentMax = 1_073_741_822;

/** Whether a number without an exponent is in range whatever its digits are. */
export function isSafeLength(characters: number): boolean {
  return characters <= scaleMax;
}

/**
 * The limits of numeric_in, for digits that are known to be a JSON number: `first` is the position of its first digit other
 * than zero (`mantissaEnd`: the number is zero), `point` the end of its integer digits.
 */
export function fitsNumeric(first: number, point: number, mantissaEnd: number, exponent: number): boolean {
  if (Math.abs(exponent) > exponentMax) return false;
  const fractionDigits = mantissaEnd > point ? mantissaEnd - point - 1 : 0;
  if (fractionDigits - exponent > scaleMax) return false;
  // A zero has no digits to place, whatever its exponent.
  if (first === mantissaEnd) return true;
  const integerDigits = first < point ? point - first : point - first + 1;
  return integerDigits + exponent <= integerDigitsMax;
}

const shortEscapes = new Uint8Array(256);
for (const letter of '"\\/bfnrt') shortEscapes[letter.charCodeAt(0)] = 1;

/** Whether a backslash and this one character are an escape. */
export function isShortEscape(code: number): boolean {
  return shortEscapes[code] === 1;
}

/** -1: it is no hexadecimal digit. */
export function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

export function isSurrogate(unit: number): boolean {
  return (unit & ~0x7ff) === 0xd800;
}

/** Whether two consecutive `\uXXXX` are one character. */
export function isSurrogatePair(high: number, low: number): boolean {
  return (high & ~0x3ff) === 0xd800 && (low & ~0x3ff) === 0xdc00;
}

/** Blank, tab, carriage return or line feed. */
export function isJsonSpace(code: number | undefined): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

/** The byte order mark of UTF-8, EF BB BF, with which some senders begin their bodies: it is no part of the text (RFC 8259 §8.1). */
export function withoutMark(bytes: Buffer): Buffer {
  return hasMark(bytes) ? bytes.subarray(3) : bytes;
}

export function hasMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}
