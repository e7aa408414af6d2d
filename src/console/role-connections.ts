/**
 * Connections of the console to Headgate's own SQL port, as a role. Takes how to log in; returns connections that are idle, or new ones, and checks
 * that the schema `headgate` of their database is Headgate's. Refuses with `login_required`; throws SqlFailure with the engine's own errors.
 */
import { Client } from 'pg';
import type { ClientConfig, DatabaseError } from 'pg';
import { limits } from '../config/limits.ts';
import { hangUp } from '../engine/close-client.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { trustedSql } from '../relations/owner-code.ts';
import { failureOf } from './sql-query.ts';

export interface RoleConnection {
  readonly client: Client;
  readonly openedMs: number;
  /** The time zone that it is in; '': the role's. */
  zone: string;
  /** Runs while it is idle, and closes it. */
  idle: NodeJS.Timeout | undefined;
}

/** The connections of one session to Headgate's SQL port: those that are idle are kept for a while, a bounded number of them. */
export class RoleConnections {
  readonly config: ClientConfig;
  #idle: RoleConnection[] = [];
  #closed = false;

  constructor(config: ClientConfig) {
    this.config = config;
  }

  /** An idle one, or else a new one. */
  async take(): Promise<RoleConnection> {
    const connection = this.#idle.pop();
    clearTimeout(connection?.idle);
    return connection ?? this.openAgain();
  }

  /** A new one, of a role that has logged in before: it may no longer, or the session has ended. */
  async openAgain(): Promise<RoleConnection> {
    if (this.#closed) throw new Refused('login_required');
    try {
      return await this.open();
    } catch (error) {
      // The password was changed, or it was dropped.
      const isRefused = error instanceof SqlFailure && error.error.sqlstate.startsWith('28');
      throw isRefused ? new Refused('login_required') : error;
    }
  }

  async open(): Promise<RoleConnection> {
    const client = new Client(this.config);
    client.on('error', () => {});
    try {
      await client.connect();
      const connection = { client, openedMs: performance.now(), zone: '', idle: undefined };
      client.once('end', () => this.#drop(connection));
      return connection;
    } catch (error) {
      void hangUp(client);
      throw failureOf(error);
    }
  }

  /** For the next `take`, unless it is old, or enough of them are idle. */
  keep(connection: RoleConnection): void {
    const isOld = performance.now() - connection.openedMs > limits.consoleConnectionMs;
    if (this.#closed || isOld || this.#idle.length >= limits.consoleConnectionsMax)
      return void hangUp(connection.client);
    connection.idle = setTimeout(() => this.#drop(connection), limits.consoleConnectionIdleMs);
    this.#idle.push(connection);
  }

  /** Closes it, if it is idle. */
  #drop(connection: RoleConnection): void {
    if (!this.#idle.includes(connection)) return;
    clearTimeout(connection.idle);
    this.#idle = this.#idle.filter((it) => it !== connection);
    void hangUp(connection.client);
  }

  /** Those that are idle; the others as soon as their statements have ended. */
  close(): void {
    this.#closed = true;
    for (const connection of this.#idle) this.#drop(connection);
  }
}

/** The engine may not know a zone of the browser: then times are those of the role's zone. */
export async function goTo(connection: RoleConnection, zone: string): Promise<void> {
  connection.zone = zone;
  const sql = zone === '' ? 'RESET TimeZone' : `SET TimeZone = '${zone}'`;
  await connection.client.query(sql).catch(async (error: unknown) => {
    if ((error as DatabaseError).code === '22023') return;
    await hangUp(connection.client);
    throw failureOf(error);
  });
}

/**
 * The owner of a database that has no schema headgate can make a schema of that name, and the console would run the code in it with the rights of
 * whoever opens an address there. `role`: Headgate's. Resolves if the schema was made by it, or by one that may do anything anyway; throws SqlFailure.
 */
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
