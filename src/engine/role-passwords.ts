/**
 * What the engine stores of its roles' passwords, for a door that asks for them instead of the engine. Takes an engine
 * on which Headgate is superuser, returns rolpassword of one role at a time; rejects while the engine cannot be
 * queried. Reads pg_authid, on its own connections.
 */
import { Pool } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import type { Engine } from './engine.ts';

/** As in PostgreSQL: a role whose password has expired has none. */
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

  /** null: the role does not exist, or has no password. */
  async of(role: string): Promise<string | null> {
    const { rows } = await this.#pool.query<{ password: string | null }>(readPassword, [role]);
    return rows[0]?.password ?? null;
  }

  close(): Promise<void> {
    return this.#pool.end();
  }
}
