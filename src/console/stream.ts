/**
 * GET /console/api/tail: outcomes as they come, as server-sent events. Takes a session and where outcomes come from;
 * writes until the reader leaves or the session ends. A reader that does not keep up is told less, and how much less.
 */
import type { ServerResponse } from 'node:http';
import { limits } from '../tables/limits.ts';
import type { TailSource } from '../tables/tail.ts';
import { noStore } from './headers.ts';
import type { Session } from './sessions.ts';
import type { SqlRunner } from './sql.ts';
import { tableKey, watchTail } from './tail.ts';
import type { Rights } from './tail.ts';

interface Rooms {
  readonly tail: TailSource;
  readonly clock: () => number;
}

/** What the role owns of webhook tables, and whether it is a superuser. */
const readRights = `
  SELECT n.nspname, c.relname FROM headgate.webhook_table w
  JOIN pg_catalog.pg_class c ON c.oid = w.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE headgate.owns_table(w.relation)
  LIMIT ${limits.consoleRowsMax}`;
const readSuper = 'SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user';

export function streamTail(
  response: ServerResponse,
  { who, held, ended }: Session<SqlRunner | null>,
  { tail, clock }: Rooms,
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
  const ask = async (sql: string) =>
    (await runner.run({ sql, write: false }, signal, true)).tables[0]?.rows ?? [];
  const [role] = await ask(readSuper);
  const owned = await ask(readRights);
  return {
    database,
    tables: new Set(owned.map(([schema, table]) => tableKey(schema ?? '', table ?? ''))),
    strays: role?.[0] === 't',
  };
}
