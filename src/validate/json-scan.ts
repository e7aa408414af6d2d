/**
 * The text of a JSON document: a check that accepts exactly what PostgreSQL's jsonb accepts (up to a nesting of
 * `limits.jsonDepthMax`), and fast skipping over text that has been checked. Nothing is built.
 */
import {
  fitsNumeric,
  hexDigit,
  isJsonSpace,
  isShortEscape,
  isSurrogate,
  isSurrogatePair,
} from '../kit/json-grammar.ts';
import { limits } from '../config/limits.ts';
import { EvaluationError, invalidInput, unsupported } from './errors.ts';

const quote = 0x22;
const backslash = 0x5c;

/** Skips blanks, tabs and line ends. */
export function skipSpace(text: string, start: number): number {
  let at = start;
  while (isJsonSpace(text.charCodeAt(at))) at++;
  return at;
}

/** From the opening quote of a checked string to after its closing quote. */
export function skipString(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    const code = text.charCodeAt(at);
    if (code === backslash) at++;
    else if (code === quote || at >= text.length) return at + 1;
  }
}

/** From the start of a checked value to its end. */
export function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === quote) return skipString(text, start);
  if (first !== 0x7b && first !== 0x5b) return skipScalar(text, start);
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = skipString(text, at) - 1;
    else if (code === 0x7b || code === 0x5b) depth++;
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return at + 1;
  }
  return text.length;
}

/** A number, true, false or null ends before a blank, comma or closing bracket. */
function skipScalar(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x2c || code === 0x7d || code === 0x5d || code === 0x20 || (code >= 0x09 && code <= 0x0d))
      return at;
  }
  return text.length;
}

/** Checks a whole document and returns where its value is, without surrounding blanks. */
export function checkJson(text: string): { start: number; end: number } {
  // A body that begins with a byte order mark is stored without it (RFC 8259 §8.1).
  const start = skipSpace(text, text.charCodeAt(0) === 0xfeff ? 1 : 0);
  const end = checkValue(text, start, 0);
  if (skipSpace(text, end) < text.length) throw invalidInput('json');
  return { start, end };
}

function checkValue(text: string, start: number, depth: number): number {
  if (depth > limits.jsonDepthMax) throw unsupported(`JSON nested deeper than ${limits.jsonDepthMax}`);
  switch (text.charCodeAt(start)) {
    case 0x7b:
      return checkMembers(text, start, depth, true, 0x7d);
    case 0x5b:
      return checkMembers(text, start, depth, false, 0x5d);
    case quote:
      return checkString(text, start);
    case 0x74:
      return checkWord(text, start, 'true');
    case 0x66:
      return checkWord(text, start, 'false');
    case 0x6e:
      return checkWord(text, start, 'null');
    default:
      return checkNumber(text, start);
  }
}

function checkWord(text: string, start: number, word: string): number {
  if (!text.startsWith(word, start)) throw invalidInput('json');
  return start + word.length;
}

function checkMembers(text: string, start: number, depth: number, keyed: boolean, close: number): number {
  let at = skipSpace(text, start + 1);
  if (text.charCodeAt(at) === close) return at + 1;
  for (;;) {
    if (keyed) {
      if (text.charCodeAt(at) !== quote) throw invalidInput('json');
      at = skipSpace(text, checkString(text, at));
      if (text.charCodeAt(at) !== 0x3a) throw invalidInput('json');
      at = skipSpace(text, at + 1);
    }
    at = skipSpace(text, checkValue(text, at, depth + 1));
    const code = text.charCodeAt(at);
    if (code === close) return at + 1;
    if (code !== 0x2c) throw invalidInput('json');
    at = skipSpace(text, at + 1);
  }
}

function checkString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) return at + 1;
    if (code < 0x20) throw invalidInput('json');
    if (code === backslash) at = checkEscape(text, at);
  }
  throw invalidInput('json');
}

/** From a backslash to the last character of its escape; a pair of surrogates is one escape. */
function checkEscape(text: string, at: number): number {
  if (isShortEscape(text.charCodeAt(at + 1))) return at + 1;
  if (text[at + 1] !== 'u') throw invalidInput('json');
  const unit = hexUnit(text, at + 2);
  if (unit === 0) throw new EvaluationError('22P05', 'unsupported Unicode escape sequence: \\u0000');
  if (!isSurrogate(unit)) return at + 5;
  if (text[at + 6] !== '\\' || text[at + 7] !== 'u') throw invalidInput('json');
  if (!isSurrogatePair(unit, hexUnit(text, at + 8))) throw invalidInput('json');
  return at + 11;
}

function hexUnit(text: string, start: number): number {
  let unit = 0;
  for (let at = start; at < start + 4; at++) {
    const digit = hexDigit(text.charCodeAt(at));
    if (digit < 0) throw invalidInput('json');
    unit = unit * 16 + digit;
  }
  return unit;
}

function skipDigits(text: string, start: number): number {
  let at = start;
  while (text.charCodeAt(at) >= 48 && text.charCodeAt(at) <= 57) at++;
  return at;
}

function checkNumber(text: string, start: number): number {
  const digits = text[start] === '-' ? start + 1 : start;
  let at = skipDigits(text, digits);
  if (at === digits || (text[digits] === '0' && at > digits + 1)) throw invalidInput('json');
  const integerEnd = at;
  if (text[at] === '.') {
    at = skipDigits(text, at + 1);
    if (at === integerEnd + 1) throw invalidInput('json');
  }
  const mantissaEnd = at;
  let exponent = 0;
  if (text[at] === 'e' || text[at] === 'E') {
    const sign = text[at + 1] === '+' || text[at + 1] === '-' ? 2 : 1;
    const end = skipDigits(text, at + sign);
    if (end === at + sign) throw invalidInput('json');
    exponent = end - at > 20 ? Infinity : Number(text.slice(at + 1, end));
    at = end;
  }
  if (at - start <= 15 && exponent === 0) return at;
  let first = digits;
  while (first < mantissaEnd && (text[first] === '0' || text[first] === '.')) first++;
  if (!fitsNumeric(first, integerEnd, mantissaEnd, exponent))
    throw new EvaluationError('22003', 'value overflows numeric format');
  return at;
}
