/**
 * The sender's end of the connection: one POST at a time on connections that stay open. Takes signed requests, gives
 * the answer, or what kept it from coming. Touches the network; `close` lets every connection go.
 */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { limits } from '../tables/limits.ts';
import type { SignedRequest } from './senders.ts';

export interface Answer {
  readonly status: number;
  /** The first `sendAnswerBytesMax` bytes. */
  readonly body: string;
}

export class SendClient {
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;

  constructor() {
    const options = { keepAlive: true, maxSockets: limits.sendInFlightMax };
    this.#http = new HttpAgent(options);
    this.#https = new HttpsAgent(options);
  }

  /** Rejects when no answer comes: refused, cut off, too slow, aborted by the signal. Never follows a redirect. */
  async post(sent: SignedRequest, signal: AbortSignal): Promise<Answer> {
    const url = new URL(sent.url);
    const secure = url.protocol === 'https:';
    const options: RequestOptions = {
      method: sent.method,
      agent: secure ? this.#https : this.#http,
      headers: { ...wireHeaders(sent.headers), 'Content-Length': sent.body.length },
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
    return { status: response.statusCode ?? 0, body: await readBody(response) };
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

async function readBody(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (bytes < limits.sendAnswerBytesMax) chunks.push(chunk);
    bytes += chunk.length;
  }
  return Buffer.concat(chunks).subarray(0, limits.sendAnswerBytesMax).toString();
}
