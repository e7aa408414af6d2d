/**
 * The session of a connection that commits, before rows are stored in it: the settings that a durable row needs, what the server gives it, the
 * incarnation of the server that it belongs to, and what removes what code has left in it. Takes an open connection, asks the engine, and
 * writes what it has learnt into the connection's state. Throws BorrowedSession if a pooler lends the session to others.
 */
import type { ClientBase } from 'pg';
import { quoteLiteral } from '../kit/sql-text.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { connectionOf } from './commit-connection.ts';
import type { SessionFacts } from './commit-connection.ts';
import { forCitus, safePath } from './transaction-statements.ts';

/** A pooler lends this session to others, too. */
export class BorrowedSession extends Error {
  override readonly name = 'BorrowedSession';
}

/** Citus accepts no COPY with a WHERE into tables that it distributes. */
const foundSql = `select current_user as role, pg_catalog.current_setting('synchronous_commit') as commit,
  pg_catalog.texteq(pg_catalog.current_setting('wal_level'), 'logical') and pg_catalog.to_regclass('pg_catalog.pg_dist_partition') is null as apart`;

/**
 * A 200 promises a durable row: on a server configured for less, Headgate still waits for the server's own disk. And what ends a
 * transaction must see a table that was changed while its first statement waited for a lock: a server whose default
 * is one view of the data per transaction is asked for one per statement. Warnings are received: one of them says that
 * a commit is not as durable as it should be.
 *
 * In Headgate's SQL no object that others have made may take precedence over PostgreSQL's own, not even by what an owner of the
 * database has set for everybody: no operator and no cast is used before the path is set.
 *
 * Throws BorrowedSession, and has set nothing, if a pooler that took the start-up parameters is in between: the process that
 * answers is not the one that the connection was told of (BackendKeyData); also if `isOther` says that it is pgpool, which
 * resets what was set when the connection ends.
 */
export async function prepareSession(client: ClientBase, isOther: () => Promise<boolean>): Promise<void> {
  const own = 'pg_catalog.int4eq(pg_catalog.pg_backend_pid(), $1)';
  const { processID } = client as unknown as { readonly processID: number | null };
  const { rows } = await client.query<SessionFacts & { readonly own: boolean }>(
    `${foundSql}, ${own} as own, pg_catalog.current_setting('search_path') as path,
       case when ${own} then pg_catalog.set_config('search_path', '${safePath}', false) end`,
    [processID ?? 0],
  );
  if (rows[0]?.own !== true || (await isOther()))
    throw new BorrowedSession('the session is lent by a pooler');
  await client.query(sessionSql, [remember(client, rows[0]).commit]);
  connectionOf(client).incarnation = await readIncarnation(client);
}

const sessionSql = `select pg_catalog.set_config('search_path', '${safePath}', false),
  pg_catalog.set_config('default_transaction_isolation', 'read committed', false), pg_catalog.set_config('jit', 'off', false),
  pg_catalog.set_config('synchronous_commit', $1, false), pg_catalog.set_config('client_min_messages', 'warning', false),
  ${forCitus(false)}`;

/** For a session that others use, too, and in which nothing is set. */
export async function lookAtSession(client: ClientBase): Promise<void> {
  const { rows } = await client.query<SessionFacts>(
    `${foundSql}, s.reset_val as path from pg_catalog.pg_settings s
     where s.name operator(pg_catalog.=) 'search_path'::pg_catalog.text`,
  );
  remember(client, rows[0]);
}

function remember(client: ClientBase, found: SessionFacts | undefined): SessionFacts {
  const { role = '', path = '', commit = 'on', apart = false } = found ?? {};
  const known = { role, path, apart, commit: commit === 'off' ? 'on' : commit };
  connectionOf(client).facts = known;
  return known;
}

/**
 * A session in which code runs is lent for rows of `table`. Between two tables of one owner what code has left is removed, so that
 * each stores its rows as if it were alone: role, settings, cursors, temporary tables, advisory locks and LISTEN. Statements that Headgate has
 * prepared stay. Code of the table itself is met again by what it has left, except for role and settings.
 */
export function lendForCode(client: ClientBase, table: number): void {
  const connection = connectionOf(client);
  const before = connection.codeOf;
  connection.codeOf = table;
  if (before === null) return;
  const statements = ['reset session authorization', 'reset role', 'reset all'];
  if (before !== table)
    statements.push('close all', 'unlisten *', 'discard temp', 'select pg_catalog.pg_advisory_unlock_all()');
  statements.push(sessionSql.replace('$1', quoteLiteral(connection.facts.commit)));
  connection.reset = { sql: statements.join('; '), count: statements.length };
}

/**
 * Numbers of transactions that were not on the disk are given out again after a crash, and by a standby that took
 * over, so a number means something within one incarnation of one server only. A new process has another start time; a
 * recovery within the same process, after a backend was killed, resets its statistics.
 */
const incarnationSql = `select pg_catalog.concat(pg_catalog.to_json(pg_catalog.pg_postmaster_start_time()), ' ', pg_catalog.to_json(stats_reset)) as life
  from pg_catalog.pg_stat_bgwriter where stats_reset is not null and not pg_catalog.pg_is_in_recovery()`;

async function readIncarnation(client: ClientBase): Promise<string | null> {
  try {
    const { rows } = await client.query<{ life: string }>(incarnationSql);
    return rows[0]?.life ?? null;
  } catch (error) {
    // The server has no such views; a lost connection would show in the next statement.
    if (sqlstateOf(error) === null) throw error;
    return null;
  }
}
