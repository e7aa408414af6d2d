/**
 * `npm run bench:soak`: half of one table's rate at 256 connections, for half an hour (BENCH_SECONDS), as an open loop;
 * memory, descriptors and latency over time. The table is emptied after some million rows, so that the disk does not
 * fill up.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { descriptorsOfTree, script, treeUsage } from './processes.ts';
import type { Interval, RawJob } from './raw-load.ts';
import { stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { measure, startService } from './service.ts';
import type { LoadResult, Service } from './service.ts';
import { body, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';
import { linePlot } from './svg.ts';

const connections = 256;
const tableRowsMax = 5_000_000;
const headers = signedHeaders(body);

interface Sample extends Interval {
  readonly rssMiB: number;
  readonly heapMiB: number;
  readonly engineMiB: number;
  readonly nodeDescriptors: number;
  readonly engineDescriptors: number;
  readonly nodeCpuSeconds: number;
}

async function sampleOf(service: Service, interval: Interval): Promise<Sample> {
  const metrics = await (await fetch(`http://127.0.0.1:${service.ports.admin.port}/metrics`)).text();
  const heap = /^nodejs_heap_size_used_bytes(?:\{[^}]*\})? (\S+)/m.exec(metrics)?.[1];
  const { program, engine } = treeUsage(service.pid);
  const descriptors = descriptorsOfTree(service.pid);
  return {
    ...interval,
    rssMiB: program.rssBytes / 2 ** 20,
    heapMiB: Number(heap ?? Number.NaN) / 2 ** 20,
    engineMiB: engine.pssBytes / 2 ** 20,
    nodeDescriptors: descriptors.program,
    engineDescriptors: descriptors.engine,
    nodeCpuSeconds: program.cpuSeconds,
  };
}

/** The load, and a sample at the end of each interval. */
async function watch(
  service: Service,
  job: RawJob,
  ended: AbortSignal,
): Promise<{ samples: Sample[]; total: LoadResult }> {
  const load = spawn(process.execPath, [script('./raw-load.js')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    signal: ended,
  });
  const closed = once(load, 'close');
  load.stdin.end(JSON.stringify(job));
  const samples: Sample[] = [];
  let total: LoadResult | null = null;
  let rows = 0;
  for await (const text of createInterface({ input: load.stdout })) {
    const said = JSON.parse(text) as Interval | LoadResult;
    if (!('atSeconds' in said)) {
      total = said;
      continue;
    }
    const sample = await sampleOf(service, said);
    samples.push(sample);
    console.error(
      `${sample.atSeconds.toFixed(0)} s: ${(sample.requests / sample.seconds).toFixed(0)}/s, p50 ${sample.p50.toFixed(1)} ms, p99 ${sample.p99.toFixed(1)} ms, ${sample.rssMiB.toFixed(0)} MiB, ${sample.nodeDescriptors} descriptors`,
    );
    rows += said.requests;
    if (rows < tableRowsMax) continue;
    await service.client.query('TRUNCATE events');
    rows = 0;
  }
  await closed;
  if (total === null) throw new Error('the load generator ended without a result');
  return { samples, total };
}

type Figure = readonly [name: string, digits: number, of: (sample: Sample) => number];

const figures: readonly Figure[] = [
  ['answers a second', 0, (s) => s.requests / s.seconds],
  ['p50, ms', 2, (s) => s.p50],
  ['p99, ms', 1, (s) => s.p99],
  ['node memory (RSS), MiB', 0, (s) => s.rssMiB],
  ['node heap in use, MiB', 0, (s) => s.heapMiB],
  ['engine memory, MiB', 0, (s) => s.engineMiB],
  ['node descriptors', 0, (s) => s.nodeDescriptors],
  ['engine descriptors', 0, (s) => s.engineDescriptors],
];

/** Compares the second sixth, after warming up, with the last. */
function compared(samples: readonly Sample[]): string {
  const sixth = Math.max(1, Math.floor(samples.length / 6));
  const early = samples.slice(sixth, 2 * sixth);
  const late = samples.slice(-sixth);
  const lines = figures.map(([name, digits, of]) => {
    const [a, b] = [median(early.map(of)), median(late.map(of))];
    return [name, a.toFixed(digits), b.toFixed(digits), (b / a).toFixed(2), Math.max(...samples.map(of).filter((it) => !Number.isNaN(it))).toFixed(digits)];
  }); // prettier-ignore
  return table(['', 'second sixth of the time', 'last sixth', 'ratio', 'most'], lines, 1);
}

function plots(samples: readonly Sample[]): Record<string, string> {
  const line = (name: string, of: (sample: Sample) => number) => ({
    name,
    points: samples.map((sample) => [sample.atSeconds / 60, of(sample)] as const),
  });
  const x = { x: 'minutes' };
  return {
    'soak-memory.svg': linePlot({
      ...x,
      title: 'Memory at half load',
      y: 'MiB',
      lines: [
        line('node RSS', (s) => s.rssMiB),
        line('node heap in use', (s) => s.heapMiB),
        line('engine', (s) => s.engineMiB),
      ],
    }),
    'soak-latency.svg': linePlot({
      ...x,
      title: 'Latency at half load, open loop',
      y: 'ms',
      lines: [line('p50', (s) => s.p50), line('p99', (s) => s.p99)],
      mark: { y: 20, name: 'aim for p99' },
    }),
    'soak-descriptors.svg': linePlot({
      ...x,
      title: 'Open descriptors at half load',
      y: 'descriptors',
      lines: [line('node', (s) => s.nodeDescriptors), line('engine', (s) => s.engineDescriptors)],
    }),
  };
}

/** The total of inserted rows, since the table is emptied from time to time. */
async function inserted(service: Service): Promise<number> {
  await service.client.query('select pg_stat_force_next_flush()');
  const { rows } = await service.client.query<{ n: string }>(
    "select n_tup_ins as n from pg_stat_user_tables where relid = 'events'::regclass",
  );
  return Number(rows[0]?.n);
}

export const soak: Bench = {
  name: 'soak',
  apart: true,
  run: async ({ seconds }) => {
    const service = await startService();
    const ended = new AbortController();
    try {
      await createSigned(service.client, 'events');
      const job = { url: service.url('events'), connections, headers, bodies: [body] };
      const peakSeconds = Math.min(seconds, 5);
      const peaks: number[] = [];
      for (let round = 0; round <= 3; round++) {
        const { perSecond } = await measure({ ...job, seconds: peakSeconds }, service.pid);
        if (round > 0) peaks.push(perSecond);
      }
      await service.client.query('TRUNCATE events');
      const perSecond = median(peaks) / 2;
      const intervalSeconds = Math.max(1, Math.round(seconds / 180));
      const load: RawJob = { url: job.url, headers, body, connections, seconds, perSecond, intervalSeconds };
      const { samples, total } = await watch(service, load, ended.signal);
      const first = samples[0];
      const last = samples.at(-1);
      const cpuUs =
        first === undefined || last === undefined || first === last
          ? Number.NaN
          : ((last.nodeCpuSeconds - first.nodeCpuSeconds) * 1e6) /
            samples.slice(1).reduce((sum, { requests }) => sum + requests, 0);
      const stored = await inserted(service);
      return {
        text: [
          `${stamp()}; ${(seconds / 60).toFixed(1)} minutes, ${perSecond.toFixed(0)} requests a second due over ${connections} connections, half of the ${median(peaks).toFixed(0)} it takes at most here. ${total.requests.toLocaleString('en-US')} answered 200, ${total.other} not; ${stored.toLocaleString('en-US')} rows inserted, those of the peak included. All the time: p50 ${total.p50.toFixed(2)} ms, p99 ${total.p99.toFixed(1)} ms, most ${total.max.toFixed(0)} ms; ${cpuUs.toFixed(0)} µs of node's CPU a request. Latencies count from when a request was due.`,
          '',
          compared(samples),
        ].join('\n'),
        plots: plots(samples),
      };
    } finally {
      ended.abort();
      await service.stop();
    }
  },
};
