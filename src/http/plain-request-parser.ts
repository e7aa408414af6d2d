/**
 * The recogniser of plain requests, which have the one form that nearly all webhooks have. Takes bytes as received; tells that form from everything else:
 * that a complete head is there, that more bytes are needed, or that Node's parser has to read the request: whatever could be understood in two ways, and
 * whatever is rare. Accepts a part of what Node's parser accepts, and reads that part as Node's parser does (plain-request-parser.test.ts compares them).
 * Of headers it reads those that say how the request is framed; the values of others may be any visible ASCII. Touches nothing; a request that it has
 * accepted becomes a WholeRequest (plain-request.ts).
 */
import { fetchedName } from './headers.ts';

/** The bytes so far are correct, but not complete. */
export const more = 0;
/** Node's parser has to read the request. */
export const doubtful = -1;

/** Sizes in bytes. */
export interface PlainRequestRules {
  /** How a request target may begin: `/webhook/`, of the gateway `/v1/events`. */
  readonly prefixes: readonly string[];
  /** From the first byte of the request line to the end of the blank line. */
  readonly headBytesMax: number;
  readonly targetBytesMax: number;
  readonly linesMax: number;
  readonly bodyBytesMax: number;
}

/** RFC 9110 §5.6.2. */
const token = tableOf(/[!#$%&'*+.^_`|~0-9A-Za-z-]/);
/** What RFC 3986 allows in a path and a query. */
const inTarget = tableOf(/[!$%&'()*+,./:;=?@_~0-9A-Za-z-]/);
/** Visible ASCII and blanks. */
const inValue = tableOf(/[\t\x20-\x7e]/);

const [tab, lineFeed, carriageReturn, blank, zero, nine, colon] = [9, 10, 13, 32, 48, 57, 58];
const version = Buffer.from(' HTTP/1.1\r\n');

/**
 * Names that determine where a message ends, what happens to its connection, or how its body is read; and the one that is removed. `host` and
 * `content-length` have to come exactly once, `connection` at most once; a request with any of the others is left to Node's parser.
 */
type KnownHeader = 'host' | 'length' | 'connection' | 'other';
const named: readonly (readonly [name: string, means: KnownHeader])[] = [
  ['host', 'host'],
  ['content-length', 'length'],
  ['connection', 'connection'],
  ['proxy-connection', 'other'],
  ['transfer-encoding', 'other'],
  ['content-encoding', 'other'],
  ['upgrade', 'other'],
  ['http2-settings', 'other'],
  ['expect', 'other'],
  ['trailer', 'other'],
  [fetchedName, 'other'],
];
const namedByLength = Array.from({ length: 32 }, (_, length) =>
  named.filter(([name]) => name.length === length),
);
const connectionWords = ['keep-alive', 'close'] as const;

export class PlainRequestParser {
  /** These fields describe the head that was read last. */
  headBytes = 0;
  bodyBytes = 0;
  /** Where its target ends, from the beginning of the head; the target begins after `POST `. */
  targetEnd = 0;
  /** Where names and values begin and end, from the beginning of the head: four numbers per line. The caller may keep the array. */
  lines: number[] = [];
  /** The request is the last one on its connection. */
  closes = false;
  readonly #rules: PlainRequestRules;
  readonly #starts: readonly Buffer[];

  constructor(rules: PlainRequestRules) {
    this.#rules = rules;
    this.#starts = rules.prefixes.map((prefix) => Buffer.from(`POST ${prefix}`));
  }

  /**
   * Reads the head that begins at `start`: returns its length (the fields then describe it, and the body was not examined),
   * `more` or `doubtful`. Bytes that are doubtful remain so, whatever follows them.
   */
  read(bytes: Buffer, start: number): number {
    const { headBytesMax, targetBytesMax } = this.#rules;
    const end = Math.min(bytes.length, start + headBytesMax);
    const ended = end < start + headBytesMax ? more : doubtful;
    const startsSo = this.#starts.some((those) => agrees(bytes, start, end, those));
    if (!startsSo) return doubtful;
    let at = start + 'POST '.length;
    while (at < end && inTarget[bytes[at] ?? 0] === 1) at += 1;
    if (at - start - 'POST '.length > targetBytesMax) return doubtful;
    this.targetEnd = at - start;
    if (!agrees(bytes, at, end, version)) return doubtful;
    at += version.length;
    if (at >= end) return ended;
    return this.#lines(bytes, start, at, end, ended);
  }

  #lines(bytes: Buffer, start: number, first: number, end: number, ended: number): number {
    const { linesMax, bodyBytesMax } = this.#rules;
    const lines: number[] = [];
    let at = first;
    let hosts = 0;
    let length = -1;
    let connections = 0;
    this.closes = false;
    while (at < end && bytes[at] !== carriageReturn) {
      const name = at;
      while (at < end && token[bytes[at] ?? 0] === 1) at += 1;
      if (at === end) return ended;
      if (at === name || bytes[at] !== colon || lines.length >= linesMax * 4) return doubtful;
      const nameEnd = at;
      at += 1;
      while (at < end && isBlank(bytes[at])) at += 1;
      const value = at;
      while (at < end && inValue[bytes[at] ?? 0] === 1) at += 1;
      if (at === end) return ended;
      if (at === value || bytes[at] !== carriageReturn || isBlank(bytes[at - 1])) return doubtful;
      lines.push(name - start, nameEnd - start, value - start, at - start);
      switch (meaningOf(bytes, name, nameEnd)) {
        case null:
          break;
        case 'host':
          hosts += 1;
          break;
        case 'length':
          if (length !== -1) return doubtful;
          length = numberAt(bytes, value, at);
          if (length < 0 || length > bodyBytesMax) return doubtful;
          break;
        case 'connection': {
          const word = connectionWords.findIndex((it) => isNamed(bytes, value, at, it));
          connections += 1;
          if (word < 0 || connections > 1) return doubtful;
          this.closes = word === 1;
          break;
        }
        case 'other':
          return doubtful;
      }
      if (at + 1 >= end) return ended;
      if (bytes[at + 1] !== lineFeed) return doubtful;
      at += 2;
    }
    if (at + 1 >= end) return ended;
    if (bytes[at + 1] !== lineFeed || hosts !== 1 || length < 0) return doubtful;
    this.lines = lines;
    this.bodyBytes = length;
    this.headBytes = at + 2 - start;
    return this.headBytes;
  }
}

/** Whether a name as received is `wanted`, which is in lower case. */
export function isNamed(bytes: Buffer, start: number, end: number, wanted: string): boolean {
  if (end - start !== wanted.length) return false;
  for (let i = 0; i < wanted.length; i++) {
    const byte = bytes[start + i] ?? 0;
    if ((byte >= 65 && byte <= 90 ? byte + 32 : byte) !== wanted.charCodeAt(i)) return false;
  }
  return true;
}

function meaningOf(bytes: Buffer, start: number, end: number): KnownHeader | null {
  const candidates = namedByLength[end - start];
  if (candidates === undefined) return null;
  for (const [name, means] of candidates) if (isNamed(bytes, start, end, name)) return means;
  return null;
}

/** -1: not plain digits, or too many of them. */
function numberAt(bytes: Buffer, start: number, end: number): number {
  if (end - start > 8 || (bytes[start] === zero && end - start > 1)) return -1;
  let number = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (byte < zero || byte > nine) return -1;
    number = number * 10 + byte - zero;
  }
  return number;
}

/** Whether `expected` is at `at`, as far as bytes have arrived. */
function agrees(bytes: Buffer, at: number, end: number, expected: Buffer): boolean {
  for (let i = 0; i < expected.length && at + i < end; i++) if (bytes[at + i] !== expected[i]) return false;
  return true;
}

function isBlank(byte: number | undefined): boolean {
  return byte === blank || byte === tab;
}

function tableOf(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (pattern.test(String.fromCharCode(byte)) ? 1 : 0));
}
