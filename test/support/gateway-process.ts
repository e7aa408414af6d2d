/** `headgate gateway` in a process of its own, and a connection to its database that a test can close and reopen. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from './cleanup.ts';
import { debianBin, embeddedBin, startServer } from './server.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

export interface GatewayProcess {
  readonly child: ChildProcess;
  readonly url: string;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Ends it with a signal; returns its exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** Rejects with the program's own message if it ends before it is ready. */
export async function startGatewayProcess(
  t: TestContext,
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): Promise<GatewayProcess> {
  const child = spawn(process.execPath, [cli, 'gateway', '--gateway-port=0', ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  const exited = once(child, 'exit');
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    const [code] = (await exited) as [number | null];
    return code;
  };
  onEnd(t, 'headgate gateway', async () => void (await end('SIGTERM')));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      const found =
        /SQL +(https?:\/\/\S+)\/v1\/sql[^]*SELECT/.exec(stdout)?.[1] ??
        /is not ready yet[^]*events +(https?:\/\/\S+)\/v1\/events/.exec(stdout)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once('exit', (code) => reject(new Error(`ended with ${code}: ${stderr}`)));
  });
  return { child, url, stdout: () => stdout, stderr: () => stderr, end };
}

/** A TCP port that leads to a Unix socket while it is open. */
export class Path {
  readonly #socket: string;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  port = 0;

  constructor(socket: string) {
    this.#socket = socket;
  }

  async open(): Promise<void> {
    const server = createServer((client) => {
      const target = connect(this.#socket);
      for (const it of [client, target]) {
        this.#sockets.add(it);
        it.on('error', () => {});
        it.on('close', () => {
          this.#sockets.delete(it);
          client.destroy();
          target.destroy();
        });
      }
      client.pipe(target).pipe(client);
    });
    server.listen(this.port, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    this.port = typeof address === 'object' && address !== null ? address.port : 0;
    this.#server = server;
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    for (const socket of this.#sockets) socket.destroy();
    if (server === null) return;
    server.close();
    await once(server, 'close');
  }
}

/** A PostgreSQL that has never seen Headgate, and how to reach it. */
export async function strangersServer(t: TestContext) {
  const server = await startServer(existsSync(debianBin) ? debianBin : embeddedBin);
  onEnd(t, 'server', () => server.close());
  return { server, dsn: `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}` };
}
