/**
 * GET /console/api/tail: outcomes as server-sent events, as they occur. Takes a session and a source of outcomes;
 * writes until the reader leaves or the session ends. A reader that cannot keep up gets fewer, and the number of those
 * skipped.
 */
import type { ServerResponse } from 'node:http';
import { limits } from '../config/limits.ts';
import type { TailSource } from '../observe/tail.ts';
import { noStore } from './headers.ts';
import type { Session } from './sessions.ts';
import type { SqlRunner } from './sql.ts';
import { tableKey, watchTail } from './tail.ts';
import type { Rights } from './tail.ts';

interface Deps {
  readonly tail: TailSource;
  readonly clock: () => number;
}

/** Whether the role is a superuser, and which webhook tables it owns. */
const readRights = `
  SELECT r.rolsuper, o.nspname, o.relname, o.oid FROM pg_catalog.pg_roles r LEFT JOIN (
    SELECT n.nspname, c.relname, c.oid FROM headgate.webhook_table w
    JOIN pg_catalog.pg_class c ON c.oid = w.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE headgate.owns_table(w.relation)
  ) o ON true
  WHERE r.rolname = current_user
  LIMIT ${limits.consoleRowsMax}`;

export function streamTail(
  response: ServerResponse,
  { who, held, ended }: Session<SqlRunner | null>,
  { tail, clock }: Deps,
): void {
  response.writeHead(200, { ...noStore, 'content-type': 'text/event-stream; charset=utf-8' });
  response.write(': hello\n\n');
  const beat = setInterval(() => {
    if (response.writableLength < limits.tailWaitingBytesMax) response.write(': \n\n');
  }, limits.tailBeatMs);
  const end = watchTail(tail, {
    clock,
    rights: async () =>
      who.kind === 'owner' || held === null ? 'all' : rightsOf(held, who.database, ended.signal),
    write: (event) => {
      if (response.writableLength > limits.tailWaitingBytesMax) return false;
      response.write(`data: ${JSON.stringify(event)}\n\n`);
      return true;
    },
  });
  const over = (): void => void response.end();
  ended.signal.addEventListener('abort', over, { once: true });
  response.once('close', () => {
    clearInterval(beat);
    ended.signal.removeEventListener('abort', over);
    end();
  });
}

async function rightsOf(runner: SqlRunner, database: string, signal: AbortSignal): Promise<Rights> {
  const { tables } = await runner.run({ sql: readRights, write: false, own: true }, signal);
  const rows = tables[0]?.rows ?? [];
  const owned = rows.filter(([, schema]) => schema !== null);
  return {
    database,
    tables: new Map(
      owned.map(([, schema, table, oid]) => [tableKey(schema ?? '', table ?? ''), Number(oid)]),
    ),
    strays: rows[0]?.[0] === 't',
  };
}
