/** A PostgreSQL that can be killed, paused and restarted on the same data, on a Unix socket. */
import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { childrenOf } from '../../src/engine/server-processes.ts';
import { onEnd } from './cleanup.ts';
import { connectionTimeoutMillis } from './headgate.ts';
import { signalAll } from './signal-all.ts';
import { embeddedBin, launch, makeCluster, reachable, serverUser } from './server.ts';
import type { RunningServer } from './server.ts';

export class MortalServer {
  readonly folder: string;
  readonly data: string;
  readonly #programs: string;
  #running: RunningServer | null = null;

  readonly #settings: readonly string[];

  private constructor(folder: string, programs: string, settings: readonly string[]) {
    this.#settings = settings;
    this.folder = folder;
    this.data = join(folder, 'data');
    this.#programs = programs;
  }

  /** Running; removed with the test. */
  static async start(t: TestContext, settings: readonly string[] = ['fsync=off']): Promise<MortalServer> {
    const server = await MortalServer.make(settings);
    onEnd(t, server.folder, () => server.remove());
    return server;
  }

  /** Running; the caller must call `remove`. */
  static async make(settings: readonly string[]): Promise<MortalServer> {
    const user = serverUser();
    const folder = mkdtempSync(join(tmpdir(), 'headgate-mortal-'));
    chmodSync(folder, 0o700);
    if (user.uid !== undefined) chownSync(folder, user.uid, user.gid ?? user.uid);
    const server = new MortalServer(folder, reachable(embeddedBin, folder, user), settings);
    makeCluster(embeddedBin, server.#programs, server.data);
    await server.start();
    return server;
  }

  get databaseUrl(): string {
    return `postgresql://root@/postgres?host=${this.folder}`;
  }

  get isRunning(): boolean {
    return this.#running !== null;
  }

  async start(): Promise<void> {
    this.#running ??= await launch(this.#programs, this.data, this.folder, [
      'listen_addresses=',
      ...this.#settings,
    ]);
  }

  /** Kills all of its processes at once. */
  async kill(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    await running?.end('SIGKILL');
  }

  /** As by `pg_ctl restart`: clients are disconnected. */
  async restart(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    await running?.end('SIGINT');
    await this.start();
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** `SIGSTOP`, `SIGCONT`: to all of its processes. */
  async signal(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    if (this.#running === null) return;
    const { pid } = this.#running;
    signalAll([pid], signal);
    signalAll(await childrenOf(pid), signal);
  }

  /** A session of its superuser; closed with the test. */
  async connect(t: TestContext): Promise<Client> {
    const client = new Client({
      host: this.folder,
      user: 'root',
      database: 'postgres',
      connectionTimeoutMillis,
    });
    client.on('error', () => {});
    await client.connect();
    onEnd(t, 'client', () => client.end().catch(() => {}));
    return client;
  }
}
