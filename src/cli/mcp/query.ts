/**
 * One SELECT of an agent, with the rights of the role. Takes its text, returns its rows; it runs in a transaction that only reads, on a
 * connection of its own. Refuses (PlainError) several statements, statements other than SELECT, and volatile functions: some of them act outside
 * the transaction (pg_terminate_backend, pg_advisory_lock, dblink), others run text as SQL (query_to_xml). Functions are looked up by name in
 * any schema, and the error says which one it was.
 *
 * A role that could act outside the database with a SELECT has no such tool (`whyNoQuery`).
 */
import { createRequire } from 'node:module';
import type * as parser from 'libpg-query';
import { limits } from '../../config/limits.ts';
import { PlainError } from '../../kit/plain-error.ts';
import type { CommandSession } from '../session.ts';
import { fetched } from './fetched.ts';
import type { ToolResult } from './server.ts';

/** Volatile, and harmless. */
const harmless = ['random', 'gen_random_uuid', 'uuidv4', 'uuidv7', 'clock_timestamp', 'timeofday'];

/** Why a role gets no `query`; null: it does. Superusers are members of every role. */
export async function whyNoQuery(session: CommandSession): Promise<string | null> {
  const [row] = await session.rows(`SELECT (
  SELECT r.rolname::text FROM pg_catalog.pg_roles r
  WHERE pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')
    AND (r.rolsuper OR r.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
      OR r.oid = (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'headgate'))
  ORDER BY r.rolname LIMIT 1) AS role`);
  const role = row?.['role'] ?? null;
  return role === null ? null : `the role is ${role}, or may become it`;
}

export async function queryRows(session: CommandSession, text: string): Promise<ToolResult> {
  const names = await functionsOf(text);
  const volatile = await session.rows(
    `SELECT p.proname::text AS name FROM pg_catalog.pg_proc p
WHERE p.provolatile = 'v' AND p.proname = ANY ($1::text[]) AND p.proname <> ALL ($2::text[]) LIMIT 1`,
    [names, harmless],
  );
  const [found] = volatile;
  if (found !== undefined)
    throw new PlainError(`the function ${found['name'] ?? ''} is volatile: a query may call only others`);
  return fetched(session, text.replace(/[;\s]+$/, ''), limits.mcpQueryRowsMax);
}

/** The names of the functions that a text calls, which is one SELECT. */
async function functionsOf(text: string): Promise<string[]> {
  // Not by `import`: docs/decisions/0116.
  const { loadModule, parseSync } = createRequire(import.meta.url)('libpg-query') as typeof parser;
  await loadModule();
  if (text.includes('\0')) throw new PlainError('the query contains a NUL character');
  let statements: readonly { readonly stmt?: object }[];
  try {
    statements = (parseSync(text) as { stmts?: { stmt?: object }[] }).stmts ?? [];
  } catch (error) {
    throw new PlainError((error as Error).message);
  }
  const [first, second] = statements;
  if (first?.stmt === undefined || second !== undefined || !('SelectStmt' in first.stmt))
    throw new PlainError('a query is one SELECT');
  const names = new Set<string>();
  const rest: unknown[] = [first.stmt];
  for (let node = rest.pop(); node !== undefined; node = rest.pop()) {
    if (typeof node !== 'object' || node === null) continue;
    for (const [key, value] of Object.entries(node)) {
      if (key === 'intoClause' || key === 'lockingClause') throw new PlainError('a query only reads');
      if (key === 'funcname') names.add(lastName(value));
      rest.push(value);
    }
  }
  return [...names];
}

function lastName(parts: unknown): string {
  const last = Array.isArray(parts) ? (parts.at(-1) as { String?: { sval?: string } }) : {};
  return last.String?.sval ?? '';
}
