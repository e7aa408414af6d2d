/** The program as delivered, on free ports with its own data folder, to run a benchmark against. */
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { runJson, script, start, treeUsage } from './processes.ts';

export interface Service {
  readonly pid: number;
  /** The process whose descendant the engine is. */
  readonly enginePid: number;
  readonly ports: {
    readonly listen: { port: number };
    readonly sql: { port: number };
    readonly admin: { port: number };
    readonly gateway?: { port: number };
  };
  /** Through the SQL door. */
  readonly client: Client;
  /** The engine itself, bypassing Headgate: its Unix socket, for comparisons. */
  readonly engine: ClientConfig & { readonly host: string; readonly port: number };
  /** The URL of a webhook table in schema public. */
  url(table: string): string;
  stop(): Promise<void>;
}

export interface ServiceOptions {
  /** Lines for postgresql.conf, as a user would add them. */
  readonly engineSettings?: readonly string[];
  readonly flags?: readonly string[];
  /** `dev` by default. */
  readonly database?: string;
  /** One by default, on a machine of any size. */
  readonly listeners?: number;
  /** Besides those of the bench itself. */
  readonly env?: Readonly<Record<string, string>>;
}

const flags = [
  '--listen-host=127.0.0.1',
  '--listen-port=0',
  '--sql-port=0',
  '--gateway-port=0',
  '--admin-port=0',
];

export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-'));
  const remove = () => rm(dataDir, { recursive: true, force: true });
  try {
    const { engineSettings = [] } = options;
    if (engineSettings.length > 0) {
      // They take effect at a start, and the file exists only after the first one.
      await (await startIn(dataDir, options)).stop();
      await appendFile(join(dataDir, 'pg/postgresql.conf'), `${engineSettings.join('\n')}\n`);
    }
    const service = await startIn(dataDir, options);
    return {
      ...service,
      stop: async () => {
        await service.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** In a folder that the caller must remove. */
export async function startIn(dataDir: string, options: ServiceOptions = {}): Promise<Service> {
  const { database = 'dev', listeners = 1 } = options;
  const place = [`--data-dir=${dataDir}`, `--listeners=${listeners}`];
  const args = ['start', ...place, ...flags, ...(options.flags ?? [])];
  const child = await start(
    [script('../src/app/cli.js'), ...args],
    (text) => text.includes('Headgate is ready'),
    process.execPath,
    options.env,
  );
  try {
    const ports = JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as Service['ports'];
    const client = new Client({ host: '127.0.0.1', port: ports.sql.port, user: 'root', database });
    await client.connect();
    return {
      pid: child.pid,
      enginePid: child.pid,
      ports,
      client,
      engine: { host: join(dataDir, 'pg/run'), port: 5_432, user: 'root', database },
      url: (table) => `http://127.0.0.1:${ports.listen.port}/webhook/${database}/public/${table}`,
      stop: async () => {
        await client.end();
        await child.stop();
      },
    };
  } catch (error) {
    await child.stop();
    throw error;
  }
}

export interface Job {
  readonly url: string;
  readonly connections: number;
  readonly seconds: number;
  readonly headers: Record<string, string>;
  /** Sent in turn. */
  readonly bodies: readonly string[];
  /** Sent in turn, in place of the path of `url`. */
  readonly paths?: readonly string[];
}

export interface LoadResult {
  readonly requests: number;
  readonly other: number;
  readonly seconds: number;
  /** Latencies in ms. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** Of the load generator's process. */
  readonly loadCpuSeconds: number;
}

export interface Measured extends LoadResult {
  readonly perSecond: number;
  /** CPU time per request of the measured program. */
  readonly nodeCpuUs: number;
  readonly engineCpuUs: number;
  readonly loadCpuUs: number;
  /** Of all processes of the program. */
  readonly rssMiB: number;
  readonly largestRssMiB: number;
  readonly processes: number;
  /** Of all its processes together: a shared page counts once. */
  readonly engineMiB: number;
}

/** One run of the load generator; every answer must be 2xx. `enginePid`: the parent process of the engine. */
export async function measure(job: Job, pid: number, enginePid = pid): Promise<Measured> {
  const before = treeUsage(pid);
  const engineBefore = treeUsage(enginePid).engine;
  const load = await runJson<LoadResult>(script('./load.js'), job);
  const after = treeUsage(pid);
  const engineAfter = treeUsage(enginePid).engine;
  if (load.other > 0) throw new Error(`${load.other} requests to ${job.url} were not answered 2xx`);
  const each = (seconds: number) => (seconds * 1e6) / load.requests;
  return {
    ...load,
    perSecond: load.requests / load.seconds,
    nodeCpuUs: each(after.program.cpuSeconds - before.program.cpuSeconds),
    engineCpuUs: each(engineAfter.cpuSeconds - engineBefore.cpuSeconds),
    loadCpuUs: each(load.loadCpuSeconds),
    rssMiB: after.program.rssBytes / 2 ** 20,
    largestRssMiB: after.program.largestRssBytes / 2 ** 20,
    processes: after.program.processes,
    engineMiB: engineAfter.pssBytes / 2 ** 20,
  };
}

/** The sum of a metric over its labels. */
export async function figure({ ports }: Service, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${ports.admin.port}/metrics`)).text();
  const values = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
  return values.reduce((sum, [, value]) => sum + Number(value), 0);
}
