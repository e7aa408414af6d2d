/**
 * The sender's end of the connection: one request at a time on connections that stay open. Takes signed requests,
 * returns the answer, or rejects with what prevented it. Touches the network; `close` closes every connection.
 */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { limits } from '../config/limits.ts';
import type { HandshakeQuery } from './sender.ts';

export interface SentAnswer {
  readonly status: number;
  /** By names in lower case; several with the same name are joined. */
  readonly headers: Readonly<Record<string, string>>;
  /** The first `sendAnswerBytesMax` bytes. */
  readonly body: string;
  /** All bytes on the wire, head and body. */
  readonly bytes: number;
}

export class SendClient {
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;

  constructor() {
    const options = { keepAlive: true, maxSockets: limits.sendInFlightMax };
    this.#http = new HttpAgent(options);
    this.#https = new HttpsAgent(options);
  }

  /** Rejects if no answer arrives: refused, cut off, too slow, aborted by the signal. Never follows a redirect. */
  async send(sent: HandshakeQuery, signal: AbortSignal): Promise<SentAnswer> {
    const url = new URL(sent.url);
    const secure = url.protocol === 'https:';
    const length =
      sent.body.length > 0 || sent.method === 'POST' ? { 'Content-Length': sent.body.length } : {};
    const options: RequestOptions = {
      method: sent.method,
      agent: secure ? this.#https : this.#http,
      headers: { ...wireHeaders(sent.headers), ...length },
      timeout: limits.sendAnswerMs,
      signal,
    };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = (secure ? httpsRequest : httpRequest)(url, options, resolve);
      request.on('timeout', () =>
        request.destroy(new Error(`no answer within ${limits.sendAnswerMs / 1000} seconds`)),
      );
      request.on('error', reject);
      request.end(sent.body);
    });
    const { bytes, body } = await readBody(response);
    return {
      status: response.statusCode ?? 0,
      headers: Object.fromEntries(
        Object.entries(response.headersDistinct).map(([name, values]) => [name, (values ?? []).join(', ')]),
      ),
      body,
      bytes: headBytes(response) + bytes,
    };
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}

/** node:http writes header values as latin1: one character for each byte of the UTF-8. */
function wireHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Buffer.from(value).toString('latin1')]),
  );
}

/** The status line, each header line and the empty line. */
function headBytes({ httpVersion, statusCode, statusMessage, rawHeaders }: IncomingMessage): number {
  const line = `HTTP/${httpVersion} ${statusCode} ${statusMessage}\r\n`.length;
  // A name with its colon and blank, a value with its line end: two more bytes for each.
  return line + rawHeaders.reduce((sum, text) => sum + text.length + 2, 0) + 2;
}

async function readBody(response: IncomingMessage): Promise<{ body: string; bytes: number }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (bytes < limits.sendAnswerBytesMax) chunks.push(chunk);
    bytes += chunk.length;
  }
  return { body: Buffer.concat(chunks).subarray(0, limits.sendAnswerBytesMax).toString(), bytes };
}
