/**
 * A plain request that came as a whole, and its answer: what stands for `IncomingMessage` and `ServerResponse` if the recogniser has read the request instead of
 * Node's parser. Takes the bytes of the request, and the reply; returns headers as they are asked for, and the message of the answer, which its
 * connection writes in its turn (fast-connection.ts). Touches nothing else.
 */
import { STATUS_CODES } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import { joinHeaders } from './headers.ts';
import { isNamed } from './plain-request-parser.ts';
import type { PlainRequestParser } from './plain-request-parser.ts';

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
