/** The logins of owners on a test's server, which asks nobody for a password. */
import type { TestContext } from 'node:test';
import type { ClientConfig } from 'pg';
import { OwnerLogins } from '../../src/engine/owner-logins.ts';
import { onEnd } from './cleanup.ts';

/** `clientConfig`: as Headgate's role. */
export function ownerLogins(t: TestContext, clientConfig: (database: string) => ClientConfig): OwnerLogins {
  const logins = new OwnerLogins({ kind: 'embedded', clientConfig, defaultDatabase: 'postgres' }, null);
  onEnd(t, 'logins', () => logins.close());
  return logins;
}
