/**
 * Answers as HTTP messages. Takes the reply of a door; makes one string of it, which the connection of a plain request writes in its turn
 * (fast-connection.ts). Node writes the answers to other requests (node-answer.ts). Touches nothing else.
 */
import { STATUS_CODES } from 'node:http';

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
