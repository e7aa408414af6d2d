/**
 * Says whether bytes are a JSON document that PostgreSQL's jsonb can store, without asking PostgreSQL. Pure; one pass,
 * no recursion, no allocation for a document that is accepted. jsonb accepts RFC 8259 in UTF-8, except
 * `\u0000`, surrogates that do not come in pairs, and numbers that its numeric type cannot hold. This also refuses documents whose
 * numbers would be very much longer when they are read back, and documents whose objects have so many members that sorting
 * them could keep the engine busy for minutes. One value is refused here that servers from version 16 on would accept: a
 * zero with the exponent ±1073741823. The type json, which keeps the text, takes the escapes and numbers that jsonb does not. Proven
 * against a server by json-scan.pg.test.ts.
 */
import { isUtf8 } from 'node:buffer';
import {
  exponentMax,
  fitsNumeric,
  hexDigit,
  isJsonSpace,
  isSafeLength,
  isShortEscape,
  isSurrogate,
  isSurrogatePair,
} from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';

export interface JsonProblem {
  /** Absent: it is no storable document. */
  readonly code?: 'no_column_matched' | 'key_unknown';
  /** What is wrong, without any text of the document. */
  readonly reason: string;
  /** 0-based byte where it was noticed; null: not known. */
  readonly offset: number | null;
}

export interface JsonScanOptions {
  /** Nesting of arrays and objects; PostgreSQL itself gives up near 16,000, with an error that is hard to contain. */
  readonly depthMax: number;
  /** Gets the keys of the outermost object; absent: nothing does. */
  readonly keys?: KeySink | null;
  /** The document is kept as text, by PostgreSQL's type json: what only jsonb cannot hold is accepted. */
  readonly asText?: boolean;
}

export interface KeySink {
  /** A document begins. */
  begin(): void;
  /** The characters of a key as written, without its quotes. */
  see(bytes: Uint8Array, start: number, end: number): void;
}

/** Also for the lines of one body together. */
export const tooManyMembersReason = 'its objects have too many members';

/** By number: the scan itself makes no texts. */
const reasons: string[] = [];
type Reason = number;
const reason = (text: string): Reason => reasons.push(text) - 1;
const endsEarly = reason('it ends in the middle');
const unexpected = reason('unexpected character');
const controlCharacter = reason('control character in a string');
const badEscape = reason('invalid escape in a string');
const zeroCharacter = reason('\\u0000 cannot be stored');
const loneSurrogate = reason('surrogate without its other half');
const numberRange = reason('number out of range');
const tooDeep = reason('nested too deeply');
/** A comma or a closing bracket after the whole document. */
const behind = reason('unexpected character');
const tooLongNumbers = reason('its numbers are too long when they are written out');
const tooManyMembers = reason(tooManyMembersReason);
const reasonsMax = 16;

export function scanJson(bytes: Uint8Array, options: JsonScanOptions): JsonProblem | null {
  if (!isUtf8(bytes)) return { reason: 'it is not valid UTF-8', offset: null };
  const result = scanDocument(bytes, 0, options, false);
  if (result >= 0) return null;
  const failure = -1 - result;
  const offset = Math.floor(failure / reasonsMax);
  if (offset >= bytes.length && isBlank(bytes)) return { reason: 'it is empty', offset: null };
  return { reason: reasons[failure % reasonsMax] ?? '', offset };
}

/**
 * The same for a document on one line, in bytes that are known to be UTF-8: returns where that line ends; -1: it is
 * no such document, and scanJson over the line says why.
 */
export function scanLine(bytes: Uint8Array, start: number, options: JsonScanOptions): number {
  const result = scanDocument(bytes, start, options, true);
  return result >= 0 ? result : -1;
}

/**
 * The same for a document that ends at a comma, a closing bracket or with the bytes: returns where that is; -1: it is no such
 * document, and scanJson over it says why.
 */
export function scanItem(bytes: Uint8Array, start: number, options: JsonScanOptions): number {
  const result = scanDocument(bytes, start, options, false);
  if (result >= 0) return result;
  const failure = -1 - result;
  return failure % reasonsMax === behind ? Math.floor(failure / reasonsMax) : -1;
}

/** Failures are returned as negative numbers, so that the accepted path makes no objects. */
function failure(why: Reason, offset: number): number {
  return -1 - (offset * reasonsMax + why);
}

// What may come next.
const value = 0;
const valueOrEnd = 1;
const keyOrEnd = 2;
const key = 3;
const colon = 4;
const commaOrEnd = 5;

/** Open containers, 1 for an object. Scanning is synchronous, so one stack serves all calls. */
let open = new Uint8Array(1024);
/** The number of members of each of them. */
let memberCounts = new Uint32Array(1024);

/** A zero has no digits before its point, and no more after it than numeric keeps. */
const zeroDigitsMax = 16_383;

/** By how much the numbers of the document are longer without their exponents. */
let growth = 0;

/** The sum of the squares of the numbers of members of its large objects. */
let effort = 0;
/** Objects up to this many members cost the engine no more than their bytes do, whatever their keys are. */
const freeMembersMax = 1_024;

/**
 * What the objects of the document that was scanned last may cost the engine, as `limits.jsonMembersSquaredMax` counts it.
 * jsonb sorts the members of an object by a quicksort, and json_to_recordset keeps them in a hash table without a seed. For
 * both there are keys that make each member be compared with all, and neither reacts to a cancel or a timeout meanwhile.
 */
export function scannedEffort(): number {
  return effort;
}

let fractions = false;

/** Whether the document that was scanned last has a number with a point or an exponent. */
export function scannedFraction(): boolean {
  return fractions;
}

/** Bytes that a string may hold unescaped: neither quote, nor backslash, nor control character. */
const plain = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 32 && byte !== 34 && byte !== 92 ? 1 : 0,
);

function scanDocument(
  bytes: Uint8Array,
  start: number,
  { depthMax, keys = null, asText = false }: JsonScanOptions,
  onOneLine: boolean,
): number {
  keys?.begin();
  keepsText = asText;
  if (open.length <= depthMax) {
    open = new Uint8Array(depthMax + 1);
    memberCounts = new Uint32Array(depthMax + 1);
  }
  growth = 0;
  effort = 0;
  fractions = false;
  const n = bytes.length;
  let state = value;
  let depth = 0;
  let i = start;
  while (i < n) {
    const c = bytes[i]!;
    if (c === 32 || c === 10 || c === 13 || c === 9) {
      if (onOneLine && c === 10) break;
      i++;
    } else if (c === 34 /* " */) {
      if (state > key) return failure(unexpected, i);
      const from = i + 1;
      i = scanString(bytes, from, n);
      if (i < 0) return i;
      if (keys !== null && depth === 1 && state >= keyOrEnd) keys.see(bytes, from, i - 1);
      state = state >= keyOrEnd ? colon : commaOrEnd;
    } else if (c === 44 /* , */) {
      if (state !== commaOrEnd) return failure(unexpected, i);
      if (depth === 0) return failure(behind, i);
      state = open[depth] === 1 ? key : value;
      i++;
    } else if (c === 58 /* : */) {
      if (state !== colon) return failure(unexpected, i);
      state = value;
      memberCounts[depth]!++;
      i++;
    } else if (c === 123 /* { */ || c === 91 /* [ */) {
      if (state > valueOrEnd) return failure(unexpected, i);
      if (depth === depthMax) return failure(tooDeep, i);
      depth++;
      open[depth] = c === 123 ? 1 : 0;
      memberCounts[depth] = 0;
      state = c === 123 ? keyOrEnd : valueOrEnd;
      i++;
    } else if (c === 125 /* } */ || c === 93 /* ] */) {
      const isObject = c === 125 ? 1 : 0;
      const emptyState = isObject === 1 ? keyOrEnd : valueOrEnd;
      if (depth === 0) return failure(state === commaOrEnd ? behind : unexpected, i);
      if (open[depth] !== isObject) return failure(unexpected, i);
      if (state !== commaOrEnd && state !== emptyState) return failure(unexpected, i);
      if (isObject === 1 && isLarge(memberCounts[depth]!)) return failure(tooManyMembers, i);
      depth--;
      state = commaOrEnd;
      i++;
    } else {
      if (state > valueOrEnd) return failure(unexpected, i);
      i = c === 45 || (c >= 48 && c <= 57) ? scanNumber(bytes, i, n) : scanWord(bytes, i, n);
      if (i < 0) return i;
      state = commaOrEnd;
    }
  }
  return state === commaOrEnd && depth === 0 ? i : failure(endsEarly, n);
}

/** Scanning is synchronous: what the document is scanned for; see JsonScanOptions.asText. */
let keepsText = false;

/** Counts an object; returns whether it is one too many. */
function isLarge(members: number): boolean {
  if (members <= freeMembersMax) return false;
  effort += members * members;
  return effort > limits.jsonMembersSquaredMax;
}

/** From just after the opening quote to just after the closing one. */
function scanString(bytes: Uint8Array, start: number, n: number): number {
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

function scanWord(bytes: Uint8Array, at: number, n: number): number {
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

function scanNumber(bytes: Uint8Array, at: number, n: number): number {
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

function isBlank(bytes: Uint8Array): boolean {
  // A body of nothing but white space may be large, and a loop is many times as fast as a call for each byte.
  for (let i = 0; i < bytes.length; i++) if (!isJsonSpace(bytes[i])) return false;
  return true;
}
