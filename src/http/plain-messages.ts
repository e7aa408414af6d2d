/**
 * A plain request, which has the one form that nearly all webhooks have, and its answer. Takes bytes as received; tells that form from everything else: that a
 * complete head is there, that more bytes are needed, or that Node's parser has to read the request: whatever could be understood in two ways, and
 * whatever is rare. Accepts a part of what Node's parser accepts, and reads that part as Node's parser does (plain-messages.test.ts compares them). Then
 * takes the bytes of the whole request, and its reply; returns headers as they are asked for, and the message of the answer, which its connection writes
 * in its turn (fast-connection.ts). Touches nothing else.
 */
import { STATUS_CODES } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import { fetchedName, joinHeaders } from './headers.ts';

/** The bytes so far are correct, but not complete. */
export const more = 0;
/** Node's parser has to read the request. */
export const doubtful = -1;

/** Sizes in bytes. */
export interface PlainRequestRules {
  /** How a request target may begin: `/webhook/`. */
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
function isNamed(bytes: Buffer, start: number, end: number, wanted: string): boolean {
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

/**
 * A request that the recogniser has accepted, with all of its body, under the names of node:http. Takes and keeps its bytes;
 * makes strings of headers only for callers that ask for them.
 */
export class WholeRequest {
  readonly method = 'POST';
  readonly httpVersionMajor = 1;
  readonly httpVersionMinor = 1;
  readonly complete = true;
  readonly url: string;
  readonly body: Buffer;
  /** The request is the last one on its connection. */
  readonly closes: boolean;
  readonly #bytes: Buffer;
  readonly #lines: readonly number[];
  #rawHeaders: string[] | null = null;
  #headers: IncomingHttpHeaders | null = null;

  /** `bytes`: the request that the recogniser has just read, with its body. */
  constructor(bytes: Buffer, { targetEnd, lines, headBytes, bodyBytes, closes }: PlainRequestParser) {
    this.url = bytes.toString('latin1', 'POST '.length, targetEnd);
    this.body = bytes.subarray(headBytes, headBytes + bodyBytes);
    this.closes = closes;
    this.#bytes = bytes;
    this.#lines = lines;
  }

  /** The value of a header, by its name in lower case; null: absent; undefined: received more than once. */
  readonly header = (name: string): string | null | undefined => {
    const lines = this.#lines;
    const bytes = this.#bytes;
    let found = -1;
    for (let i = 0; i < lines.length; i += 4) {
      if (!isNamed(bytes, lines[i] ?? 0, lines[i + 1] ?? 0, name)) continue;
      if (found >= 0) return undefined;
      found = i;
    }
    return found < 0 ? null : bytes.toString('latin1', lines[found + 2], lines[found + 3]);
  };

  /** Names and values in turn, as received. */
  get rawHeaders(): readonly string[] {
    if (this.#rawHeaders !== null) return this.#rawHeaders;
    const all: string[] = [];
    const lines = this.#lines;
    for (let i = 0; i < lines.length; i += 2)
      all.push(this.#bytes.toString('latin1', lines[i], lines[i + 1]));
    this.#rawHeaders = all;
    return all;
  }

  get headers(): IncomingHttpHeaders {
    this.#headers ??= joinHeaders(this.rawHeaders);
    return this.#headers;
  }
}

export interface HttpReply {
  readonly status: number;
  /** Names and values in turn, as `ServerResponse.writeHead` takes them. */
  readonly headers: readonly string[];
  readonly body: string | Buffer;
}

/** A header in which one answer differs from others of the same reply. */
export type OwnHeader = readonly [name: string, value: string];

/** A whole HTTP message, one character per byte: `last` are its last headers. */
function messageOf(reply: HttpReply, last: string, nowMs: number, own: OwnHeader | null = null): string {
  const head = heads.get(reply) ?? headOf(reply);
  const line = own === null ? '' : lineOf(own[0], own[1]);
  return `${head}${line}Date: ${dateAt(nowMs)}\r\n${last}\r\n${asBytes(reply.body)}`;
}

const heads = new WeakMap<HttpReply, string>();

/** A reply that is sent often: the part that all of its messages share is made once. */
export function often<R extends HttpReply>(reply: R): R {
  heads.set(reply, headOf(reply));
  return reply;
}

/** The lines of an answer that come from its reply. */
function headOf({ status, headers }: HttpReply): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) head += lineOf(headers[i] ?? '', headers[i + 1] ?? '');
  return head;
}

/** Throws, as Node does, for a header that would end before it should: only a bug of Headgate can cause that. */
function lineOf(name: string, value: string): string {
  if (unwritable.test(value) || unwritable.test(name))
    throw new TypeError('a header of an answer has characters that no header may have');
  return `${name}: ${value}\r\n`;
}

/** The message for a socket that has no request to answer, and that is closed after it. */
export function rawMessage(it: HttpReply, nowMs: number): string {
  return messageOf(it, 'Connection: close\r\n', nowMs);
}

/** Any character but tabs, spaces and visible bytes. */
const unwritable = /[^\t\x20-\x7e\x80-\xff]/;

function asBytes(body: string | Buffer): string {
  if (typeof body !== 'string') return body.toString('latin1');
  return Buffer.byteLength(body) === body.length ? body : Buffer.from(body).toString('latin1');
}

let [second, date] = [-1, ''];

/** Made once a second. */
function dateAt(nowMs: number): string {
  const at = Math.floor(nowMs / 1_000);
  if (at !== second) [second, date] = [at, new Date(nowMs).toUTCString()];
  return date;
}

/** The connection that an answer is owed on: FastConnection of fast-connection.ts. */
interface Owing {
  /** The last headers of an answer that leaves the connection open. */
  readonly keepsAlive: string;
  /** Writes the answers whose turn it is. */
  flush(): void;
}

/** One answer in the order of its connection (fast-connection.ts), in place of a ServerResponse. */
export class FastAnswer {
  /** It was written to its last byte. */
  writableFinished = false;
  message: string | null = null;
  closes = false;
  readonly #connection: Owing;
  #whenWritten: (() => void) | null = null;
  #others: (() => void)[] | null = null;

  constructor(connection: Owing) {
    this.#connection = connection;
  }

  /** As in a ServerResponse; if the connection is gone before, nothing is called. */
  once(_event: 'finish' | 'close', done: () => void): void {
    if (this.#whenWritten === null) this.#whenWritten = done;
    else (this.#others ??= []).push(done);
  }

  send(reply: HttpReply, closes: boolean, nowMs: number, own: OwnHeader | null = null): void {
    const connection = this.#connection;
    this.closes = closes;
    const last = closes ? 'Connection: close\r\n' : connection.keepsAlive;
    this.message = messageOf(reply, last, nowMs, own);
    connection.flush();
  }

  written(): void {
    this.writableFinished = true;
    this.#whenWritten?.();
    for (const done of this.#others ?? []) done();
  }
}
