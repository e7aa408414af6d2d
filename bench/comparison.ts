/**
 * Signed, durable single events at 256 connections (BENCH_CONNECTIONS): Headgate, and programs written by hand for this one task, in turns in one run. Each checks the
 * same signature and stores the same bodies in a table of its own in the same engine, over its Unix socket, with fsync on. A contestant that cannot run
 * loses only its own line.
 */
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { script, source, start } from './processes.ts';
import { spread, stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { measure, startService } from './service.ts';
import type { Measured, Service } from './service.ts';
import { body, createSigned, secret, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const connections = Number(process.env['BENCH_CONNECTIONS'] ?? 256);

interface Contestant {
  /** The table with its rows; null: it stores nothing. */
  readonly table: string | null;
  /** One run of the load. */
  run(seconds: number): Promise<Measured>;
  stop(): Promise<void>;
}

interface Entry {
  readonly name: string;
  readonly open: (service: Service) => Promise<Contestant>;
}

const load = (url: string, seconds: number) => ({
  url,
  connections,
  seconds,
  headers: signedHeaders(body),
  bodies: [body],
});

async function headgate(service: Service): Promise<Contestant> {
  await createSigned(service.client, 'events');
  return {
    table: 'events',
    run: (seconds) => measure(load(service.url('events'), seconds), service.pid),
    stop: () => Promise.resolve(),
  };
}

/** A program that prints its port. */
async function program(
  service: Service,
  into: string | null,
  args: readonly string[],
  command = process.execPath,
): Promise<Contestant> {
  if (into !== null) await service.client.query(`CREATE TABLE ${into} (data JSONB)`);
  const started = await start(args, (text) => text.includes('\n'), command);
  const url = `http://127.0.0.1:${started.output.trim()}/`;
  return {
    table: into,
    run: (seconds) => measure(load(url, seconds), started.pid, service.pid),
    stop: () => started.stop(),
  };
}

function fastify(pool: number, form: 'plain' | 'prepared'): Entry['open'] {
  return (service) => {
    const into = `by_hand_${pool}`;
    const args = [secret, JSON.stringify(service.engine), into, `${pool}`, form];
    return program(service, into, [source('fastify.mjs'), ...args]);
  };
}

/** Built by the command that runs it; Go keeps what it has fetched and compiled. */
function goPeer(writers: number): Entry['open'] {
  return (service) => {
    const peer = join(tmpdir(), `headgate-bench-go-${process.pid}`);
    const env = { ...process.env, CGO_ENABLED: '0' };
    const built = spawnSync('go', ['build', '-o', peer, '.'], { cwd: source('go'), env, encoding: 'utf8' });
    if (built.error !== undefined) throw new Error('the command `go` is not installed');
    if (built.status !== 0) throw new Error(`go build: ${built.stderr.trim()}`);
    const { host, port, user = '', database = '' } = service.engine;
    const dsn = `host=${host} port=${port} user=${user} dbname=${database} sslmode=disable`;
    const into = `go_${writers}`;
    return program(service, into, [secret, dsn, into, `${writers}`], peer);
  };
}

const ours = 'Headgate';
const byHand = ['Fastify + `pg`, pool of 10', 'Fastify + `pg`, pool of 32, prepared'] as const;
const go = [
  'Go, `fasthttp` + COPY of `pgx`, one writer',
  'Go, `fasthttp` + COPY of `pgx`, four writers',
] as const;

const entries: readonly Entry[] = [
  { name: ours, open: headgate },
  {
    name: 'bare `node:http`, stores nothing',
    open: (service) => program(service, null, [script('./bare-server.js'), secret]),
  },
  { name: byHand[0], open: fastify(10, 'plain') },
  { name: byHand[1], open: fastify(32, 'prepared') },
  { name: go[0], open: goPeer(1) },
  { name: go[1], open: goPeer(4) },
];

interface Running extends Entry {
  readonly contestant: Contestant;
  readonly results: Measured[];
}

/** The contestants that run, and why the others do not. */
async function race(
  service: Service,
  running: Running[],
  failed: Map<string, string>,
  effort: { readonly rounds: number; readonly seconds: number },
): Promise<void> {
  for (let round = 0; round <= effort.rounds; round++) {
    for (const entry of running) {
      if (failed.has(entry.name)) continue;
      try {
        // What the previous one wrote is on disk before the next starts.
        await service.client.query('CHECKPOINT');
        const result = await entry.contestant.run(effort.seconds);
        console.error(`${entry.name}${round === 0 ? ' (warm-up)' : ''}: ${result.perSecond.toFixed(0)}/s`);
        if (round > 0) entry.results.push(result);
      } catch (error) {
        failed.set(entry.name, why(error));
      }
    }
  }
}

/** Every request answered 2xx must be in its table, for all contestants. */
async function verify(service: Service, running: readonly Running[], failed: Map<string, string>): Promise<void> {
  for (const { name, contestant, results } of running) {
    if (contestant.table === null || failed.has(name)) continue;
    const { rows } = await service.client.query<{ n: string }>(`SELECT count(*) AS n FROM ${contestant.table}`);
    const stored = Number(rows[0]?.n);
    const answered = results.reduce((sum, { requests }) => sum + requests, 0);
    if (stored < answered) failed.set(name, `${answered} requests were answered 2xx, ${stored} rows stored`);
  }
} // prettier-ignore

function why(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '';
}

function lines(running: readonly Running[]): (string | number)[][] {
  const rates = running.find(({ name }) => name === ours)?.results.map((it) => it.perSecond) ?? [];
  return running.map(({ name, results }) => {
    const of = (pick: (m: Measured) => number, digits: number) => {
      const value = median(results.map(pick));
      return Number.isNaN(value) ? '' : value.toFixed(digits);
    };
    const ratios = results.map((it, round) => (rates[round] ?? Number.NaN) / it.perSecond);
    return [
      name,
      spread(results.map((it) => it.perSecond), 0),
      name === ours ? '' : spread(ratios, Math.max(...ratios) < 10 ? 2 : 0),
      `${of((m) => m.p50, 1)} / ${of((m) => m.p99, 1)}`,
      of((m) => m.other, 0),
      `${of((m) => m.nodeCpuUs, 0)} / ${of((m) => m.engineCpuUs, 0)}`,
      of((m) => m.rssMiB, 0),
    ];
  }); // prettier-ignore
}

export const comparison: Bench = {
  name: 'comparison',
  run: async ({ rounds, seconds }) => {
    // Vacuuming one contestant's tables would slow the next one.
    const service = await startService({ engineSettings: ['max_connections = 700', 'autovacuum = off'] });
    const running: Running[] = [];
    const failed = new Map<string, string>();
    try {
      for (const entry of entries) {
        try {
          running.push({ ...entry, contestant: await entry.open(service), results: [] });
        } catch (error) {
          failed.set(entry.name, why(error));
        }
      }
      await race(service, running, failed, { rounds, seconds });
      await verify(service, running, failed);
      const whole = running.filter(({ name }) => !failed.has(name));
      const rate = (name: string) =>
        median(whole.find((it) => it.name === name)?.results.map((it) => it.perSecond) ?? []);
      const best = (...names: string[]) => Math.max(...names.map(rate).filter((value) => !Number.isNaN(value)));
      const head = [
        'contestant',
        'req/s (min–max)',
        'Headgate is … times as fast (min–max)',
        'p50 / p99, ms',
        'not 2xx',
        'CPU a request, µs: program / engine',
        'memory, MiB',
      ];
      const missing = [...failed].map(([name, reason]) => `- ${name} did not run: ${reason}.`);
      return {
        text: [
          `${stamp()}; ${rounds} rounds of ${seconds} s in turns after one to warm up; medians. ${connections} connections, body ${body.length} bytes.`,
          '',
          table(head, lines(whole), 1),
          ...(missing.length === 0 ? [] : ['', ...missing]),
        ].join('\n'),
        reached: { byHand: rate(ours) / best(...byHand), peer: rate(ours) / best(...go) },
      };
    } finally {
      await Promise.allSettled(running.map(({ contestant }) => contestant.stop()));
      await service.stop();
    }
  },
}; // prettier-ignore
