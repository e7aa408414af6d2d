/**
 * The load generator for PostgreSQL, in a process of its own: one statement on several connections; prints one JSON
 * line.
 */
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { Latencies } from './statistics.ts';

export interface PgJob {
  readonly config: ClientConfig;
  readonly sql: string;
  readonly connections: number;
  readonly seconds: number;
}

const job = JSON.parse(readFileSync(0, 'utf8')) as PgJob;
const latencies = new Latencies();
const end = performance.now() + job.seconds * 1_000;

async function run(): Promise<void> {
  const client = new Client(job.config);
  await client.connect();
  while (performance.now() < end) {
    const started = performance.now();
    await client.query(job.sql);
    latencies.add(performance.now() - started);
  }
  await client.end();
}

const before = process.cpuUsage();
await Promise.all(Array.from({ length: job.connections }, run));
const { user, system } = process.cpuUsage(before);
process.stdout.write(
  `${JSON.stringify({
    ...latencies.figures(),
    other: 0,
    seconds: job.seconds,
    loadCpuSeconds: (user + system) / 1e6,
  })}\n`,
);
