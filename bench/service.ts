/** The program as delivered, on free ports with its own data folder, to run a benchmark against. */
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { runJson, script, start, treeUsage } from './processes.ts';
import type { SocketJob, SocketResult } from './socket-load.ts';

export interface Service {
  readonly pid: number;
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
  /** Besides those of the bench itself. */
  readonly env?: Readonly<Record<string, string>>;
}

const flags = [
  '--listen-host=127.0.0.1',
  '--listen-port=0',
  '--sql-port=0',
  '--gateway-port=0',
  '--admin-port=0',
  '--listeners=1',
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
  const { database = 'dev' } = options;
  const args = ['start', `--data-dir=${dataDir}`, ...flags, ...(options.flags ?? [])];
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
  /** Of all its processes together: a shared page counts once. */
  readonly engineMiB: number;
}

/** One run of the load generator; every answer must be 2xx. `enginePid`: the parent process of the engine. */
export async function measure(job: Job, pid: number, enginePid = pid): Promise<Measured> {
  const { done: load, ...used } = await counting(pid, enginePid, () =>
    runJson<LoadResult>(script('./load.js'), job),
  );
  if (load.other > 0) throw new Error(`${load.other} requests to ${job.url} were not answered 2xx`);
  const each = (seconds: number) => (seconds * 1e6) / load.requests;
  return {
    ...load,
    perSecond: load.requests / load.seconds,
    nodeCpuUs: each(used.nodeSeconds),
    engineCpuUs: each(used.engineSeconds),
    loadCpuUs: each(load.loadCpuSeconds),
    rssMiB: used.program.rssBytes / 2 ** 20,
    engineMiB: used.engine.pssBytes / 2 ** 20,
  };
}

/** What `load` took of the processor, and the state of the processes after it. */
async function counting<T>(pid: number, enginePid: number, load: () => Promise<T>) {
  const look = () => ({ program: treeUsage(pid).program, engine: treeUsage(enginePid).engine });
  const before = look();
  const done = await load();
  const after = look();
  const nodeSeconds = after.program.cpuSeconds - before.program.cpuSeconds;
  return { done, ...after, nodeSeconds, engineSeconds: after.engine.cpuSeconds - before.engine.cpuSeconds };
}

export interface SocketMeasured extends SocketResult {
  /** Rows. */
  readonly perSecond: number;
  /** CPU time per row. */
  readonly nodeCpuUs: number;
  readonly engineCpuUs: number;
}

/** One WebSocket with batches of 100 items, 64 under way; `table` as in the path, with its schema. */
export async function measureSocket(
  { pid, ports }: Service,
  table: string,
  items: readonly string[],
  seconds: number,
): Promise<SocketMeasured> {
  const url = `ws://127.0.0.1:${ports.listen.port}/ingest/dev/${table}`;
  const job: SocketJob = { url, seconds, items, perBatch: 100, underWay: 64 };
  const { done, nodeSeconds, engineSeconds } = await counting(pid, pid, () =>
    runJson<SocketResult>(script('./socket-load.js'), job),
  );
  const each = (spent: number) => (spent * 1e6) / done.rows;
  return {
    ...done,
    perSecond: done.rows / done.seconds,
    nodeCpuUs: each(nodeSeconds),
    engineCpuUs: each(engineSeconds),
  };
}

/** The sum of a metric over its labels. */
export async function figure({ ports }: Service, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${ports.admin.port}/metrics`)).text();
  const values = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
  return values.reduce((sum, [, value]) => sum + Number(value), 0);
}
