/**
 * Sessions of the owners of tables with code, per database. Takes the oid of an owner, returns a connection that is used like one of a pool; throws
 * LoginRefused with a sentence if there can be none. Their number is bounded per database, not per owner: one that no rows use is closed for another
 * owner, the one that was used longest ago first. What happens in such a session is its owner's affair: it says nothing about the server or its other
 * connections.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { ClientConfig, PoolClient } from 'pg';
import { OrphanedBackends } from '../engine/orphaned-backends.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import type { OwnerLogins } from '../engine/owner-logins.ts';
import { boundAnswers, hangUp } from '../engine/close-client.ts';
import { refusesParameters, sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../config/limits.ts';
import { BorrowedSession, prepareSession } from './session-settings.ts';

export interface OwnerSessionsOptions {
  readonly logins: OwnerLogins;
  readonly applicationName: string;
  /** The engine's bound on a statement, and on opening a session. */
  readonly statementTimeoutMs: number;
  readonly connectTimeoutMs: number;
}

/** The state of one database. */
interface DatabaseSessions {
  /** Those that no rows use, in the order in which they were given back. */
  readonly idle: Map<Client, { readonly owner: number; readonly timer: NodeJS.Timeout }>;
  /** With those that are being opened. */
  open: number;
  isOver: boolean;
}

export class OwnerSessions {
  readonly #options: OwnerSessionsOptions;
  readonly #lines = new Map<string, DatabaseSessions>();

  constructor(options: OwnerSessionsOptions) {
    this.#options = options;
  }

  /** Give it back with `release`. */
  async connect(database: string, owner: number): Promise<PoolClient> {
    const line: DatabaseSessions = this.#lines.get(database) ?? { idle: new Map(), open: 0, isOver: false };
    this.#lines.set(database, line);
    const [known] = [...line.idle].findLast(([, it]) => it.owner === owner) ?? [];
    if (known !== undefined) return take(line, known) as PoolClient;
    const latest = performance.now() + this.#options.connectTimeoutMs;
    for (;;) {
      line.open += 1;
      try {
        if (line.open > limits.ownerSessionsMax) await closeIdle(line);
        return await this.#open(line, database, owner);
      } catch (error) {
        line.open -= 1;
        if (sqlstateOf(error) !== '53300' || performance.now() >= latest) throw error;
        await closeIdle(line);
        await sleep(limits.fateRetryMinMs);
      }
    }
  }

  async #open(line: DatabaseSessions, database: string, owner: number): Promise<PoolClient> {
    for (let tries = 1; ; tries++) {
      const { login, config, ending } = await this.#options.logins.owner(database, owner);
      try {
        return this.#asLent(line, owner, database, await this.#connected(config), ending);
      } catch (error) {
        if (error instanceof BorrowedSession || refusesParameters(error))
          throw new LoginRefused(
            'rows of a table that runs code are stored in a session of its owner, which a connection pooler in between does not let Headgate open: ' +
              'let Headgate reach the server directly',
          );
        const state = sqlstateOf(error) ?? '';
        // Between the look and the login its owner may have got another name, or its code has given it a password.
        if (tries === 1 && /^(28P01|22023|42501|42704)$/.test(state)) {
          if (state === '28P01') await this.#options.logins.mend(login);
          continue;
        }
        if (state.startsWith('28') || state === '42501')
          throw new LoginRefused(
            `the server does not let Headgate in for the owner of the table: ${(error as Error).message}`,
          );
        throw error;
      }
    }
  }

  async #connected(config: ClientConfig): Promise<Client> {
    const { applicationName, statementTimeoutMs, connectTimeoutMs } = this.#options;
    const client = new Client({
      ...config,
      statement_timeout: statementTimeoutMs,
      connectionTimeoutMillis: connectTimeoutMs,
      application_name: applicationName,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      boundAnswers(client);
      await prepareSession(client, () => Promise.resolve(false));
      return client;
    } catch (error) {
      await hangUp(client);
      throw error;
    }
  }

  #asLent(
    line: DatabaseSessions,
    owner: number,
    database: string,
    client: Client,
    ending: ClientConfig,
  ): PoolClient {
    const left = new OrphanedBackends(() => ending);
    let isOver = false;
    client.once('end', () => {
      isOver = true;
      if (line.idle.has(client)) void closeIdle(line, client);
    });
    const release = (broken: Error | boolean = false): void => {
      if (broken === false && !isOver && !line.isOver) {
        const timer = setTimeout(() => void closeIdle(line, client), limits.ownerSessionIdleMs).unref();
        line.idle.set(client, { owner, timer });
        return;
      }
      line.open -= 1;
      void left.left(database, client);
      void hangUp(client);
    };
    return Object.assign(client, { release });
  }

  /** Closes what no rows use; the others are closed when they are given back. */
  async release(database: string): Promise<void> {
    const line = this.#lines.get(database);
    this.#lines.delete(database);
    if (line === undefined) return;
    line.isOver = true;
    await Promise.all([...line.idle.keys()].map((client) => closeIdle(line, client)));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lines.keys()].map((database) => this.release(database)));
  }
}

function take(line: DatabaseSessions, client: Client): Client {
  clearTimeout(line.idle.get(client)?.timer);
  line.idle.delete(client);
  return client;
}

/** Without `client`: the one that was used longest ago; does nothing if all are in use. */
async function closeIdle(line: DatabaseSessions, client = line.idle.keys().next().value): Promise<void> {
  if (client === undefined) return;
  take(line, client);
  line.open -= 1;
  await hangUp(client);
}
