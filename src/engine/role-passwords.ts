/**
 * What the engine keeps of its roles' passwords, for a door that asks for them in the engine's stead. Takes an engine
 * on which Headgate is superuser, gives rolpassword of one role at a time; rejects while the engine cannot be asked.
 * Touches pg_authid, by reading it, on connections of its own.
 */
import { Pool } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../tables/limits.ts';
import type { Engine } from './engine.ts';

/** As PostgreSQL does: a role whose time is over has no password. */
const readPassword = `
  select rolpassword as password from pg_catalog.pg_authid
  where rolname = $1 and (rolvaliduntil is null or rolvaliduntil > now())`;

export class RolePasswords implements Closable {
  readonly #pool: Pool;

  constructor(engine: Engine) {
    this.#pool = new Pool({
      // Not the default database: its owner may want to drop or rename it.
      ...engine.clientConfig('postgres'),
      max: limits.sqlPasswordConnectionsMax,
      connectionTimeoutMillis: limits.engineAnswerMs,
      query_timeout: limits.engineAnswerMs,
      idleTimeoutMillis: 10_000,
      application_name: 'headgate passwords',
    });
    this.#pool.on('error', () => {});
  }

  /** null: there is no such role, or it has no password. */
  async of(role: string): Promise<string | null> {
    const { rows } = await this.#pool.query<{ password: string | null }>(readPassword, [role]);
    return rows[0]?.password ?? null;
  }

  close(): Promise<void> {
    return this.#pool.end();
  }
}
