/**
 * The tokens of JSON in bytes: strings, numbers and words, as jsonb can store them (json-scan.ts). Takes bytes and where a token begins; returns where it
 * ends, or a failure: a negative number, so that the accepted path makes no objects. Pure, but for what it counts of one document.
 */
import {
  exponentMax,
  fitsNumeric,
  hexDigit,
  isSafeLength,
  isShortEscape,
  isSurrogate,
  isSurrogatePair,
} from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';

/** Also for the lines of one body together. */
export const tooManyMembersReason = 'its objects have too many members';

/** By number: the scan itself makes no texts. */
export const reasons: string[] = [];
type Reason = number;
const reason = (text: string): Reason => reasons.push(text) - 1;
export const endsEarly = reason('it ends in the middle');
export const unexpected = reason('unexpected character');
const controlCharacter = reason('control character in a string');
const badEscape = reason('invalid escape in a string');
const zeroCharacter = reason('\\u0000 cannot be stored');
const loneSurrogate = reason('surrogate without its other half');
const numberRange = reason('number out of range');
export const tooDeep = reason('nested too deeply');
/** A comma or a closing bracket after the whole document. */
export const behind = reason('unexpected character');
const tooLongNumbers = reason('its numbers are too long when they are written out');
export const tooManyMembers = reason(tooManyMembersReason);
const reasonsMax = 16;

/** A negative number. */
export function failure(why: Reason, offset: number): number {
  return -1 - (offset * reasonsMax + why);
}

export const reasonOf = (failed: number): Reason => (-1 - failed) % reasonsMax;
export const offsetOf = (failed: number): number => Math.floor((-1 - failed) / reasonsMax);

/** A zero has no digits before its point, and no more after it than numeric keeps. */
const zeroDigitsMax = 16_383;

/** By how much the numbers of the document are longer without their exponents. */
let growth = 0;

let fractions = false;

/** Whether the document that was scanned last has a number with a point or an exponent. */
export function scannedFraction(): boolean {
  return fractions;
}

/** What the document is scanned for; see JsonScanOptions.asText. */
let keepsText = false;

/** A document begins. Scanning is synchronous, so what is counted of one serves all calls. */
export function beginTokens(asText: boolean): void {
  keepsText = asText;
  growth = 0;
  fractions = false;
}

/** Bytes that a string may hold unescaped: neither quote, nor backslash, nor control character. */
const plain = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 32 && byte !== 34 && byte !== 92 ? 1 : 0,
);

/** From just after the opening quote to just after the closing one. */
export function scanString(bytes: Uint8Array, start: number, n: number): number {
  let i = start;
  for (;;) {
    // Four at a time: most bytes of most documents are inside strings.
    while (
      i + 3 < n &&
      (plain[bytes[i]!]! & plain[bytes[i + 1]!]! & plain[bytes[i + 2]!]! & plain[bytes[i + 3]!]!) === 1
    ) {
      i += 4;
    }
    while (i < n && plain[bytes[i]!] === 1) i++;
    if (i >= n) return failure(endsEarly, n);
    const c = bytes[i]!;
    if (c === 34) return i + 1;
    if (c !== 92) return failure(controlCharacter, i);
    i = scanEscape(bytes, i, n);
    if (i < 0) return i;
  }
}

function scanEscape(bytes: Uint8Array, at: number, n: number): number {
  if (at + 1 >= n) return failure(endsEarly, n);
  const letter = bytes[at + 1]!;
  if (isShortEscape(letter)) return at + 2;
  if (letter !== 117 /* u */) return failure(badEscape, at);
  const unit = hexUnit(bytes, at + 2, n);
  if (unit < 0) return failure(badEscape, at);
  if (keepsText) return at + 6;
  if (unit === 0) return failure(zeroCharacter, at);
  if (!isSurrogate(unit)) return at + 6;
  const isPair =
    at + 7 < n &&
    bytes[at + 6] === 92 &&
    bytes[at + 7] === 117 &&
    isSurrogatePair(unit, hexUnit(bytes, at + 8, n));
  return isPair ? at + 12 : failure(loneSurrogate, at);
}

/** Four hexadecimal digits; -1: they are not. */
function hexUnit(bytes: Uint8Array, start: number, n: number): number {
  if (start + 4 > n) return -1;
  let unit = 0;
  for (let i = start; i < start + 4; i++) {
    const digit = hexDigit(bytes[i]!);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/** `true`, `false` or `null`. */
export function scanWord(bytes: Uint8Array, at: number, n: number): number {
  const c = bytes[at];
  const word = c === 116 ? 'true' : c === 102 ? 'false' : c === 110 ? 'null' : '';
  if (word === '') return failure(unexpected, at);
  for (let k = 1; k < word.length; k++) {
    if (at + k >= n) return failure(endsEarly, n);
    if (bytes[at + k] !== word.charCodeAt(k)) return failure(unexpected, at);
  }
  return at + word.length;
}

function skipDigits(bytes: Uint8Array, start: number, n: number): number {
  let i = start;
  while (i < n && bytes[i]! >= 48 && bytes[i]! <= 57) i++;
  return i;
}

/** Why a number that needs a digit here has none. */
function digitMissing(at: number, n: number): number {
  return at >= n ? failure(endsEarly, n) : failure(unexpected, at);
}

/** Also whether PostgreSQL's numeric can hold it. */
export function scanNumber(bytes: Uint8Array, at: number, n: number): number {
  const whole = bytes[at] === 45 ? at + 1 : at;
  const point = skipDigits(bytes, whole, n);
  if (point === whole) return digitMissing(whole, n);
  if (bytes[whole] === 48 && point > whole + 1) return failure(unexpected, whole + 1);
  let i = point;
  if (i < n && bytes[i] === 46) {
    fractions = true;
    i = skipDigits(bytes, point + 1, n);
    if (i === point + 1) return digitMissing(i, n);
  }
  const mantissaEnd = i;
  if (i < n && (bytes[i]! | 32) === 101 /* e */) {
    fractions = true;
    i++;
    if (i < n && (bytes[i] === 43 || bytes[i] === 45)) i++;
    const digits = i;
    i = skipDigits(bytes, digits, n);
    if (i === digits) return digitMissing(i, n);
  }
  // Without an exponent, only a number of very many digits can be out of range.
  if ((i === mantissaEnd && isSafeLength(i - at)) || keepsText) return i;
  let first = whole;
  while (first < mantissaEnd && (bytes[first] === 48 || bytes[first] === 46)) first++;
  const exponent = readExponent(bytes, mantissaEnd, i);
  if (!fitsNumeric(first, point, mantissaEnd, exponent)) return failure(numberRange, at);
  // jsonb writes 1e131071 as 131,072 digits: a small document would be one that nobody can read back.
  const isZero = first === mantissaEnd;
  growth += isZero ? Math.min(Math.max(-exponent, 0), zeroDigitsMax) : Math.abs(exponent);
  return growth > limits.jsonNumberGrowthBytesMax ? failure(tooLongNumbers, at) : i;
}

function readExponent(bytes: Uint8Array, start: number, end: number): number {
  if (start === end) return 0;
  let exponent = 0;
  for (let i = start + 1; i < end; i++) {
    const c = bytes[i]!;
    if (c >= 48 && c <= 57 && exponent <= exponentMax) exponent = exponent * 10 + (c - 48);
  }
  return bytes[start + 1] === 45 ? -exponent : exponent;
}
