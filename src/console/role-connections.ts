/**
 * The connections of one session to Headgate's SQL port: those that are idle are kept for a while, a bounded number of them. Refuses with
 * `login_required` and `engine_unavailable`, and throws SqlFailure with the engine's own errors.
 */
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { hangUp } from '../engine/close-client.ts';
import { limits } from '../config/limits.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import { failureOf } from './sql-failures.ts';

export interface RoleConnection {
  readonly client: Client;
  readonly openedMs: number;
  /** The time zone that it is in; '': the role's. */
  zone: string;
  /** Runs while it is idle, and closes it. */
  idle: NodeJS.Timeout | undefined;
}

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
