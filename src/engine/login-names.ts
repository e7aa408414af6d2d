/** The names of the roles that Headgate makes to log in as when it stores rows (owner-logins.ts). */

/** Stores rows of tables that run no code, on Headgate's own engine. */
export const writerName = 'headgate_commit';

/** Followed by the oid of the owner for whom it logs in. */
export const ownerLoginPrefix = 'headgate_as_';

/** Nobody else logs in as these. */
export function isHeadgatesLogin(role: string): boolean {
  return role === writerName || role.startsWith(ownerLoginPrefix);
}
