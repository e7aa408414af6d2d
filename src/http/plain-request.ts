/** A plain request, once all of it has arrived: headers are read from its bytes as they are asked for. Touches nothing. */
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
