/** A temporary PostgreSQL on TCP of this machine, with TLS and passwords for TCP clients. */
import { chownSync, copyFileSync, chmodSync, writeFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import type { Pair } from './certificates.ts';
import { startServer, type TestServer } from './server.ts';

export interface TcpServer extends TestServer {
  readonly port: number;
  /** As the superuser over the socket, without authentication. */
  run(sql: string): Promise<void>;
  /** Who may connect over TCP: lines of pg_hba.conf, in force once this resolves. */
  admit(...lines: string[]): Promise<void>;
  /** Turns TLS on. `ca`: the clients' authority. */
  encrypt(pair: Pair, ca: string): Promise<void>;
}

/** A port that is free at this moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** `settings`: additional ones, `name=value`. */
export async function startTcpServer(bin?: string, settings: readonly string[] = []): Promise<TcpServer> {
  const port = await freePort();
  const server = await startServer(bin, ['listen_addresses=127.0.0.1', `port=${port}`, ...settings]);
  const folder = server.socketDir;
  const { uid, gid } = statSync(folder);
  const run = async (...statements: string[]) => {
    const client = new Client({ host: folder, port, user: 'root', database: 'postgres' });
    await client.connect();
    try {
      for (const sql of statements) await client.query(sql);
    } finally {
      await client.end();
    }
  };
  return {
    ...server,
    port,
    run: (sql) => run(sql),
    admit: async (...lines) => {
      writeFileSync(join(folder, 'data', 'pg_hba.conf'), `local all all trust\n${lines.join('\n')}\n`);
      await run('select pg_reload_conf()');
    },
    encrypt: async ({ cert, key }, ca) => {
      for (const [from, to] of [
        [cert, 'server.crt'],
        [key, 'server.key'],
        [ca, 'root.crt'],
      ] as const) {
        const path = join(folder, 'data', to);
        copyFileSync(from, path);
        chmodSync(path, 0o600);
        chownSync(path, uid, gid);
      }
      await run(
        `alter system set ssl_ca_file = 'root.crt'`,
        'alter system set ssl = on',
        'select pg_reload_conf()',
      );
    },
  };
}
