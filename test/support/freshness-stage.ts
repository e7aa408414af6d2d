/**
 * A Headgate in front of a PostgreSQL that a test can also ask past it, and tables whose check is a key: for tests of what is in force after a COMMIT.
 */
import { existsSync } from 'node:fs';
import { Client } from 'pg';
import { onEnd } from './cleanup.ts';
import type { Scope } from './cleanup.ts';
import { startHeadgate } from './headgate.ts';
import type { Headgate } from './headgate.ts';
import { debianBin } from './server.ts';
import { startTcpServer } from './tls-server.ts';
import type { TcpServer } from './tls-server.ts';

export const webhook = `WITH (connector = 'webhook')`;
export const checkedBy = (secret: string) =>
  `${webhook} VALIDATE SECRET ${secret} AS secure_compare(headers->>'x', ${secret})`;

export interface Stage {
  readonly headgate: Headgate;
  /** A session at the SQL port, for Headgate's own statements. */
  readonly port: Client;
  /** A session of PostgreSQL. */
  readonly plain: Client;
}

export async function connected(t: Scope, port: number): Promise<Client> {
  const client = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

export async function stageOn(t: Scope, server: TcpServer, dsnPort = server.port): Promise<Stage> {
  const env = {
    HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${dsnPort}/postgres?sslmode=disable`,
    HEADGATE_MASTER_KEY: Buffer.alloc(32, 5).toString('base64'),
  };
  const headgate = await startHeadgate(t, { env });
  return {
    headgate,
    port: await connected(t, headgate.ports.sql.port),
    plain: await connected(t, server.port),
  };
}

export async function serverOf(t: Scope, settings: readonly string[] = []): Promise<TcpServer> {
  const server = await startTcpServer(existsSync(debianBin) ? debianBin : undefined, ['jit=on', ...settings]);
  onEnd(t, 'server', () => server.close());
  return server;
}
