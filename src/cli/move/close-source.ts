/**
 * Closes a database for writing, permanently and for everybody: its default becomes read-only, and every older session is ended. From
 * then on Headgate answers 503 with Retry-After for its tables, and reading still works. Takes a connection, which stays open; throws
 * MoveError if a session cannot be ended; the database is then open again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { quoteIdentifier } from '../../kit/sql-text.ts';
import { limits } from '../../config/limits.ts';
import { MoveError } from './statements.ts';

/** What would go on writing or could not be ended; checked before anything is moved. */
export async function whyNotClosed(source: Client): Promise<string[]> {
  const { rows } = await source.query<{ why: string }>(`
    SELECT 'this role does not own the database, and cannot close it for writing' AS why FROM pg_database d
    WHERE d.datname = current_database() AND NOT pg_has_role(d.datdba, 'USAGE')
    UNION ALL
    SELECT format('the prepared transaction %L is open', p.gid) FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL
    SELECT format('role %I has a default_transaction_read_only of its own', r.rolname)
    FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) c
    WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
      AND c LIKE 'default_transaction_read_only=%'`);
  return rows.map(({ why }) => why);
}

export async function closeSource(source: Client): Promise<void> {
  await setReadOnly(source, true);
  try {
    await endOthers(source);
  } catch (error) {
    await reopenSource(source);
    throw error;
  }
}

function reopenSource(source: Client): Promise<void> {
  return setReadOnly(source, false);
}

async function setReadOnly(source: Client, on: boolean): Promise<void> {
  const { rows } = await source.query<{ name: string }>('SELECT current_database() AS name');
  const database = quoteIdentifier(rows[0]?.name ?? '');
  await source.query('SET default_transaction_read_only = off');
  const what = on ? 'SET default_transaction_read_only = on' : 'RESET default_transaction_read_only';
  await source.query(`ALTER DATABASE ${database} ${what}`);
}

/**
 * Sessions that started before the default changed may still write: only once all of them have ended is it certain that nobody does.
 */
async function endOthers(source: Client): Promise<void> {
  const { rows } = await source.query<{ at: string }>('SELECT clock_timestamp()::text AS at');
  const at = rows[0]?.at ?? '';
  const deadline = performance.now() + limits.moveCloseMs;
  for (;;) {
    const { rows: others } = await source.query<{ pid: number; name: string; ended: boolean }>(
      `SELECT a.pid, coalesce(nullif(a.application_name, ''), a.usename, '?') AS name, pg_terminate_backend(a.pid) AS ended
       FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
         AND a.backend_start <= $1::timestamptz AND a.backend_type IN ('client backend', 'parallel worker')`,
      [at],
    );
    if (others.length === 0) return;
    if (performance.now() > deadline) {
      const names = others.map(({ pid, name }) => `${name} (${pid})`).join(', ');
      throw new MoveError(`these sessions of the source do not end: ${names}`);
    }
    await delay(limits.moveLookMs);
  }
}
