/**
 * JSONB values. A document is kept as its checked text, and a value is a part of that text: reading a member of a large
 * body allocates nothing, numbers keep their digits, and the last of duplicate keys is used. Only printing and
 * comparing an array or object builds it; that is bounded by `limits.expressionJsonCharsMax`.
 */
import { limits } from '../config/limits.ts';
import { unsupported } from './errors.ts';
import { checkJson, skipString, skipValue, skipSpace } from './json-scan.ts';
import { type Decimal, compareDecimals, decimalFromParts, printDecimal } from './numeric.ts';
import { compareTexts } from './text.ts';

export class JsonValue {
  readonly text: string;
  readonly start: number;
  readonly end: number;

  constructor(text: string, start: number, end: number) {
    this.text = text;
    this.start = start;
    this.end = end;
  }
}

export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'true' | 'false' | 'null';

/** Reads a document as `text::jsonb` does, or raises an error. */
export function parseJson(text: string): JsonValue {
  const { start, end } = checkJson(text);
  return new JsonValue(text, start, end);
}

/** A JSONB string, or an object of strings and descriptions of files, created here: its text needs no check. */
export function jsonOf(value: string | Record<string, string | object>): JsonValue {
  const text = JSON.stringify(value);
  return new JsonValue(text, 0, text.length);
}

export function kindOf(value: JsonValue): JsonKind {
  switch (value.text[value.start]) {
    case '{':
      return 'object';
    case '[':
      return 'array';
    case '"':
      return 'string';
    case 't':
      return 'true';
    case 'f':
      return 'false';
    case 'n':
      return 'null';
    default:
      return 'number';
  }
}

/** The content of a string that starts at `start` and whose closing quote is before `end`. */
function unquote(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}

/** The members of an array as [start, end) pairs, or of an object as [key start, key end, value start, value end]. */
function* members(value: JsonValue): Generator<readonly [number, number, number, number]> {
  const { text } = value;
  const isObject = text[value.start] === '{';
  let at = skipSpace(text, value.start + 1);
  while (at < value.end - 1) {
    let keyStart = at;
    let keyEnd = at;
    if (isObject) {
      keyStart = at;
      keyEnd = skipString(text, at);
      at = skipSpace(text, skipSpace(text, keyEnd) + 1);
    }
    const end = skipValue(text, at);
    yield [keyStart, keyEnd, at, end];
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
}

/** `->` with a key. */
export function member(value: JsonValue, key: string): JsonValue | null {
  if (kindOf(value) !== 'object') return null;
  let found: JsonValue | null = null;
  for (const [keyStart, keyEnd, start, end] of members(value)) {
    if (unquote(value.text, keyStart, keyEnd) === key) found = new JsonValue(value.text, start, end);
  }
  return found;
}

function nth(value: JsonValue, index: number): JsonValue | null {
  let wanted = index;
  if (wanted < 0) {
    for (const _ of members(value)) wanted++;
    if (wanted < 0) return null;
  }
  for (const [, , start, end] of members(value))
    if (wanted-- === 0) return new JsonValue(value.text, start, end);
  return null;
}

/** `->` with an index. Here PostgreSQL treats a lone scalar as an array of one element. */
export function element(value: JsonValue, index: number): JsonValue | null {
  const kind = kindOf(value);
  if (kind === 'object') return null;
  if (kind === 'array') return nth(value, index);
  return index === 0 || index === -1 ? value : null;
}

const indexForm = /^[ \t\n\v\f\r]*([+-]?\d+)$/;

/** `#>`: keys and indexes in sequence. */
export function atPath(value: JsonValue, path: readonly (string | null)[]): JsonValue | null {
  let current: JsonValue | null = value;
  for (const step of path) {
    if (step === null || current === null) return null;
    const kind = kindOf(current);
    if (kind === 'object') current = member(current, step);
    else if (kind === 'array') {
      const index = Number(step.length > 64 ? Number.NaN : (indexForm.exec(step)?.[1] ?? Number.NaN));
      current = Number.isNaN(index) || Math.abs(index) > 2147483647 ? null : nth(current, index);
    } else return null;
  }
  return current;
}

/** `->>`: a string without its quotes, JSON null as NULL, everything else as jsonb prints it. */
export function jsonAsText(value: JsonValue | null): string | null {
  if (value === null) return null;
  const kind = kindOf(value);
  if (kind === 'null') return null;
  if (kind === 'string') checkLength(value.end - value.start);
  return kind === 'string' ? unquote(value.text, value.start, value.end) : printJson(value);
}

const numberForm = /^(-?)(\d+(?:\.\d+)?)(?:[eE]([+-]?\d+))?$/;

export function jsonNumber(value: JsonValue): Decimal {
  if (value.end - value.start > limits.expressionDigitsMax * 2) throw unsupported('a very long JSON number');
  const parts = numberForm.exec(value.text.slice(value.start, value.end));
  return decimalFromParts(parts?.[1] === '-', parts?.[2] ?? '', parts?.[3] ?? '');
}

function checkLength(chars: number): void {
  if (chars > limits.expressionJsonCharsMax) {
    throw unsupported(`more than ${limits.expressionJsonCharsMax} characters out of a JSON document`);
  }
}

type Built = { readonly scalar: string } | { readonly number: Decimal } | Built[] | Map<string, Built>;

/** Builds an array or object; `1e999` is longer printed than written, so the printed length is counted. */
class JsonBuilder {
  #chars = 0;

  build(value: JsonValue): Built {
    const kind = kindOf(value);
    if (kind === 'string')
      return { scalar: JSON.stringify(this.#string(value.text, value.start, value.end)) };
    if (kind === 'number') return this.#number(value);
    if (kind === 'array') {
      return Array.from(members(value), ([, , start, end]) =>
        this.build(new JsonValue(value.text, start, end)),
      );
    }
    if (kind !== 'object') return { scalar: kind };
    const map = new Map<string, Built>();
    // The key gets a prefix that is not a digit: Node before 20.20.2, 22.22.2 and 24.14.1 hashes texts that look like
    // numbers without a seed, so that a sender could choose colliding ones.
    for (const [keyStart, keyEnd, start, end] of members(value)) {
      map.set(
        `.${this.#string(value.text, keyStart, keyEnd)}`,
        this.build(new JsonValue(value.text, start, end)),
      );
    }
    return map;
  }

  #count(chars: number): void {
    this.#chars += chars;
    checkLength(this.#chars);
  }

  #string(text: string, start: number, end: number): string {
    this.#count(end - start);
    return unquote(text, start, end);
  }

  #number(value: JsonValue): Built {
    const number = jsonNumber(value);
    const digits = Math.max(number.coefficient.toString().length, number.scale);
    this.#count(digits);
    return { number };
  }
}

function built(value: JsonValue): Built {
  checkLength(value.end - value.start);
  return new JsonBuilder().build(value);
}

/** jsonb's own order of keys: shorter (in bytes) first, then byte by byte. */
function compareKeys(a: string, b: string): number {
  return Buffer.byteLength(a) - Buffer.byteLength(b) || compareTexts(a, b);
}

function print(value: Built): string {
  if (Array.isArray(value)) return `[${value.map(print).join(', ')}]`;
  if (value instanceof Map) {
    const keys = [...value.keys()].sort(compareKeys);
    return `{${keys.map((key) => `${JSON.stringify(key.slice(1))}: ${print(value.get(key) ?? { scalar: 'null' })}`).join(', ')}}`;
  }
  return 'number' in value ? printDecimal(value.number) : value.scalar;
}

/** `jsonb::text`. */
export function printJson(value: JsonValue): string {
  return print(built(value));
}

function equal(a: Built, b: Built): boolean {
  if (Array.isArray(a)) {
    return (
      Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i] ?? { scalar: '' }))
    );
  }
  if (a instanceof Map) {
    if (!(b instanceof Map) || a.size !== b.size) return false;
    return [...a].every(([key, item]) => {
      const other = b.get(key);
      return other !== undefined && equal(item, other);
    });
  }
  if (Array.isArray(b) || b instanceof Map) return false;
  if ('number' in a) return 'number' in b && compareDecimals(a.number, b.number) === 0;
  return 'scalar' in b && a.scalar === b.scalar;
}

/** `jsonb = jsonb`: numbers by value, objects regardless of the order of their keys. */
export function equalJson(a: JsonValue, b: JsonValue): boolean {
  return equal(built(a), built(b));
}
