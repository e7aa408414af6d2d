/** The program as it is delivered, on free ports with a data folder of its own, for a benchmark to be run against. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { cpuOfDescendants, runJson, script, start, usageOf } from './processes.ts';

export interface Service {
  readonly pid: number;
  readonly ports: {
    readonly listen: { port: number };
    readonly sql: { port: number };
    readonly admin: { port: number };
    readonly gateway?: { port: number };
  };
  readonly client: Client;
  /** Of a webhook table in schema public. */
  url(table: string): string;
  stop(): Promise<void>;
}

export async function startService(more: readonly string[] = []): Promise<Service> {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-'));
  const flags = [
    '--listen-host=127.0.0.1',
    '--listen-port=0',
    '--sql-port=0',
    '--gateway-port=0',
    '--admin-port=0',
    // One process, whatever the machine: figures are compared.
    ...(more.some((flag) => flag.startsWith('--listeners=')) ? [] : ['--listeners=1']),
    ...more,
  ];
  const child = await start([script('../src/cli.js'), 'start', `--data-dir=${dataDir}`, ...flags], (text) =>
    text.includes('SELECT * FROM'),
  );
  const ports = JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as Service['ports'];
  const client = new Client({ host: '127.0.0.1', port: ports.sql.port, user: 'root', database: 'dev' });
  await client.connect();
  return {
    pid: child.pid,
    ports,
    client,
    url: (table) => `http://127.0.0.1:${ports.listen.port}/webhook/dev/public/${table}`,
    stop: async () => {
      await client.end();
      await child.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

export interface Job {
  readonly url: string;
  readonly connections: number;
  readonly seconds: number;
  readonly headers: Record<string, string>;
  /** Sent in turn on every connection. */
  readonly bodies: readonly string[];
}

export interface LoadResult {
  readonly requests: number;
  readonly other: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface Measured extends LoadResult {
  readonly perSecond: number;
  readonly nodeCpuUs: number;
  readonly engineCpuUs: number;
  readonly rssMiB: number;
}

/** One run of the load generator against the process `pid` and its children. */
export async function measure(job: Job, pid: number): Promise<Measured> {
  const before = usageOf(pid);
  const engineBefore = cpuOfDescendants(pid);
  const load = await runJson<LoadResult>(script('./load.js'), job);
  if (load.other > 0) throw new Error(`${load.other} requests to ${job.url} were not answered 2xx`);
  const after = usageOf(pid);
  return {
    ...load,
    perSecond: load.requests / load.seconds,
    nodeCpuUs: ((after.cpuSeconds - before.cpuSeconds) * 1e6) / load.requests,
    engineCpuUs: ((cpuOfDescendants(pid) - engineBefore) * 1e6) / load.requests,
    rssMiB: after.rssBytes / 2 ** 20,
  };
}
