/** The load generator, a process of its own: autocannon; prints one JSON line. */
import { readFileSync } from 'node:fs';
import autocannon from 'autocannon';
import type { Job } from './service.ts';
import { Latencies } from './statistics.ts';

const job = JSON.parse(readFileSync(0, 'utf8')) as Job;
const [only, ...more] = job.bodies;
const latencies = new Latencies();
const { paths } = job;
let next = 0;

/** Each connection has its share of the paths and begins at another of the bodies, so that all are met at once. */
function ownRequests(client: autocannon.Client): void {
  const mine = next++;
  const own = paths?.filter((_, i) => i % job.connections === mine % job.connections) ?? [undefined];
  const bodies = job.bodies.length === 1 ? job.bodies : shareOf(job.bodies, mine);
  const length = Math.max(own.length, bodies.length);
  client.setRequests(
    Array.from({ length }, (_, i) => {
      const path = own[i % own.length];
      return {
        method: 'POST',
        headers: job.headers,
        body: bodies[i % bodies.length] ?? '',
        ...(path === undefined ? {} : { path }),
      };
    }),
  );
}

function shareOf(bodies: readonly string[], mine: number): readonly string[] {
  const size = Math.max(1, Math.floor(bodies.length / job.connections));
  return Array.from({ length: size }, (_, i) => bodies[(mine * size + i) % bodies.length] ?? '');
}

const before = process.cpuUsage();
const result = await new Promise<autocannon.Result>((resolve, reject) => {
  const instance = autocannon(
    {
      url: job.url,
      connections: job.connections,
      duration: job.seconds,
      method: 'POST',
      headers: job.headers,
      ...(job.ownRequests === true
        ? { setupClient: ownRequests, body: only ?? '' }
        : more.length === 0
          ? { body: only ?? '' }
          : { requests: job.bodies.map((body) => ({ body })) }),
    },
    (error: Error | null, done) => (error === null ? resolve(done) : reject(error)),
  );
  // autocannon's own histogram is in whole milliseconds.
  instance.on('response', (_client, _status, _bytes, ms) => latencies.add(ms));
});
const { user, system } = process.cpuUsage(before);
process.stdout.write(
  `${JSON.stringify({
    requests: result['2xx'],
    other: result.non2xx + result.errors,
    seconds: result.duration,
    p50: latencies.at(0.5),
    p99: latencies.at(0.99),
    max: latencies.maxMs,
    loadCpuSeconds: (user + system) / 1e6,
    loadRssBytes: process.memoryUsage.rss(),
  })}\n`,
);
