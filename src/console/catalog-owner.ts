/**
 * Whether the schema headgate of a database is Headgate's own. The owner of a database that has none can make a schema of that name, and the
 * console would run the code in it with the rights of whoever opens an address there. Takes Headgate's role, returns SQL. Pure.
 */
import { trustedSql } from '../relations/owner-code.ts';
import { quoteLiteral } from '../kit/sql-text.ts';

/** No other statement of the console uses it: their search_path has PostgreSQL's own names alone. Headgate's statements read it, too. */
export const usesCatalog = (sql: string): boolean => /headgate|^\s*(?:show|explain)\s/i.test(sql);

/**
 * One row: `trusted` is null if there is no such schema. Only its owner can replace a schema, so that of a trusted owner stays. As in
 * catalog/rights.ts, a Headgate that is no superuser trusts the owner of the database, too, who may have made the schema for it.
 */
export function catalogTrust(role: string): string {
  const its = quoteLiteral(role);
  return `select (
    select ${trustedSql('o.oid')} or o.rolname = ${its} or (
      (o.oid = d.datdba or o.rolname = 'pg_database_owner')
      and not exists (select from pg_roles h where h.rolname = ${its} and h.rolsuper))
    from pg_namespace n join pg_roles o on o.oid = n.nspowner join pg_database d on d.datname = current_database()
    where n.nspname = 'headgate') as trusted`;
}
