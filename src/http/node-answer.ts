/** How answers are written where Node's parser has read the request. */
import type { ServerResponse } from 'node:http';

export function writeHead(
  response: ServerResponse,
  status: number,
  headers: readonly string[],
  closes: boolean,
): void {
  response.writeHead(status, closes ? [...headers, 'Connection', 'close'] : (headers as string[]));
}

/**
 * Node writes an answer with a body in pieces (writev), which costs some µs more than one string in one write. What it
 * has made of the head is public in fact only (`_header` of lib/_http_outgoing.js, since 0.x): false where it is not there,
 * and nothing is done. The head is written one byte a character, so the body has to be ASCII.
 */
export function endInOneWrite(response: ServerResponse, body: string): boolean {
  const message = response as ServerResponse & { _header?: unknown };
  if (typeof message._header !== 'string' || response.chunkedEncoding) return false;
  if (Buffer.byteLength(body) !== body.length) return false;
  message._header += body;
  response.end();
  return true;
}
