/**
 * JSON that keeps every digit: integers beyond 2^53 are BigInt, other numbers that a double cannot hold are strings.
 * Takes values and texts, returns texts and values; throws SyntaxError for a text that is not JSON. Pure; runs in
 * browsers.
 */

/** Like JSON.stringify, with BigInt as a number and bytes as PostgreSQL's `\x…`. */
export function toJson(value: unknown): string {
  if (!isPlain(value)) return exactJson(value) ?? 'null';
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (error) {
    // A BigInt at a deeper level; a circular value fails again, with its own message.
    if (error instanceof TypeError) return exactJson(value) ?? 'null';
    throw error;
  }
}

/** Whether JSON.stringify is exact. What is nested too deeply is left to it: it finds values that hold themselves. */
function isPlain(value: unknown): boolean {
  try {
    return isExact(value, 0);
  } catch (error) {
    if (error === tooDeep) return true;
    throw error;
  }
}

const tooDeep = new Error('nested too deeply');

function isExact(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'bigint';
  if (depth > nestingMax) throw tooDeep;
  if (value instanceof Uint8Array) return false;
  if (value instanceof Date) return true;
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) if (!isExact(item, depth + 1)) return false;
    return true;
  }
  if ('toJSON' in value) return false;
  for (const name in value) if (!isExact((value as Record<string, unknown>)[name], depth + 1)) return false;
  return true;
}

const nestingMax = 1_000;

function exactJson(value: unknown, depth = 0): string | undefined {
  if (depth > nestingMax) throw new TypeError('the value is nested too deeply, or holds itself');
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Uint8Array) return `"\\\\x${hex(value)}"`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if ('toJSON' in value && typeof value.toJSON === 'function') return exactJson(value.toJSON(), depth + 1);
  if (Array.isArray(value)) {
    return `[${value.map((item) => exactJson(item, depth + 1) ?? 'null').join(',')}]`;
  }
  const members: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    const text = exactJson(member, depth + 1);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}

function hex(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0');
  return text;
}

/** A double holds any number with fewer digits than this. */
const manyDigits = /[\d.]{16}|[eE][+-]?\d{3}/;

export function fromJson(text: string): unknown {
  return manyDigits.test(text) ? new Reader(text).document() : JSON.parse(text);
}

const number = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const plainText = /[^"\\]*/y;
const blank = /[ \t\n\r]*/y;

/** The significant digits: a number that prints with the same ones was not rounded. */
function significant(digits: string): string {
  return digits
    .replace(/[eE].*$/, '')
    .replaceAll(/[-.]/g, '')
    .replaceAll(/^0+|0+$/g, '');
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): unknown {
    const value = this.#value(0);
    this.#skip();
    if (this.#at < this.#text.length) this.#fail();
    return value;
  }

  #value(depth: number): unknown {
    if (depth > nestingMax) throw new SyntaxError('the JSON is nested too deeply');
    this.#skip();
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(depth);
      case '"':
        return this.#string();
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #object(depth: number): Record<string, unknown> {
    const members: [string, unknown][] = [];
    this.#at++;
    this.#skip();
    if (this.#take('}')) return {};
    do {
      this.#skip();
      const name = this.#string();
      this.#skip();
      if (!this.#take(':')) this.#fail();
      members.push([name, this.#value(depth + 1)]);
      this.#skip();
    } while (this.#take(','));
    if (!this.#take('}')) this.#fail();
    // Not by assignment: a column may be called __proto__.
    return Object.fromEntries(members);
  }

  #array(depth: number): unknown[] {
    const items: unknown[] = [];
    this.#at++;
    this.#skip();
    if (this.#take(']')) return items;
    do {
      items.push(this.#value(depth + 1));
      this.#skip();
    } while (this.#take(','));
    if (!this.#take(']')) this.#fail();
    return items;
  }

  #string(): string {
    const start = this.#at;
    if (!this.#take('"')) this.#fail();
    for (;;) {
      plainText.lastIndex = this.#at;
      plainText.test(this.#text);
      this.#at = plainText.lastIndex;
      if (this.#at >= this.#text.length) this.#fail();
      if (this.#take('"')) return JSON.parse(this.#text.slice(start, this.#at)) as string;
      this.#at += 2;
    }
  }

  #number(): number | bigint | string {
    number.lastIndex = this.#at;
    const found = number.exec(this.#text);
    if (found === null) this.#fail();
    this.#at = number.lastIndex;
    const [digits, fraction, exponent] = found;
    const value = Number(digits);
    if (fraction === undefined && exponent === undefined) {
      return Number.isSafeInteger(value) ? value : BigInt(digits);
    }
    return significant(String(value)) === significant(digits) ? value : digits;
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#fail();
    this.#at += word.length;
    return value;
  }

  #take(char: string): boolean {
    if (this.#text[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #skip(): void {
    blank.lastIndex = this.#at;
    blank.test(this.#text);
    this.#at = blank.lastIndex;
  }

  #fail(): never {
    throw new SyntaxError(`unexpected character in JSON at position ${this.#at}`);
  }
}
