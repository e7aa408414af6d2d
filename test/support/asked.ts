/**
 * One request and its whole answer, by Node's own client: `fetch` takes three times as long for each, and a tenth of a second for
 * the first. It sends the same headers as `fetch`, as far as a Headgate reads them.
 */
import { Agent, request } from 'node:http';
import { abortAfter } from '../../src/kit/abort-signal.ts';

export interface Question {
  readonly method?: string;
  readonly body?: string | Uint8Array | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Closes idle connections before the server does. */
const agent = new Agent({ keepAlive: true, timeout: 4_000 });

/** Longer than any answer may take; without it, a test that gets no answer does not say where it waits. */
const answerMs = 120_000;

export function asked(url: string, question: Question = {}): Promise<Answer> {
  const { method = 'GET', body, headers = {}, signal } = question;
  const sent = new Headers({ accept: '*/*', 'user-agent': 'node' });
  if (typeof body === 'string') sent.set('content-type', 'text/plain;charset=UTF-8');
  if ((body ?? null) !== null || method === 'POST')
    sent.set('content-length', `${Buffer.byteLength(body ?? '')}`);
  for (const [name, value] of Object.entries(headers)) sent.set(name, value);
  return new Promise((resolve, reject) => {
    const until = signal === undefined ? AbortSignal.timeout(answerMs) : abortAfter(answerMs, signal);
    const options = { method, agent, headers: Object.fromEntries(sent), signal: until };
    const asking = request(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('error', reject);
      response.on('end', () => {
        const read = new Headers();
        for (let i = 0; i < response.rawHeaders.length; i += 2)
          read.append(response.rawHeaders[i] ?? '', response.rawHeaders[i + 1] ?? '');
        resolve({ status: response.statusCode ?? 0, headers: read, text });
      });
    });
    asking.on('error', reject);
    // A string would be sent together with the headers, all in UTF-8, which the headers are not.
    asking.end(typeof body === 'string' ? Buffer.from(body) : body);
  });
}
