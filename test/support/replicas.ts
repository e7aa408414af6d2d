/**
 * Two PostgreSQL servers, of which one replicates the other synchronously: what the first has committed, the second has
 * on its disk. Uses a distribution's programs, because the embedded server lacks pg_basebackup.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { launch, serverUser, type RunningServer } from './server.ts';

interface Node {
  readonly folder: string;
  readonly data: string;
  readonly port: number;
  running: RunningServer | null;
}

export class Replicas {
  readonly #bin: string;
  readonly #folder: string;
  readonly #nodes: readonly [Node, Node];
  #primary = 0;

  /** `bin`: folder of initdb, postgres and pg_basebackup. Resolves once the standby replicates. */
  static async start(bin: string): Promise<Replicas> {
    const replicas = new Replicas(bin);
    try {
      await replicas.#begin();
      return replicas;
    } catch (error) {
      await replicas.close();
      throw error;
    }
  }

  private constructor(bin: string) {
    this.#bin = bin;
    this.#folder = mkdtempSync(join(tmpdir(), 'headgate-replicas-'));
    this.#own(this.#folder);
    const node = (name: string, port: number): Node => {
      const folder = join(this.#folder, name);
      mkdirSync(folder);
      this.#own(folder);
      return { folder, data: join(folder, 'data'), port, running: null };
    };
    this.#nodes = [node('a', 5432), node('b', 5433)];
  }

  /** Both servers, always in the same order. */
  get databaseUrl(): string {
    const of = (what: (node: Node) => string | number) => this.#nodes.map(what).join(',');
    return `postgresql://root@/postgres?host=${of((n) => n.folder)}&port=${of((n) => n.port)}`;
  }

  /** Kills all processes of the primary at once, as when its machine loses power. */
  kill(): Promise<void> {
    return this.stop('SIGKILL');
  }

  /** Stops the primary; `SIGINT`: as an administrator would. */
  async stop(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    const node = this.#node(this.#primary);
    const { running } = node;
    node.running = null;
    await running?.end(signal);
  }

  /** Restarts the stopped primary. */
  again(): Promise<void> {
    return this.#launch(this.#node(this.#primary));
  }

  /** From now on the standby accepts writes, and waits for no other server. */
  async promote(): Promise<void> {
    this.#primary = 1 - this.#primary;
    await this.#run(this.#node(this.#primary), 'select pg_promote()');
  }

  /** Recreates the former primary as a standby of the present one. Resolves once every commit waits for it. */
  async follow(): Promise<void> {
    const [primary, standby] = [this.#node(this.#primary), this.#node(1 - this.#primary)];
    rmSync(standby.data, { recursive: true, force: true });
    const from = `host=${primary.folder} port=${primary.port} user=root application_name=standby`;
    this.#execute('pg_basebackup', ['-D', standby.data, '-d', from, '-R', '-X', 'stream', '-c', 'fast']);
    await this.#launch(standby);
    // Only once it has a standby: a commit would wait indefinitely.
    await this.#run(primary, `alter system set synchronous_standby_names = 'standby'`);
    await this.#run(primary, 'select pg_reload_conf()');
    await this.#run(primary, waitUntilSynchronous);
  }

  async close(): Promise<void> {
    for (const node of this.#nodes) await node.running?.end('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #begin(): Promise<void> {
    const [first] = this.#nodes;
    this.#execute('initdb', [
      '-D',
      first.data,
      '-U',
      'root',
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--locale=C',
      '-N',
    ]);
    await this.#launch(first);
    await this.follow();
  }

  async #launch(node: Node): Promise<void> {
    // A standby waits for no other server; as a primary it does, once the next standby replicates it.
    const settings = ['listen_addresses=', `port=${node.port}`, 'max_wal_senders=5', 'hot_standby=on'];
    node.running = await launch(this.#bin, node.data, node.folder, settings);
    await this.#run(node, 'select 1');
  }

  #node(index: number): Node {
    return this.#nodes[index === 0 ? 0 : 1];
  }

  #own(folder: string): void {
    const { uid, gid } = serverUser();
    chmodSync(folder, 0o700);
    if (uid !== undefined) chownSync(folder, uid, gid ?? uid);
  }

  #execute(program: string, args: readonly string[]): void {
    const ran = spawnSync(join(this.#bin, program), args, { ...serverUser(), cwd: '/', encoding: 'utf8' });
    if (ran.status !== 0) throw new Error(`${program}: ${ran.stderr}`);
  }

  async #run(node: Node, sql: string): Promise<void> {
    const client = new Client({ host: node.folder, port: node.port, user: 'root', database: 'postgres' });
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  }
}

const waitUntilSynchronous = `do $$ begin
  loop
    perform pg_stat_clear_snapshot();
    exit when exists (select from pg_stat_replication where sync_state = 'sync' and state = 'streaming');
    perform pg_sleep(0.01);
  end loop;
end $$`;
