/**
 * Whether the schema headgate of a database is Headgate's own. The owner of a database that has none can make a schema of that name, and the
 * console would run the code in it with the rights of whoever opens an address there. Throws SqlFailure.
 */
import type { Client } from 'pg';
import { SqlFailure } from '../errors/refusals.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { trustedSql } from '../relations/owner-code.ts';

/** No other statement of the console uses it: their search_path has PostgreSQL's own names alone. Headgate's statements read it, too. */
export const usesCatalog = (sql: string): boolean => /headgate|^\s*(?:show|explain)\s/i.test(sql);

/** `role`: Headgate's. Resolves if the schema was made by it, or by one that may do anything anyway. */
export async function refuseOtherCatalog(client: Client, role: string): Promise<void> {
  const { rows } = await client.query<{ trusted: boolean | null }>(catalogTrust(role));
  const { trusted = null } = rows[0] ?? {};
  if (trusted === null)
    throw new SqlFailure({ sqlstate: '42P01', message: 'this database has no schema headgate' });
  if (trusted) return;
  const message =
    'the schema headgate of this database was not made by Headgate, and what is in it is not run';
  throw new SqlFailure({ sqlstate: '42501', message });
}

/**
 * One row: `trusted` is null if there is no such schema. Only its owner can replace a schema, so that of a trusted owner stays. As in
 * catalog/rights.ts, a Headgate that is no superuser trusts the owner of the database, too, who may have made the schema for it.
 */
function catalogTrust(role: string): string {
  const its = quoteLiteral(role);
  return `select (
    select ${trustedSql('o.oid')} or o.rolname = ${its} or (
      (o.oid = d.datdba or o.rolname = 'pg_database_owner')
      and not exists (select from pg_roles h where h.rolname = ${its} and h.rolsuper))
    from pg_namespace n join pg_roles o on o.oid = n.nspowner join pg_database d on d.datname = current_database()
    where n.nspname = 'headgate') as trusted`;
}
