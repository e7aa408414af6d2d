/**
 * A connection of a command, as the role of its connection string: it may do what that role may. Values come as texts, so that
 * no digit is lost. Throws PlainError in one line, without the password.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import type { QueryArrayResult, QueryResultRow } from 'pg';
import { parseDsn } from '../../engine/dsn.ts';
import { hangUp } from '../../engine/hang-up.ts';
import { wantsPlain } from '../../engine/servers.ts';
import { backoffMs } from '../../kit/backoff.ts';
import { PlainError } from '../../kit/plain-error.ts';
import { onceOnDisk, positionNow } from '../../kit/position.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import { limits } from '../../tables/limits.ts';

/** Every value of a row. */
export type Texts = Readonly<Record<string, string | null>>;

export class Session {
  readonly client: Client;
  constructor(client: Client) {
    this.client = client;
  }

  async rows<R extends QueryResultRow = Texts>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    try {
      return (await this.client.query<R>(text, [...values])).rows;
    } catch (error) {
      throw databaseError(error);
    }
  }

  /** The same with its columns, and rows in their order. */
  async cells(text: string): Promise<QueryArrayResult<(string | null)[]>> {
    try {
      return await this.client.query({ text, rowMode: 'array' });
    } catch (error) {
      throw databaseError(error);
    }
  }

  /**
   * A position (kit/position.ts), once what says that its transactions have ended is on the disk: a crash may give other numbers out again.
   * Outside of a transaction.
   */
  async position(): Promise<bigint> {
    const ask = async () => {
      const [now] = await this.rows(positionNow);
      return {
        position: now?.['position'] ?? '0',
        written: now?.['written'] ?? null,
        flushed: now?.['flushed'] ?? null,
      };
    };
    const found = await onceOnDisk(ask, (sql) => this.rows(sql), limits);
    if (found === null) throw new DatabaseFailure('its log does not reach the disk', undefined);
    return BigInt(found.position);
  }

  async close(): Promise<void> {
    await hangUp(this.client);
  }
}

/** What the database said, or that it says nothing. */
export class DatabaseFailure extends PlainError {
  /** It may be away for a moment only: nothing is wrong with what was asked. */
  readonly mayPass: boolean;

  constructor(message: string, sqlstate: string | undefined) {
    super(message);
    this.mayPass =
      sqlstate === undefined || !/^[0-9A-Z]{5}$/.test(sqlstate) || /^(?:08|53|57)/.test(sqlstate);
  }
}

export function databaseError(error: unknown): DatabaseFailure {
  const { message, hint, code } = error as { message?: string; hint?: string; code?: string };
  // Of a connection that broke node-postgres tells nothing that helps.
  const said = code === undefined || message === undefined ? 'the connection was lost' : message;
  return new DatabaseFailure(hint === undefined ? said : `${said}\n${hint}`, code);
}

export async function connect(dsn: string, command: string): Promise<Session> {
  const { servers, secrets } = parseDsn(dsn);
  let why = 'it names no server';
  let sqlstate: string | undefined;
  for (let [server, ...others] = servers; server !== undefined; [server, ...others] = others) {
    const client = new Client({
      ...server.config,
      application_name: `headgate ${command}`,
      connectionTimeoutMillis: limits.commandConnectMs,
      types: { getTypeParser: () => (value: string) => value },
    });
    // What breaks the connection is told by the query that was waiting.
    client.on('error', () => {});
    try {
      await client.connect();
      return new Session(client);
    } catch (error) {
      void hangUp(client);
      if (server.plain !== null && wantsPlain(error)) others.unshift(server.plain);
      const { message, code } = error as NodeJS.ErrnoException;
      sqlstate = code;
      why = `${server.name}: ${message === '' ? (code ?? 'no answer') : message}`;
    }
  }
  throw new DatabaseFailure(
    `the database cannot be reached: ${secrets.filter((secret) => secret !== '').reduce((text, secret) => text.replaceAll(secret, '***'), why)}`,
    sqlstate,
  );
}

/** Connected, asked, and closed again whatever happens. */
export async function within<T>(
  dsn: string,
  command: string,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await connect(dsn, command);
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}

/**
 * Works on a connection, and on the next one when that breaks, until it is interrupted. What is wrong before `work` says that it has begun
 * ends it; what comes later and may pass is waited for. `begin` is told once for each connection, and gives whether it was the first.
 */
export async function staying(
  dsn: string,
  command: string,
  io: CommandIo,
  work: (session: Session, begin: () => boolean) => Promise<void>,
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

/** The only way this pause fails is the signal. */
export async function rest({ signal }: CommandIo, ms: number): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
