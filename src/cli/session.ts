/**
 * The database connection of a command, with the rights of the role in its connection string. Values are returned as text, so that
 * no digit is lost. Throws PlainError, without the password.
 *
 * Names in a command's statements mean PostgreSQL's own objects: other roles may have created functions and operators on the
 * role's search_path that fit the arguments better, and would run with its rights. The path, and the forms of values, are set for one transaction at a
 * time, because a pooler may lend the session to others.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import type { QueryArrayResult, QueryResultRow } from 'pg';
import { parseDsn } from '../engine/dsn.ts';
import { hangUp } from '../engine/close-client.ts';
import { failureAt } from '../engine/servers.ts';
import { hasNoTls, wantsPassword, wantsPlain, wordsOf } from '../engine/connection-failure.ts';
import { trustedSql } from '../relations/owner-code.ts';
import { backoffMs } from '../kit/backoff.ts';
import { plainTransaction } from '../kit/plain-settings.ts';
import { PlainError } from '../kit/plain-error.ts';
import { nowColumns, onceOnDisk, transactionsOf } from '../kit/position.ts';
import type { Ended, NowColumns, TransactionsNow } from '../kit/position.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';

/** SQL for the text of a `timestamptz` in ISO 8601, in UTC, with milliseconds. */
export const utcText = (time: string): string =>
  `pg_catalog.to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The values of a row, by column. */
export type Texts = Readonly<Record<string, string | null>>;

export class CommandSession {
  readonly client: Client;
  #isInTransaction = false;
  constructor(client: Client) {
    this.client = client;
  }

  async rows<R extends QueryResultRow = Texts>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    const { rows } = await this.#pinned(() => this.client.query<R>(text, [...values]));
    return rows;
  }

  /** The same with the columns' descriptions, and each row as an array. */
  async cells(text: string): Promise<QueryArrayResult<(string | null)[]>> {
    return this.#pinned(() => this.client.query({ text, rowMode: 'array' }));
  }

  /** Begins a transaction that lasts as long as the connection. `mode`: what follows BEGIN. */
  async begin(mode: string): Promise<void> {
    await this.typed(`BEGIN ${mode}; ${plainTransaction}`);
    this.#isInTransaction = true;
  }

  /** A statement whose names mean what they mean to the role; it calls nothing without the schema. Must be called outside a transaction. */
  async typed(text: string, values: readonly unknown[] = []): Promise<Texts[]> {
    try {
      return (await this.client.query<Texts>(text, [...values])).rows;
    } catch (error) {
      throw databaseError(error);
    }
  }

  /** The oid of the relation that a name refers to; null: none. Must be called outside a transaction. */
  async relation(name: string): Promise<string | null> {
    const [row] = await this.typed(
      'SELECT pg_catalog.to_regclass($1)::pg_catalog.oid::pg_catalog.text AS oid',
      [name],
    );
    return row?.['oid'] ?? null;
  }

  /** Runs it in a transaction of its own, unless one is open. */
  async #pinned<T>(run: () => Promise<T>): Promise<T> {
    try {
      if (this.#isInTransaction) return await run();
      await this.client.query(`BEGIN; ${plainTransaction}`);
      const answer = await run();
      await this.client.query('COMMIT');
      return answer;
    } catch (error) {
      if (!this.#isInTransaction) await this.client.query('ROLLBACK').catch(() => undefined);
      throw databaseError(error);
    }
  }

  /** A position (kit/position.ts), as `transactions` finds it. */
  async position(): Promise<bigint> {
    return (await this.transactions(null)).oldest;
  }

  /**
   * Which transactions have ended, once the WAL that ends them is on the disk: otherwise their numbers could be reused after a crash. `known`: those that had
   * before. Must be called outside a transaction.
   */
  async transactions(known: Ended | null): Promise<TransactionsNow> {
    const ask = async (): Promise<NowColumns> => {
      const [now] = await this.rows(`SELECT ${nowColumns(known)}`);
      if (now === undefined) throw new DatabaseFailure('the connection was lost', undefined);
      return now as unknown as NowColumns;
    };
    const found = await onceOnDisk(ask, (sql) => this.rows(sql), limits);
    if (found === null) throw new DatabaseFailure("the database's log does not reach the disk", undefined);
    return transactionsOf(found);
  }

  async close(): Promise<void> {
    await hangUp(this.client);
  }
}

/** An error of the database, or of the connection to it. */
export class DatabaseFailure extends PlainError {
  /** The database may be unreachable only briefly: the request itself is fine. */
  readonly mayPass: boolean;
  readonly sqlstate: string | undefined;

  /** `lasts`: it does not pass by itself, whatever its code says. */
  constructor(message: string, sqlstate: string | undefined, lasts = false) {
    super(message);
    this.sqlstate = sqlstate;
    this.mayPass =
      !lasts && (sqlstate === undefined || !/^[0-9A-Z]{5}$/.test(sqlstate) || /^(?:08|53|57)/.test(sqlstate));
  }
}

export function databaseError(error: unknown): DatabaseFailure {
  const { message, hint, code } = error as { message?: string; hint?: string; code?: string };
  // node-postgres says nothing useful about a connection that broke.
  const said = code === undefined || message === undefined ? 'the connection was lost' : message;
  return new DatabaseFailure(hint === undefined ? said : `${said}\n${hint}`, code);
}

export async function connect(dsn: string, command: string): Promise<CommandSession> {
  const { servers, secrets } = parseDsn(dsn);
  let why = 'the connection string names no server';
  let failed: unknown;
  let refused = '';
  for (let [server, ...others] = servers; server !== undefined; [server, ...others] = others) {
    const client = new Client({
      ...server.config,
      application_name: `headgate ${command}`,
      connectionTimeoutMillis: limits.commandConnectMs,
      types: { getTypeParser: () => (value: string) => value },
    });
    // The waiting query reports what breaks the connection.
    client.on('error', () => {});
    try {
      await client.connect();
      return new CommandSession(client);
    } catch (error) {
      void hangUp(client);
      failed = error;
      const said = failureAt(server, error, refused !== '');
      why = `${server.name}: ${refused === '' ? said : `with SSL ${refused}; without SSL ${said}`}`;
      refused = '';
      if (server.plain === null || !wantsPlain(error)) continue;
      others.unshift(server.plain);
      if (!hasNoTls(error)) refused = wordsOf(error);
    }
  }
  for (const secret of secrets) if (secret !== '') why = why.replaceAll(secret, '***');
  throw new Unreachable(`the database cannot be reached: ${why}`, failed);
}

/** No connection to the database. */
export class Unreachable extends DatabaseFailure {
  readonly wantsPassword: boolean;

  constructor(message: string, error: unknown) {
    const code = (error as { code?: string } | undefined)?.code;
    // A login that went wrong is not a connection that broke: the server asks for a password, for example, and there is none.
    super(message, code, wantsPassword(error) || code === '08P01');
    this.wantsPassword = wantsPassword(error);
  }
}

/**
 * The owner of a schema headgate that a superuser must not use, and the roles involved; no row if there is none. The owner of a database can make a
 * schema of that name, and whatever is called there would run with the rights of whoever calls it. Only its owner can replace a schema, so that of a
 * trusted one stays. All names are qualified.
 */
export const foreignCatalog = `SELECT session_user AS role, pg_catalog.pg_get_userbyid(n.nspowner) AS owner
  FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'headgate' AND NOT ${trustedSql('n.nspowner')}
    AND EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolsuper AND pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER'))`;

/** Refuses a superuser's session in a database whose schema headgate belongs to a role that could not become that superuser. */
async function refuseForeignCatalog(session: CommandSession): Promise<void> {
  const [found] = await session.rows(foreignCatalog);
  if (found === undefined) return;
  throw new PlainError(
    `the schema headgate of this database belongs to role ${quote(found['owner'] ?? '')}, whose code would run with the rights of ` +
      `${quote(found['role'] ?? '')}, a superuser: log in as that role, or as the owner of the tables`,
  );
}

/** Connects, runs `work`, and always closes the connection. The catalog is one that the role can trust. */
export async function within<T>(
  dsn: string,
  command: string,
  work: (session: CommandSession) => Promise<T>,
): Promise<T> {
  const session = await connect(dsn, command);
  try {
    await refuseForeignCatalog(session);
    return await work(session);
  } finally {
    await session.close();
  }
}

/**
 * Runs `work` on a connection, and on a new one when that breaks, until interrupted. An error before `work` has called `begin` is thrown;
 * after a later one that may pass, it waits and reconnects. `work` calls `begin` once per connection; it returns whether this is the first.
 */
export async function staying(
  dsn: string,
  command: string,
  io: CommandIo,
  work: (session: CommandSession, begin: () => boolean) => Promise<void>,
): Promise<void> {
  let [begun, failures] = [false, 0];
  const begin = (): boolean => {
    const first = !begun;
    [begun, failures] = [true, 0];
    return first;
  };
  while (!io.signal.aborted) {
    try {
      await within(dsn, command, (session) => work(session, begin));
    } catch (error) {
      if (io.signal.aborted) return;
      if (!begun || !(error instanceof DatabaseFailure && error.mayPass)) throw error;
      if (failures === 0) io.note(`waiting for Headgate: ${error.message.split('\n', 1)[0] ?? ''}\n`);
      failures += 1;
      await rest(io, backoffMs(failures, limits.listenPauseMs, limits.listenRetryMs, Math.random));
    }
  }
}

/** Only the signal makes this pause fail. */
export async function rest({ signal }: CommandIo, ms: number): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
