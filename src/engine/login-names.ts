/** The names of the roles that Headgate makes to log in as when it stores rows (owner-logins.ts). */
import { quoteIdentifier } from '../kit/sql-text.ts';

/** Stores rows of tables that run no code, on Headgate's own engine. */
export const writerName = 'headgate_commit';

/** Followed by the oid of the owner for whom it logs in. */
export const ownerLoginPrefix = 'headgate_as_';

/** Nobody else logs in as these. */
export function isHeadgatesLogin(role: string): boolean {
  return role === writerName || role.startsWith(ownerLoginPrefix);
}

/** What gives Headgate the login of an owner where it may not make one. `verifier`: its password as PostgreSQL stores it; null: nobody is asked for one. */
export function loginStatements(login: string, owner: string, verifier: string | null): string {
  const password = verifier === null ? '' : `; ALTER ROLE ${login} PASSWORD '${verifier}'`;
  return `CREATE ROLE ${login} LOGIN; GRANT ${quoteIdentifier(owner)} TO ${login}${password}`;
}
