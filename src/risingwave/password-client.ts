/**
 * Connections to the server that a table's secret names, for `pg`. Takes an Into; refuses, by throwing, a server that did not ask for the password, unless
 * the secret is a superuser's.
 */
import type { ClientBase, ClientConfig, PoolConfig } from 'pg';
import type { Into } from '../types/into.ts';
import { GuardedClient } from './client.ts';

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
