/** The load generator, a process of its own: autocannon; prints one JSON line. */
import { readFileSync } from 'node:fs';
import autocannon from 'autocannon';
import type { Job } from './service.ts';

const job = JSON.parse(readFileSync(0, 'utf8')) as Job;
const [only, ...more] = job.bodies;
const result = await autocannon({
  url: job.url,
  connections: job.connections,
  duration: job.seconds,
  method: 'POST',
  headers: job.headers,
  ...(more.length === 0 ? { body: only ?? '' } : { requests: job.bodies.map((body) => ({ body })) }),
});
const { p50, p99, max } = result.latency;
process.stdout.write(
  `${JSON.stringify({ requests: result['2xx'], other: result.non2xx + result.errors, seconds: result.duration, p50, p99, max })}\n`,
);
