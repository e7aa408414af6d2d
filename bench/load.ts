/** The load generator, a process of its own: autocannon with one fixed request; prints one JSON line. */
import { readFileSync } from 'node:fs';
import autocannon from 'autocannon';

interface LoadJob {
  readonly url: string;
  readonly connections: number;
  readonly seconds: number;
  readonly body: string;
  readonly headers: Record<string, string>;
}

const job = JSON.parse(readFileSync(0, 'utf8')) as LoadJob;
const result = await autocannon({
  url: job.url,
  connections: job.connections,
  duration: job.seconds,
  method: 'POST',
  body: job.body,
  headers: job.headers,
});
const { p50, p99, max } = result.latency;
process.stdout.write(
  `${JSON.stringify({ requests: result['2xx'], other: result.non2xx + result.errors, seconds: result.duration, p50, p99, max })}\n`,
);
