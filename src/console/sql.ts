/**
 * Statements of one session: a client of Headgate's own SQL port, logged in as the session's role, so that rights, Headgate's
 * statements and passwords work as in psql; the port passes what is no statement of Headgate's to PostgreSQL as it is. Takes SQL, returns rows as the
 * texts that the engine wrote; refuses with `engine_unavailable`, `login_required`, `overloaded` and `answer_too_large`, and throws SqlFailure with the
 * engine's own errors.
 *
 * A reading call is one statement of the extended protocol inside `BEGIN READ ONLY` … `ROLLBACK`: it cannot end the
 * transaction and continue, and leaves no setting behind. Its connection is kept for the next one. A writing call runs as
 * given, on a connection of its own that is not reused. Bounded in time, rows and bytes; aborting `signal` cancels it.
 */
import type { ClientConfig, DatabaseError } from 'pg';
import { Cancellation } from '../engine/cancellation.ts';
import { hangUp } from '../engine/close-client.ts';
import { plainSession, plainTransaction } from '../kit/plain-settings.ts';
import { limits } from '../config/limits.ts';
import type { SqlCall, SqlResponse } from './api.ts';
import { BoundedQuery } from './sql-query.ts';
import type { ReadEnd } from './sql-query.ts';
import { refuseOtherCatalog, usesCatalog } from './catalog-owner.ts';
import { RoleConnections } from './role-connections.ts';
import type { RoleConnection } from './role-connections.ts';
import type { RunningStatements } from './running-statements.ts';
import { failedEnd, failureOf } from './sql-failures.ts';

/** How to reach the SQL port, without credentials. */
export interface SqlDoorAt extends Pick<ClientConfig, 'host' | 'port' | 'ssl'> {
  /** Headgate's own. */
  readonly role: string;
}

export interface SqlWho {
  readonly user: string;
  readonly password: string | null;
  readonly database: string;
}

const cancellation = { statementMs: limits.consoleStatementMs, cancelMs: limits.consoleCancelMs };

export class SqlRunner {
  readonly #connections: RoleConnections;
  readonly #running: RunningStatements;
  readonly #role: string;
  readonly #headgate: string;

  /** `running`: those of all sessions. */
  constructor({ role, ...door }: SqlDoorAt, who: SqlWho, running: RunningStatements) {
    this.#running = running;
    this.#role = who.user;
    this.#headgate = role;
    this.#connections = new RoleConnections({
      ...door,
      user: who.user,
      database: who.database,
      // '' instead of undefined, so that the environment is not consulted.
      password: who.password ?? '',
      application_name: 'headgate console',
      connectionTimeoutMillis: limits.consoleConnectMs,
      keepAlive: true,
    });
  }

  /** Whether the role can log in; throws as `run` does, with 28P01 for a wrong password. */
  async enter(): Promise<void> {
    this.#connections.keep(await this.#connections.open());
  }

  /** Refuses with `login_required` if the role may no longer log in, or the session has ended. */
  async run(call: SqlCall, signal: AbortSignal): Promise<SqlResponse> {
    return this.#running.run(this.#role, async () => {
      const started = performance.now();
      const { sql, write, zone = '' } = call;
      const connection = write ? await this.#connections.openAgain() : await this.#connections.take();
      if (zone !== connection.zone) await goTo(connection, zone);
      const reading = new BoundedQuery(sql, write);
      const end = await this.#runOn(connection, call, reading, signal);
      if (end.kind !== 'done') throw failedEnd(end, write);
      const { tables, notices } = reading;
      return { tables, notices, ms: Math.round(performance.now() - started) };
    });
  }

  async #runOn(
    connection: RoleConnection,
    { sql, write, own = false, zone = '' }: SqlCall,
    reading: BoundedQuery,
    signal: AbortSignal,
  ): Promise<ReadEnd> {
    const { client } = connection;
    const ending = new Cancellation(client, this.#connections.config, signal, cancellation);
    let clean = false;
    try {
      const plain = write ? plainSession : plainTransaction;
      const before = [
        ...(write ? [] : ['BEGIN READ ONLY', `SET LOCAL statement_timeout = ${limits.consoleStatementMs}`]),
        ...(own ? (zone === '' ? [plain] : [keepZone, plain, returnZone]) : []),
      ];
      if (before.length > 0) await client.query(before.join('; '));
      if (own && usesCatalog(sql)) await refuseOtherCatalog(client, this.#headgate);
      const end = await reading.on(client);
      if (end.kind === 'failed' || end.kind === 'done') {
        if (!write) await client.query('ROLLBACK');
        clean = !write && !ending.cancelled;
      }
      return ending.late && end.kind !== 'done' ? { kind: 'late' } : end;
    } catch (error) {
      if (ending.late) return { kind: 'late' };
      throw failureOf(error);
    } finally {
      ending.end();
      if (clean) this.#connections.keep(connection);
      else void hangUp(client);
    }
  }

  close(): void {
    this.#connections.close();
  }
}

/** The plain settings of a transaction write times in UTC: around them the zone is kept. */
const keepZone =
  "SELECT pg_catalog.set_config('headgate.zone', pg_catalog.current_setting('TimeZone'), true)";
const returnZone =
  "SELECT pg_catalog.set_config('TimeZone', pg_catalog.current_setting('headgate.zone'), true)";

/** The engine may not know a zone of the browser: then times are those of the role's zone. */
async function goTo(connection: RoleConnection, zone: string): Promise<void> {
  connection.zone = zone;
  const sql = zone === '' ? 'RESET TimeZone' : `SET TimeZone = '${zone}'`;
  await connection.client.query(sql).catch(async (error: unknown) => {
    if ((error as DatabaseError).code === '22023') return;
    await hangUp(connection.client);
    throw failureOf(error);
  });
}
