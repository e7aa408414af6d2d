/**
 * One request of the client, sent until it is answered. Takes a path and a body, returns the parsed answer; throws
 * HeadgateError for refusals of the gateway. Retries what the gateway says can succeed later (503, 429), after the
 * pause it asks for, within bounds; what may already have taken effect is retried only if that does no harm.
 */
import { fromJson } from './json.ts';

export interface RequestOptions {
  readonly url: string;
  readonly token: string | undefined;
  readonly fetch: typeof fetch;
  /** How often one request is retried. */
  readonly retries: number;
  /** How long one request is tried in total, in ms. */
  readonly retryMs: number;
}

export interface Sending {
  readonly path: string;
  readonly contentType: string;
  readonly body: string;
  readonly gzip: boolean;
  /** Whether it may safely take effect twice. */
  readonly repeatable: boolean;
  readonly signal: AbortSignal | undefined;
}

export interface HeadgateErrorFields {
  /** HTTP status; 0: no answer. */
  readonly status: number;
  /** A code of docs/errors.md, or the SQLSTATE of an SQL error. */
  readonly code: string;
  /** The line of the body, from 1. */
  readonly line?: number | undefined;
  /** The position in the SQL, in characters from 1. */
  readonly position?: number | undefined;
  readonly detail?: string | undefined;
  readonly hint?: string | undefined;
  /** Identifies the request in the gateway's log. */
  readonly requestId?: string | undefined;
}

/** The gateway refused, or could not be reached. */
export class HeadgateError extends Error {
  readonly status: number;
  readonly code: string;
  readonly line: number | undefined;
  readonly position: number | undefined;
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  readonly requestId: string | undefined;

  constructor(message: string, fields: HeadgateErrorFields, options?: { readonly cause: unknown }) {
    super(message, options);
    this.name = 'HeadgateError';
    this.status = fields.status;
    this.code = fields.code;
    this.line = fields.line;
    this.position = fields.position;
    this.detail = fields.detail;
    this.hint = fields.hint;
    this.requestId = fields.requestId;
  }

  /** Nothing is wrong with the request: the same request can succeed later. */
  get retryable(): boolean {
    return this.status === 503 || this.status === 429 || this.status === 0;
  }
}

/** After these codes, and without any answer, the rows may have been stored. */
const uncertain = new Set(['commit_unknown', 'deadline', 'no_answer', 'results_full']);
const firstPauseMs = 200;
const longestPauseMs = 10_000;

export async function send(options: RequestOptions, sending: Sending): Promise<unknown> {
  const headers = new Headers({ 'content-type': sending.contentType });
  if (options.token !== undefined) headers.set('authorization', `Bearer ${options.token}`);
  let body: string | ArrayBuffer = sending.body;
  if (sending.gzip) {
    headers.set('content-encoding', 'gzip');
    body = await gzipped(sending.body);
  }
  const startedAt = Date.now();
  for (let attempt = 1; ; attempt++) {
    const { answer, error, afterMs } = await sendOnce(options, sending, headers, body);
    if (error === null) return answer;
    const again = error.retryable && (sending.repeatable || !uncertain.has(error.code));
    if (!again || attempt > options.retries) throw error;
    const pause = Math.max(afterMs, backoffMs(attempt));
    if (Date.now() - startedAt + pause > options.retryMs) throw error;
    await sleep(pause, sending.signal);
  }
}

/** Before attempt number `attempt` + 1. Half of it is random, so that many clients do not return together. */
export function backoffMs(attempt: number): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
}

interface Ended {
  readonly answer: unknown;
  readonly error: HeadgateError | null;
  /** The pause of Retry-After, in ms. */
  readonly afterMs: number;
}

async function sendOnce(
  { url, fetch }: RequestOptions,
  { path, signal }: Sending,
  headers: Headers,
  body: string | ArrayBuffer,
): Promise<Ended> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers,
      body,
      ...(signal === undefined ? {} : { signal }),
    });
    text = await response.text();
  } catch (cause) {
    signal?.throwIfAborted();
    const error = new HeadgateError(
      `the gateway at ${url} cannot be reached`,
      { status: 0, code: 'no_answer' },
      { cause },
    );
    return { answer: null, error, afterMs: 0 };
  }
  if (response.ok) return { answer: fromJson(text), error: null, afterMs: 0 };
  return { answer: null, error: errorOf(response, text), afterMs: pauseOf(response) };
}

/** The pause of Retry-After, in ms. */
export function pauseOf(response: Response): number {
  const seconds = Number(response.headers.get('retry-after') ?? '0');
  return Number.isFinite(seconds) ? seconds * 1_000 : 0;
}

/** A proxy in between may answer in its own format. */
export function errorOf(response: Response, text: string): HeadgateError {
  let said: Partial<Record<string, unknown>> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) said = parsed;
  } catch {
    // Not JSON: the status must suffice.
  }
  const asText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
  const asNumber = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
  return new HeadgateError(asText(said['error']) ?? `HTTP ${response.status}`, {
    status: response.status,
    code: asText(said['code']) ?? 'unknown',
    line: asNumber(said['line']),
    position: asNumber(said['position']),
    detail: asText(said['detail']),
    hint: asText(said['hint']),
    requestId: response.headers.get('x-request-id') ?? undefined,
  });
}

export const canGzip = (): boolean => typeof CompressionStream !== 'undefined';

function gzipped(text: string): Promise<ArrayBuffer> {
  return new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer();
}

export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason instanceof Error ? signal.reason : new Error('aborted'));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
