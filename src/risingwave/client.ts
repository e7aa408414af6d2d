/** Connections of node-postgres to servers that need not be trusted: everything they send goes through a guard, and closing never waits for them. */
import { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import { Client } from 'pg';
import type { ClientConfig, ClientBase, PoolConfig } from 'pg';
import { cutOff } from '../engine/close-client.ts';
import { limits } from '../config/limits.ts';
import { ReplyGuard } from './reply-guard.ts';
import type { Into } from '../types/target.ts';

/** What node-postgres's types do not say about its Connection. */
interface ConnectionParts {
  attachListeners(stream: Pick<EventEmitter, 'on'>): void;
  query(sql: string): void;
}

export class GuardedClient extends Client {
  constructor(config?: ClientConfig) {
    super(config);
    const { connection } = this as unknown as { readonly connection: ConnectionParts };
    const whole = new EventEmitter();
    const guard = new ReplyGuard((messages) => whole.emit('data', messages));
    const attach = connection.attachListeners.bind(connection);
    const query = connection.query.bind(connection);
    connection.attachListeners = (stream) => {
      attach(whole);
      stream.on('data', (chunk: Buffer) => {
        try {
          guard.reads(chunk);
        } catch (error) {
          (stream as Duplex).destroy(error instanceof Error ? error : new Error(String(error)));
        }
      });
    };
    connection.query = (sql) => {
      guard.asks(sql);
      query(sql);
    };
  }

  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | void {
    // A server that keeps its end open would keep this one open, too.
    setTimeout(() => cutOff(this), limits.engineFarewellMs).unref();
    return callback === undefined ? super.end() : super.end(callback);
  }
}

/** For `pg`. */
export function poolConfigOf({
  host,
  port,
  user,
  password,
  database,
  tls,
  passwordRequired,
}: Into): PoolConfig {
  const ssl = tls === 'none' ? false : { rejectUnauthorized: tls === 'verified' };
  const config = { host, port, user, password, database, ssl, application_name: 'headgate' };
  return passwordRequired ? { ...config, Client: AskedClient } : config;
}

/** Records whether the server asked for the password: a client that is let in without one is let in because of where Headgate runs. */
class AskedClient extends GuardedClient {
  readonly asked: { readonly is: boolean };

  constructor(config: ClientConfig = {}) {
    const asked = { is: false };
    const { password } = config;
    super({
      ...config,
      password: () => {
        asked.is = true;
        return typeof password === 'string' ? password : '';
      },
    });
    this.asked = asked;
  }
}

/** Throws if only a superuser's secret may use the connection, and the secret is not a superuser's. */
export function refuseUnasked(client: ClientBase): void {
  if (client instanceof AskedClient && !client.asked.is)
    throw new Error("the server did not ask for the password, and the secret is not a superuser's");
}
