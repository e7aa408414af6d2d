/**
 * The databases that a command looks at: the one that was named, or every one of its server that Headgate serves. Takes where to connect and what to do in
 * each, over one connection after the other; returns what that gave, or why a database could not be looked at. Throws PlainError if the first cannot be.
 */
import { limits } from '../config/limits.ts';
import { PlainError } from '../kit/plain-error.ts';
import { inDatabase } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';
import { within } from './session.ts';
import type { CommandSession } from './session.ts';

export interface LookedAt<T> {
  readonly database: string;
  /** null: Headgate does not serve it, or it could not be looked at. */
  readonly found: T | null;
  /** Why it could not be looked at. */
  readonly problem: string | null;
}

/** Whether Headgate has a catalog there, and which other databases there are; too many of them are passed over. */
const others = `SELECT d.datname::text AS name FROM pg_catalog.pg_database d
WHERE d.datallowconn AND NOT d.datistemplate AND d.datname <> current_database() AND has_database_privilege(d.oid, 'CONNECT')
ORDER BY d.datname LIMIT ${limits.databasesMax}`;

/** `which`: `one`: that of the connection string; `all`: the others as well. Of these only those in which there is a catalog. */
export async function inDatabases<T>(
  where: Where,
  command: string,
  which: 'one' | 'all',
  work: (session: CommandSession, database: string) => Promise<T>,
): Promise<readonly LookedAt<T>[]> {
  const looked: LookedAt<T>[] = [];
  const names = await within(where.dsn, command, async (session) => {
    const [here] = await session.rows('SELECT current_database()::text AS name');
    const database = here?.['name'] ?? '';
    looked.push({ database, found: await work(session, database), problem: null });
    return which === 'one' ? [] : (await session.rows(others)).map(({ name }) => name ?? '');
  });
  for (const database of names)
    try {
      const found = await within(inDatabase(where, database).dsn, command, async (session) => {
        const [catalog] = await session.rows(`SELECT to_regclass('headgate.webhook_table')::text AS is`);
        return (catalog?.['is'] ?? null) === null ? null : work(session, database);
      });
      if (found !== null) looked.push({ database, found, problem: null });
    } catch (error) {
      if (!(error instanceof PlainError)) throw error;
      looked.push({ database, found: null, problem: error.message });
    }
  return looked;
}
