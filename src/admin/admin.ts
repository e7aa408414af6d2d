/**
 * The admin port: is the process up, can it accept requests, what has it done. Takes a few functions to query, serves
 * `/healthz`, `/readyz` and `/metrics`; refuses every other path with 404, methods other than GET and HEAD with 405,
 * and malformed requests with 400 and 431. Changes nothing. Handlers that it is given are tried first.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { createHttpServer } from '../http/server.ts';
import { protocolRefusal, refusalForParserError } from '../http/protocol.ts';
import type { Closable } from '../kit/closer.ts';
import { listenAt } from '../kit/listen-at.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import { limits } from '../config/limits.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { Metrics } from './metrics.ts';
import type { SpoolDetail } from '../spool/spool-state.ts';

interface AdminOptions extends ListenAt {
  /** What `/healthz` reports in addition to its status, e.g. the version. */
  readonly health: () => Readonly<Record<string, string | number>>;
  /** null: requests can be accepted; otherwise the reason, in one line without credentials. */
  readonly ready: () => string | null;
  /** Webhooks accepted while the database is unreachable; null: nothing is kept here. */
  readonly spool?: () => SpoolDetail | null;
  /** The status of the certificate from an authority; null: no authority issues one. */
  readonly certificate?: () => object | null;
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>;
  /** The console; null: it is off. */
  readonly handler?: AdminHandler | null;
}

/** Answers the request, or returns false to leave it. Never throws. */
export type AdminHandler = (request: IncomingMessage, response: ServerResponse) => boolean;
/** What `/readyz` reports about the spool. */
export interface Admin extends Closable {
  readonly address: { readonly host: string; readonly port: number };
}

interface AdminAnswer {
  readonly status: number;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

export async function openAdmin(options: AdminOptions): Promise<Admin> {
  const server = createHttpServer({
    headersBytesMax: limits.headersBytesMax,
    headersTimeoutMs: limits.headersTimeoutMs,
    requestTimeoutMs: limits.adminRequestTimeoutMs,
    keepAliveTimeoutMs: limits.keepAliveTimeoutMs,
    connectionsMax: limits.adminConnectionsMax,
  });
  const routes = routesOf(options);
  const more = (options.handler ?? null) === null ? '' : ', and the console at /console/';
  server.on('request', (request, response) => {
    const wrong = protocolRefusal(request, limits);
    if (wrong !== null) write(request, response, { ...refusalAnswer(wrong), closes: true });
    else if (options.handler?.(request, response) !== true) void serve(routes, more, request, response);
  });
  server.on('clientError', (error, socket) => refuseBytes(error, socket as Socket));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(listenAt(options), resolve);
  });
  // A failed accept costs one client its connection, not the port.
  server.on('error', () => {});
  const { address, port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { address: { host: address, port }, close };
}

type Routes = ReadonlyMap<string, () => AdminAnswer | Promise<AdminAnswer>>;

function routesOf({ health, ready, spool, certificate, metrics }: AdminOptions): Routes {
  return new Map<string, () => AdminAnswer | Promise<AdminAnswer>>([
    ['/healthz', () => json(200, { status: 'ok', ...health() })],
    [
      '/readyz',
      () => {
        const reason = ready();
        const kept = spool?.() ?? null;
        const made = certificate?.() ?? null;
        const detail = {
          ...(kept === null ? {} : { spool: kept }),
          ...(made === null ? {} : { certificate: made }),
        };
        if (reason === null) return json(200, { status: 'ready', ...detail });
        // A load balancer must not turn away requests that Headgate would accept.
        if (kept?.takes === true) return json(200, { status: 'spooling', reason, ...detail });
        return { ...json(503, { status: 'not ready', reason, ...detail }), headers: { 'retry-after': '1' } };
      },
    ],
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, body: await metrics.text() })],
  ]);
}

/** `more`: what else the port serves, in words. Never rejects. */
async function serve(
  routes: Routes,
  more: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let answer: AdminAnswer;
  try {
    const [path = ''] = (request.url ?? '').split('?');
    const route = routes.get(path);
    if (route === undefined) {
      const error = `the admin port serves /healthz, /readyz and /metrics${more}`;
      answer = json(refusals.not_found.status, { error, code: 'not_found' });
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      const wrong = refusal('method_not_allowed', 'only GET and HEAD are allowed here');
      answer = { ...refusalAnswer(wrong), headers: { allow: 'GET, HEAD' } };
    } else {
      answer = await route();
    }
  } catch {
    // A scraper must not see the details of an internal error.
    answer = refusalAnswer(refusal('internal'));
  }
  write(request, response, { ...answer, closes: false });
}

function write(
  request: IncomingMessage,
  response: ServerResponse,
  { status, type = jsonType, headers = {}, body, closes }: AdminAnswer & { readonly closes: boolean },
): void {
  // A request body is not read here: the rest of it ends with the connection.
  const unread = !request.complete && hasBody(request);
  response.writeHead(status, {
    ...headers,
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    ...(closes || unread ? { connection: 'close' } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Answers bytes that are no valid request, or came too slowly. */
function refuseBytes(error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket): void {
  if (!socket.writable || socket.bytesWritten > 0) return void socket.destroy();
  const { status, body } = refusalAnswer(refusalForParserError(error));
  socket.end(
    `HTTP/1.1 ${status} ${status === 400 ? 'Bad Request' : 'Refused'}\r\ncontent-type: ${jsonType}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

const jsonType = 'application/json; charset=utf-8';

function json(status: number, value: Readonly<Record<string, string | number | object>>): AdminAnswer {
  return { status, body: JSON.stringify(value) };
}

function refusalAnswer({ code, message }: Refusal): AdminAnswer {
  return json(refusals[code].status, { error: message, code });
}
