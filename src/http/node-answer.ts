/**
 * Answers that Node writes: to requests that its parser has read. Takes the response of the request, and what to write. Touches nothing but the
 * response.
 */
import type { ServerResponse } from 'node:http';

/** `headers`: names and values in turn; `closes`: the answer ends its connection. */
export function writeHead(
  response: ServerResponse,
  status: number,
  headers: readonly string[],
  closes: boolean,
): void {
  response.writeHead(status, closes ? [...headers, 'Connection', 'close'] : (headers as string[]));
}

/** The whole body, after the head; `method`: of the request. */
export function endWith(response: ServerResponse, body: string | Buffer, method: string): void {
  if (typeof body === 'string' && method !== 'HEAD' && endInOneWrite(response, body)) return;
  response.end(body);
}

/**
 * Node writes an answer with a body in pieces (writev), which costs some µs more than one string in one write. The head that
 * it has made is public in practice only (`_header` of lib/_http_outgoing.js, since 0.x): if it is missing, this does nothing
 * and returns false. The head is written one byte per character, so the body has to be ASCII.
 */
function endInOneWrite(response: ServerResponse, body: string): boolean {
  const message = response as ServerResponse & { _header?: unknown };
  if (typeof message._header !== 'string' || response.chunkedEncoding) return false;
  if (Buffer.byteLength(body) !== body.length) return false;
  message._header += body;
  response.end();
  return true;
}
