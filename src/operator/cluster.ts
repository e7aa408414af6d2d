/**
 * The Kubernetes API server, as far as the operator needs it: one request, one watch. Its address and the
 * authentication come from `@kubernetes/client-node` (kubeconfig, service account, exec plugins, renewed tokens); the
 * requests are made here, because each must have a deadline, a bound and an end that is awaited. Refuses with
 * ClusterError.
 */
import { request as requestHttp } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { RequestOptions } from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { limits as defaultLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { JsonObject } from './resource.ts';

export interface ClusterRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly contentType?: string;
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: JsonObject;
}

export interface Cluster {
  /** Resolves with the answer's document; rejects with ClusterError if the status is not 2xx. */
  request(request: ClusterRequest, signal: AbortSignal): Promise<JsonObject>;
  /** Ends when the server ends it, after `limits.operatorWatchSeconds` at the latest. */
  watch(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent>;
}

/** The API server refused, or did not answer: then `status` is 0. */
export class ClusterError extends Error {
  override readonly name = 'ClusterError';
  readonly status: number;
  /** Kubernetes' own word: NotFound, Conflict, Expired … */
  readonly reason: string;

  constructor(status: number, reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.reason = reason;
  }
}

export const isStatus = (error: unknown, ...statuses: readonly number[]): boolean =>
  error instanceof ClusterError && statuses.includes(error.status);

export function openCluster(config: KubeConfig, limits: Limits = defaultLimits): Cluster {
  const server = config.getCurrentCluster()?.server;
  if (server === undefined) throw new ClusterError(0, 'NoCluster', 'no Kubernetes cluster is configured');
  return {
    async request(request, signal) {
      const deadline = new Deadline(limits.operatorRequestMs, signal);
      try {
        const response = await send(config, server, request, deadline, limits);
        const text = await readText(response, limits);
        const status = response.statusCode ?? 0;
        if (status >= 200 && status < 300) return parse(text);
        throw refused(status, text);
      } finally {
        deadline.end();
      }
    },
    async *watch(path, query, signal) {
      const seconds = limits.operatorWatchSeconds;
      const deadline = new Deadline(seconds * 1_000 + limits.operatorRequestMs, signal);
      const asked = { watch: 'true', allowWatchBookmarks: 'true', timeoutSeconds: String(seconds), ...query };
      try {
        const asking = { method: 'GET', path, query: asked } as const;
        const response = await send(config, server, asking, deadline, limits);
        const status = response.statusCode ?? 0;
        if (status !== 200) throw refused(status, await readText(response, limits));
        for await (const line of lines(response, limits)) yield parse(line) as unknown as WatchEvent;
      } finally {
        deadline.end();
      }
    },
  };
}

/** Aborts after a time or with its parent; once ended, it leaves no timer, listener or connection behind. */
class Deadline {
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #abort = () => this.#controller.abort();

  constructor(ms: number, parent: AbortSignal) {
    this.#parent = parent;
    this.#timer = setTimeout(this.#abort, ms);
    parent.addEventListener('abort', this.#abort, { once: true });
    if (parent.aborted) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#parent.removeEventListener('abort', this.#abort);
    // An answered request has nothing left to abort; if the reader left early, this closes its connection.
    this.#abort();
  }
}

async function send(
  config: KubeConfig,
  server: string,
  { method, path, query, body, contentType }: ClusterRequest,
  deadline: Deadline,
  limits: Limits,
): Promise<IncomingMessage> {
  const url = new URL(server.replace(/\/$/, '') + path);
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value);
  const options: RequestOptions = { method, headers: { accept: 'application/json' } };
  await config.applyToHTTPSOptions(options);
  const text = body === undefined ? null : JSON.stringify(body);
  const headers: Record<string, string | number> = { ...(options.headers as Record<string, string>) };
  if (text !== null) {
    headers['content-type'] = contentType ?? 'application/json';
    headers['content-length'] = Buffer.byteLength(text);
  }
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'http:' ? requestHttp : requestHttps;
    const sent = request(url, { ...options, headers, signal: deadline.signal }, resolve);
    sent.on('socket', (socket) => socket.setKeepAlive(true, limits.operatorKeepAliveMs));
    sent.on('error', (cause) => reject(unreachable(cause)));
    sent.end(text ?? undefined);
  });
}

function unreachable(cause: unknown): ClusterError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ClusterError(0, 'Unreachable', `the API server does not answer: ${why}`, { cause });
}

async function readText(response: IncomingMessage, limits: Limits): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > limits.operatorAnswerBytesMax) throw new Error('its answer is too large');
      chunks.push(chunk);
    }
  } catch (cause) {
    throw unreachable(cause);
  }
  return Buffer.concat(chunks).toString('utf8');
}

async function* lines(response: IncomingMessage, limits: Limits): AsyncGenerator<string> {
  let rest = '';
  response.setEncoding('utf8');
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      rest += chunk;
      if (rest.length > limits.operatorAnswerBytesMax) throw new Error('its answer is too large');
      const whole = rest.split('\n');
      rest = whole.pop() ?? '';
      for (const line of whole) if (line !== '') yield line;
    }
  } catch (cause) {
    throw unreachable(cause);
  }
}

function parse(text: string): JsonObject {
  try {
    return JSON.parse(text) as JsonObject;
  } catch (cause) {
    throw new ClusterError(0, 'Unreadable', 'the API server answered something that is not JSON', { cause });
  }
}

/** A refusal is a Status document; a proxy in front of the API server may answer with anything else. */
function refused(status: number, text: string): ClusterError {
  let told: { reason?: unknown; message?: unknown } = {};
  try {
    told = (JSON.parse(text) ?? {}) as typeof told;
  } catch {
    // Not a Status document: only the number is known.
  }
  const reason = typeof told.reason === 'string' ? told.reason : `Status${status}`;
  const message = typeof told.message === 'string' ? told.message : `the API server answered ${status}`;
  return new ClusterError(status, reason, message);
}
