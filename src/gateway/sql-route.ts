/** POST /v1/sql: body → statement → session → JSON. Takes requests, gives results; each stage may refuse, and only then. */
import type { FastifyInstance } from 'fastify';
import { limits } from '../limits.ts';
import { Refused } from '../refusals.ts';
import { isSmall, smallBody, wholeBody } from './body.ts';
import type { Budget } from './budget.ts';
import { sendPieces } from './reply.ts';
import { sqlSchema } from './schemas.ts';
import { parseSqlRequest } from './sql-request.ts';
import type { SqlRequest } from './sql-request.ts';
import type { SqlSessions } from './sql-sessions.ts';
import type { IncomingMessage } from 'node:http';

export interface SqlRouteRooms {
  readonly sessions: SqlSessions;
  /** Of all bodies in memory. */
  readonly bodies: Budget;
  readonly database: (name: string | undefined) => string;
}

const bodyBounds = {
  bytesMax: limits.gatewaySqlBytesMax,
  pauseMs: limits.eventsPauseMs,
  wholeMs: limits.eventsUploadMs,
};

export function sqlRoute(app: FastifyInstance, { sessions, bodies, database }: SqlRouteRooms): void {
  app.post<{ Querystring: { database?: string } }>(
    '/v1/sql',
    { schema: sqlSchema },
    async (request, reply) => {
      const name = database(request.query.database);
      const statement = await readStatement(request.raw, bodies);
      const gone = new AbortController();
      const onClose = (): void => gone.abort();
      reply.raw.once('close', onClose);
      const result = await sessions.run(name, statement, gone.signal);
      reply.raw.off('close', onClose);
      if (reply.raw.destroyed) result.release();
      else reply.raw.once('close', () => result.release());
      request.told.rows = result.rows;
      return sendPieces(reply, result.body(), result.bytes);
    },
  );
}

async function readStatement(request: IncomingMessage, bodies: Budget): Promise<SqlRequest> {
  if (isSmall(request, limits.eventsLaneBytesMax)) {
    return parseSqlRequest(await smallBody(request, limits.eventsPauseMs));
  }
  let held = 0;
  const hold = (bytes: number): boolean => {
    if (!bodies.take(bytes)) return false;
    held += bytes;
    return true;
  };
  try {
    return parseSqlRequest(await wholeBody(request, bodyBounds, hold));
  } catch (error) {
    if (error instanceof Refused && error.refusal.code === 'body_too_large') {
      throw new Refused('body_too_large', `the SQL is larger than ${limits.gatewaySqlBytesMax} bytes`);
    }
    throw error;
  } finally {
    bodies.give(held);
  }
}
