/**
 * Answers that Node writes: to requests that its parser has read. Takes the response of the request, and what to write; a body in one piece, at the speed
 * of its reader, or one without an end of its own. Touches nothing but the response.
 */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';

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

/** A body that is sent as fast as its reader reads. */
export function pipeBody(response: ServerResponse, pieces: Iterable<Buffer>): void {
  const source = Readable.from(pieces);
  // The end of the connection tells a partial answer from a whole one.
  source.on('error', () => response.destroy());
  source.pipe(response);
}

/**
 * For a body that has no end of its own: the returned function writes a piece, or the end (null), and resolves when there is
 * room for another one; with false if nobody reads it any more, or its reader has read nothing for `pauseMs`.
 */
export function bodyWriter(
  response: ServerResponse,
  pauseMs: number,
  isOver: () => boolean,
): (piece: Buffer | null) => Promise<boolean> {
  return async (piece) => {
    if (response.destroyed || isOver()) return false;
    if (piece === null) response.end();
    else if (!response.write(piece)) {
      const timer = setTimeout(() => response.destroy(), pauseMs);
      await new Promise<void>((resolve) => {
        const settle = (): void => {
          clearTimeout(timer);
          response.off('drain', settle).off('close', settle);
          resolve();
        };
        response.on('drain', settle).on('close', settle);
      });
    }
    return !response.destroyed;
  };
}
