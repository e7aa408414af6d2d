/**
 * Walks over JSON that has already been checked: members of an object, as positions in the bytes. Nothing is
 * parsed, copied or checked again; over bytes that are not JSON the positions mean nothing, but every walk ends.
 */
import { isJsonSpace } from './json-grammar.ts';

const quote = 34;
const backslash = 92;

export function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isJsonSpace(bytes[at])) at++;
  return at;
}

/** From the opening quote of a string to just after its closing quote. */
function skipString(bytes: Uint8Array, start: number): number {
  const n = bytes.length;
  let at = start + 1;
  while (at < n) {
    const code = bytes[at]!;
    if (code === quote) return at + 1;
    at += code === backslash ? 2 : 1;
  }
  return n;
}

/** From the first byte of a value to just after its last. */
export function skipValue(bytes: Uint8Array, start: number): number {
  const n = bytes.length;
  const first = bytes[start]!;
  if (first === quote) return skipString(bytes, start);
  let at = start;
  if (first !== 0x7b && first !== 0x5b) {
    // A number, true, false or null: no byte of it is a blank, comma or closing bracket.
    while (at < n && !endsScalar(bytes[at]!)) at++;
    return at;
  }
  let depth = 0;
  while (at < n) {
    const code = bytes[at]!;
    if (code === quote) {
      at = skipString(bytes, at);
      continue;
    }
    at++;
    if (code === 0x7b || code === 0x5b) depth++;
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return at;
  }
  return n;
}

function endsScalar(code: number): boolean {
  return code <= 32 || code === 0x2c || code === 0x7d || code === 0x5d;
}

export function isString(bytes: Uint8Array, start: number): boolean {
  return bytes[start] === quote;
}

export function isNumber(bytes: Uint8Array, start: number): boolean {
  const code = bytes[start];
  return code === 45 || (code !== undefined && code >= 48 && code <= 57);
}

/** The members of one object after another: `open` at its brace, then `next` until it returns false. */
export class Members {
  /** Where the key's characters begin and end, between its quotes and as written. */
  keyStart = 0;
  keyEnd = 0;
  valueStart = 0;
  valueEnd = 0;
  #bytes: Buffer;
  #at = 0;
  #keyIsEscaped = false;

  constructor(bytes: Buffer, start: number) {
    this.#bytes = bytes;
    this.#at = start + 1;
  }

  open(bytes: Buffer, start: number): void {
    this.#bytes = bytes;
    this.#at = start + 1;
  }

  next(): boolean {
    const bytes = this.#bytes;
    let at = skipSpace(bytes, this.#at);
    if (bytes[at] === 0x2c) at = skipSpace(bytes, at + 1);
    if (bytes[at] !== quote) return false;
    this.keyStart = ++at;
    this.#keyIsEscaped = false;
    for (; at < bytes.length && bytes[at] !== quote; at++) {
      if (bytes[at] !== backslash) continue;
      this.#keyIsEscaped = true;
      at++;
    }
    this.keyEnd = at;
    this.valueStart = skipSpace(bytes, skipSpace(bytes, at + 1) + 1);
    this.valueEnd = skipValue(bytes, this.valueStart);
    this.#at = this.valueEnd;
    return true;
  }

  /** The key is written with an escape. */
  get isEscaped(): boolean {
    return this.#keyIsEscaped;
  }

  key(): string {
    return stringAt(this.#bytes, this.keyStart - 1, this.keyEnd + 1);
  }

  /** Whether the key is `name`, given in UTF-8, however its characters are written. */
  keyIs(name: Buffer): boolean {
    // Only an escape can write a character differently.
    if (this.#keyIsEscaped) return this.key() === name.toString('utf8');
    const { keyStart } = this;
    if (this.keyEnd - keyStart !== name.length) return false;
    for (let i = 0; i < name.length; i++) if (this.#bytes[keyStart + i] !== name[i]) return false;
    return true;
  }
}

/** The elements of one array: `next` until it returns false. */
export class Elements {
  start = 0;
  end = 0;
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, start: number) {
    this.#bytes = bytes;
    this.#at = start + 1;
  }

  next(): boolean {
    const bytes = this.#bytes;
    let at = skipSpace(bytes, this.#at);
    if (bytes[at] === 0x2c) at = skipSpace(bytes, at + 1);
    if (at >= bytes.length || bytes[at] === 0x5d) return false;
    this.start = at;
    this.end = skipValue(bytes, at);
    this.#at = this.end;
    return this.end > at;
  }
}

/** The text of the string between these positions, quotes included. */
export function stringAt(bytes: Buffer, start: number, end: number): string {
  const raw = bytes.toString('utf8', start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw;
}
