/** Answers as they are written. Types, and the whole message of one for a connection that has no request; touches nothing. */
import { STATUS_CODES } from 'node:http';

export interface Reply {
  readonly status: number;
  /** Names and values in turn, as `ServerResponse.writeHead` takes them. */
  readonly headers: readonly string[];
  readonly body: string | Buffer;
}

/** A whole HTTP message for a socket that has no request to answer, and that is closed after it. */
export function rawMessage(it: Reply, nowMs: number): string {
  const headers = [...it.headers, 'Connection', 'close', 'Date', new Date(nowMs).toUTCString()];
  let head = `HTTP/1.1 ${it.status} ${STATUS_CODES[it.status] ?? ''}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${head}\r\n${String(it.body)}`;
}
