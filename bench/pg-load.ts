/** The load generator for PostgreSQL, a process of its own: one statement on some connections; prints one JSON line. */
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';

interface Job {
  readonly config: ClientConfig;
  readonly sql: string;
  readonly connections: number;
  readonly seconds: number;
}

const job = JSON.parse(readFileSync(0, 'utf8')) as Job;
const latencies: number[] = [];
const end = performance.now() + job.seconds * 1_000;

async function run(): Promise<void> {
  const client = new Client(job.config);
  await client.connect();
  while (performance.now() < end) {
    const started = performance.now();
    await client.query(job.sql);
    latencies.push(performance.now() - started);
  }
  await client.end();
}

await Promise.all(Array.from({ length: job.connections }, run));
latencies.sort((a, b) => a - b);
const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? 0;
process.stdout.write(
  `${JSON.stringify({ requests: latencies.length, other: 0, seconds: job.seconds, p50: at(0.5), p99: at(0.99), max: at(1) })}\n`,
);
