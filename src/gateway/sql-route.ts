/** POST /v1/sql: body → statement → session → JSON. Takes requests, gives results; each stage may refuse, and only then. */
import type { FastifyInstance } from 'fastify';
import { giveBack } from '../kit/give-back.ts';
import { limits } from '../tables/limits.ts';
import { Refused } from '../tables/refusals.ts';
import { isSmall, smallBody, wholeBody } from './body.ts';
import type { Budget } from './budget.ts';
import { readQuery, sqlParameters } from './query.ts';
import { sendPieces } from './reply.ts';
import { parseSqlRequest } from './sql-request.ts';
import type { SqlRequest } from './sql-request.ts';
import type { SqlResult } from './sql-result.ts';
import type { SqlSessions } from './sql-sessions.ts';
import type { IncomingMessage } from 'node:http';

export interface SqlRouteRooms {
  readonly sessions: SqlSessions;
  /** Of all bodies in memory. */
  readonly bodies: Budget;
  readonly database: (name: string | undefined) => string;
  /** How long the reader of a result may read nothing of it, in ms. */
  readonly readPauseMs: number;
}

const bodyBounds = {
  bytesMax: limits.gatewaySqlBytesMax,
  pauseMs: limits.eventsPauseMs,
  wholeMs: limits.eventsUploadMs,
};

export function sqlRoute(
  app: FastifyInstance,
  { sessions, bodies, database, readPauseMs }: SqlRouteRooms,
): void {
  app.post('/v1/sql', async (request, reply) => {
    const name = database(readQuery(request.url, sqlParameters).database);
    const held = new Held(bodies);
    const gone = new AbortController();
    const onClose = (): void => gone.abort();
    const run = async (): Promise<SqlResult> => {
      let statement: SqlRequest | null = null;
      try {
        statement = await readStatement(request.raw, held);
        if (reply.raw.destroyed) gone.abort();
        reply.raw.once('close', onClose);
        return await sessions.run(name, statement, gone.signal);
      } finally {
        // A statement that waits for its turn is held as well; what is written to the engine is a copy.
        held.release();
        if (statement !== null) giveBack(statement.sql);
        reply.raw.off('close', onClose);
      }
    };
    const result = await run();
    if (reply.raw.destroyed) result.release();
    else reply.raw.once('close', () => result.release());
    request.told.rows = result.rows;
    return sendPieces(reply, result.body(), { bytes: result.bytes, readPauseMs });
  });
}

/** What one statement takes of the memory for bodies. */
class Held {
  readonly #bodies: Budget;
  #bytes = 0;

  constructor(bodies: Budget) {
    this.#bodies = bodies;
  }

  /** As it came, and again as it is written to the engine. */
  take(statementBytes: number): boolean {
    const bytes = 2 * statementBytes;
    if (!this.#bodies.take(bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  release(): void {
    this.#bodies.give(this.#bytes);
    this.#bytes = 0;
  }
}

async function readStatement(request: IncomingMessage, held: Held): Promise<SqlRequest> {
  if (isSmall(request, limits.eventsLaneBytesMax)) {
    if (!held.take(Number(request.headers['content-length']))) throw new Refused('overloaded');
    return parseSqlRequest(await smallBody(request, limits.eventsPauseMs));
  }
  try {
    return parseSqlRequest(await wholeBody(request, bodyBounds, (bytes) => held.take(bytes)));
  } catch (error) {
    if (error instanceof Refused && error.refusal.code === 'body_too_large') {
      throw new Refused('body_too_large', `the SQL is larger than ${limits.gatewaySqlBytesMax} bytes`);
    }
    throw error;
  }
}
