/**
 * The events gateway: POST and GET /v1/events and POST /v1/sql for applications, next to the webhook listener or as a separate
 * program. Takes HTTP requests, returns committed rows and results of SQL; refuses with everything that has an HTTP status in
 * refusals.ts, and with the engine's own errors and their SQLSTATE. Touches nothing itself: databases, lanes and the commit are
 * rooms that it is given. guard.ts keeps out web pages of strangers.
 */
import { randomUUID } from 'node:crypto';
import { HttpServer } from '../http/http-server.ts';
import type { Closable } from '../kit/closer.ts';
import { limits as allLimits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import { GatewayHttp } from './http.ts';
import type { GatewayOptions } from './gateway-options.ts';
import { eventsPath } from './routes.ts';
import { ResultMemory } from './sql-result.ts';
import { SqlSessions } from './sql-sessions.ts';
import { EventStreams } from './streams.ts';

export interface Gateway extends Closable {
  readonly address: { readonly host: string; readonly port: number };
  /** What is in flight at this moment. */
  readonly load: { readonly connections: number; readonly requests: number; readonly bytesInFlight: number };
  /** Releases a database, so that it can be dropped or renamed. */
  release(database: string): Promise<void>;
  /** Accepts nothing new, and resolves once everything accepted is answered. */
  drain(): Promise<void>;
  /** Ends at once: requests that still wait get no answer. */
  close(): Promise<void>;
}

/** Rejects if it cannot listen on the port. */
export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  const { tls, gate, observe, limits = allLimits, databases } = options;
  const memory = new ResultMemory();
  const sessions = new SqlSessions(databases.sql, memory);
  // Separate from the sessions of SQL, which clients may hold for as long as a statement runs.
  const streams = new EventStreams(new SqlSessions(databases.sql, memory), memory.all);
  const http = new GatewayHttp({ ...options, limits, sessions, streams });
  const server = new HttpServer(
    {
      fastPrefixes: options.fastPath === false ? null : [eventsPath],
      tls,
      gate,
      limits,
      connectionsMax: limits.gatewayConnectionsMax,
      requestTimeoutMs: limits.eventsUploadMs,
      // In either direction; the limit on the whole request is shorter.
      silenceMs: limits.eventsPauseMs * 2,
      inFlightBytesMax: limits.gatewayBodiesBytesMax,
      // A client that leaves while its SQL runs is not waited for.
      answersHalfClosed: false,
      impatient: refusal('overloaded', 'too many requests are waiting on this connection'),
      now: Date.now,
      failed: (error) => observe({ kind: 'request.failed', requestId: randomUUID(), error }),
    },
    http,
  );
  const address = await server.listen(options);
  const drain = (): Promise<void> => {
    streams.drain();
    return server.connections.close(null);
  };
  return {
    address,
    get load() {
      return { ...server.load, requests: server.context.owed };
    },
    release: async (database) => {
      await Promise.all([sessions.release(database), streams.release(database)]);
      await databases.events.release(database);
    },
    drain,
    close: async () => {
      const drained = drain();
      server.connections.cutOff();
      await drained;
      await Promise.all([sessions.close(), streams.close()]);
    },
  };
}
