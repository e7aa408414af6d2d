/**
 * The admin port: is the process there, can it take requests, what has it done. Takes a few questions it may ask,
 * gives `/healthz`, `/readyz` and `/metrics`; refuses every other path with 404. Changes nothing.
 */
import type { AddressInfo } from 'node:net';
import { fastify } from 'fastify';
import type { Closable } from '../kit/closer.ts';
import { refusal, refusals } from '../tables/refusals.ts';
import type { Metrics } from './metrics.ts';

export interface AdminOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** What `/healthz` tells besides that the process answers, e.g. its version. */
  readonly health: () => Readonly<Record<string, string | number>>;
  /** null: requests can be taken; otherwise why not, in one line without credentials. */
  readonly ready: () => string | null;
  /** Webhooks that are taken while the database is away; null: nothing is kept here. */
  readonly spool?: () => SpoolDetail | null;
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>;
}

/** What `/readyz` tells of the spool. */
export interface SpoolDetail {
  /** Requests of tables that spool are taken, whatever the database does. */
  readonly takes: boolean;
  readonly bytes: number;
  readonly tables: number;
  readonly held: number;
}

export interface Admin extends Closable {
  readonly address: { readonly host: string; readonly port: number };
}

export async function openAdmin(options: AdminOptions): Promise<Admin> {
  const app = fastify({
    logger: false,
    forceCloseConnections: true,
    bodyLimit: 1_024,
    requestTimeout: 10_000,
  });
  app.get('/healthz', () => ({ status: 'ok', ...options.health() }));
  app.get('/readyz', (_request, reply) => {
    const reason = options.ready();
    const spool = options.spool?.() ?? null;
    const detail = spool === null ? {} : { spool };
    if (reason === null) return reply.send({ status: 'ready', ...detail });
    // Who stands in front of Headgate must not turn away what it is there to take.
    if (spool?.takes === true) return reply.send({ status: 'spooling', reason, ...detail });
    return reply.code(503).header('retry-after', '1').send({ status: 'not ready', reason });
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(options.metrics.contentType).send(await options.metrics.text()),
  );
  app.setNotFoundHandler((_request, reply) =>
    reply
      .code(404)
      .send({ error: 'the admin port serves /healthz, /readyz and /metrics', code: 'not_found' }),
  );
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
    const isRequests = error.statusCode !== undefined && error.statusCode < 500;
    const { code, message } = refusal(isRequests ? 'malformed_request' : 'internal');
    return reply
      .code(isRequests ? (error.statusCode ?? 400) : refusals.internal.status)
      .send({ error: message, code });
  });
  await app.listen({ host: options.host, port: options.port });
  const { address, port } = app.server.address() as AddressInfo;
  return { address: { host: address, port }, close: () => app.close() };
}
