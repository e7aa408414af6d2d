/**
 * Signed, durable single events into a webhook table, compared with the same requests to a bare node:http server that
 * checks the same signature and stores nothing; then half of the table's rate at 256 connections, as an open loop.
 */
import { runJson, script, start } from './processes.ts';
import type { RawJob } from './raw-load.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { measure, startService } from './service.ts';
import type { LoadResult, Measured } from './service.ts';
import { body, createSigned, secret, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const connectionCounts = [1, 16, 64, 256, 1_024] as const;
/** The number of connections that the goals refer to. */
const counted = 256;
const headers = signedHeaders(body);

type Turn = Readonly<Record<'ours' | 'bare', Measured>>;

const of = (turns: readonly Turn[], pick: (turn: Turn) => number) => median(turns.map(pick));

const beside = ({ ours, bare }: Turn) => ours.perSecond / bare.perSecond;

async function halfLoad(url: string, perSecond: number, seconds: number): Promise<LoadResult> {
  const job: RawJob = { url, connections: counted, seconds, perSecond, headers, body };
  const result = await runJson<LoadResult>(script('./raw-load.js'), job);
  if (result.other > 0) throw new Error(`${result.other} requests at half load were not answered 200`);
  console.error(`half load, ${perSecond.toFixed(0)}/s: p50 ${result.p50} ms, p99 ${result.p99} ms`);
  return result;
}

/** Headgate and the server that stores nothing, in turns. */
async function halfLoads(ours: string, bare: string, perSecond: number, { rounds, seconds }: Effort) {
  const halves: Readonly<Record<'ours' | 'bare', LoadResult>>[] = [];
  for (let round = 0; round < rounds; round++)
    halves.push({
      ours: await halfLoad(ours, perSecond, seconds),
      bare: await halfLoad(bare, perSecond, seconds),
    });
  const p99 = (name: 'ours' | 'bare') => halves.map((half) => half[name].p99);
  const p50 = median(halves.map(({ ours: { p50 } }) => p50));
  const most = Math.max(...halves.map(({ ours: { max } }) => max));
  return {
    text: [
      `Half load: ${perSecond.toFixed(0)} requests a second over ${counted} connections, due at even distances whether or not earlier ones were answered, each latency from when its request was due (an open loop), after a second of the same:`,
      `p50 **${p50.toFixed(1)}** ms, p99 ${spread(p99('ours'), 1)} ms, most ${most.toFixed(0)} ms; the bare server: p99 ${spread(p99('bare'), 1)} ms.`,
    ].join(' '),
    requests: halves.reduce((sum, { ours: { requests } }) => sum + requests, 0),
    p99: median(p99('ours')),
    times: median(halves.map(({ ours: one, bare: other }) => one.p99 / other.p99)),
  };
}

function rates(measured: ReadonlyMap<number, readonly Turn[]>): string {
  const lines = [...measured].map(([connections, turns]) => [
    connections,
    of(turns, (r) => r.ours.perSecond).toFixed(0),
    of(turns, (r) => r.bare.perSecond).toFixed(0),
    spread(turns.map(beside)),
    `${of(turns, (r) => r.ours.p50).toFixed(2)} / ${of(turns, (r) => r.ours.p99).toFixed(1)}`,
    `${of(turns, (r) => r.bare.p50).toFixed(2)} / ${of(turns, (r) => r.bare.p99).toFixed(1)}`,
  ]);
  const names = ['Headgate, req/s', 'bare, req/s', 'ratio (min–max)'];
  return table(['connections', ...names, 'Headgate p50 / p99, ms', 'bare p50 / p99, ms'], lines);
}

function costs(measured: ReadonlyMap<number, readonly Turn[]>): string {
  const lines = [...measured].map(([connections, turns]) => {
    const rounded = (pick: (turn: Turn) => number) => of(turns, pick).toFixed(0);
    return [
      connections,
      `${rounded((r) => r.ours.nodeCpuUs)} / ${rounded((r) => r.ours.engineCpuUs)}`,
      rounded((r) => r.bare.nodeCpuUs),
      rounded((r) => r.ours.loadCpuUs),
      rounded((r) => r.ours.rssMiB),
      rounded((r) => r.ours.engineMiB),
      rounded((r) => r.bare.rssMiB),
    ];
  });
  const head = [
    'connections',
    'CPU a request, µs: node / engine',
    'bare',
    'load generator',
    'memory, MiB: node',
    'engine',
    'bare',
  ];
  return table(head, lines);
}

export const singleEvents: Bench = {
  name: 'single-events',
  run: async (effort) => {
    const { rounds, seconds } = effort;
    const bare = await start([script('./bare-server.js'), secret], (text) => text.includes('\n'));
    const service = await startService().catch(async (error: unknown) => {
      await bare.stop();
      throw error;
    });
    try {
      await createSigned(service.client, 'events');
      const measured = new Map<number, readonly Turn[]>();
      for (const connections of connectionCounts) {
        const job = { connections, seconds, headers, bodies: [body] };
        const turns = await inTurns(rounds, `${connections} connections`, {
          ours: () => measure({ ...job, url: service.url('events') }, service.pid),
          bare: () => measure({ ...job, url: `http://127.0.0.1:${bare.output.trim()}/` }, bare.pid),
        });
        measured.set(connections, turns);
      }
      const turns = measured.get(counted) ?? [];
      const half = of(turns, (r) => r.ours.perSecond) / 2;
      const bareUrl = `http://127.0.0.1:${bare.output.trim()}/`;
      const halves = await halfLoads(service.url('events'), bareUrl, half, effort);
      const { rows } = await service.client.query<{ n: string }>('select count(*) as n from events');
      const answered = [...measured.values()].flat().map(({ ours }) => ours.requests);
      const stored = answered.reduce((sum, requests) => sum + requests, halves.requests);
      // wrk stops without reading its last answers: those rows are stored but not counted.
      if (Number(rows[0]?.n) < stored) throw new Error(`${stored} answered 200, only ${rows[0]?.n} stored`);
      return {
        text: [
          `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. Body ${body.length} bytes. Server, engine and load generator share the machine.`,
          '',
          rates(measured),
          '',
          costs(measured),
          '',
          halves.text,
        ].join('\n'),
        reached: {
          bare: of(turns, beside),
          bare1024: of(measured.get(1_024) ?? [], beside),
          bare64: of(measured.get(64) ?? [], beside),
          bare16: of(measured.get(16) ?? [], beside),
          halfLoad: halves.p99,
          halfLoadTimes: halves.times,
          memory: of(turns, (r) => r.ours.rssMiB),
        },
      };
    } finally {
      await service.stop();
      await bare.stop();
    }
  },
};
