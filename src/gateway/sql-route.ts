/**
 * POST /v1/sql: body → statement → session → JSON. Takes requests, returns results; each stage may refuse, but only before
 * the answer starts.
 */
import { freeBuffer } from '../kit/free-buffer.ts';
import { limits } from '../config/limits.ts';
import type { GatewayExchange } from './exchange.ts';
import { readQuery, sqlParameters } from './query.ts';
import { parseSqlRequest } from './sql-request.ts';
import type { SqlRequest } from './sql-request.ts';
import type { SqlSessions } from './sql-sessions.ts';

const bytesMax = limits.gatewaySqlBytesMax;
const bounds = { bytesMax, tooLarge: `the SQL is larger than ${bytesMax} bytes` };

/** `readPauseMs`: how long its reader may pause. Rejects with Refused. */
export async function answerSql(
  exchange: GatewayExchange,
  sessions: SqlSessions,
  database: (name: string | undefined) => string,
  readPauseMs: number,
): Promise<void> {
  const name = database(readQuery(exchange.target, sqlParameters).database);
  exchange.place = { database: name };
  const gone = new AbortController();
  let statement: SqlRequest | null = null;
  let stay = (): void => {};
  try {
    const body = await exchange.body(bounds);
    // As it arrived, and again as it is written to the engine.
    exchange.hold(body.length);
    statement = parseSqlRequest(body);
    stay = exchange.onEnded(() => gone.abort());
    exchange.answerResult(await sessions.run(name, statement, gone.signal), readPauseMs);
  } finally {
    stay();
    if (statement !== null) freeBuffer(statement.sql);
  }
}
