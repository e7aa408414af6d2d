/**
 * The same on a disk with slower flushes, like those of a cloud: Headgate and the hand-written service on a PostgreSQL
 * in which every flush of the log (fdatasync) takes some milliseconds more (`slow-flush.c`, preloaded).
 */
import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../test/support/server.ts';
import type { TestServer } from '../test/support/server.ts';
import { connections, fastify, headgate } from './contestants.ts';
import type { Contestant } from './contestants.ts';
import { source } from './processes.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { startService } from './service.ts';
import type { Measured } from './service.ts';
import { median } from './statistics.ts';

const waitsMs = [1, 4];

const entries = {
  ours: { name: 'Headgate', open: headgate },
  ...fastify,
};
type Name = keyof typeof entries;
const names = Object.keys(entries) as Name[];

/** In a folder that the server's user can enter. */
async function compile(folder: string): Promise<string> {
  const library = join(folder, 'slow-flush.so');
  await chmod(folder, 0o755);
  const args = ['-shared', '-fPIC', '-O2', '-o', library, source('slow-flush.c'), '-ldl'];
  const { error, status, stderr } = spawnSync('cc', args, { encoding: 'utf8' });
  if (error !== undefined || status !== 0) throw new Error(`cc: ${error?.message ?? stderr}`);
  return library;
}

const serverSettings = ['fsync=on', 'max_connections=100', 'max_wal_size=4GB', 'shared_buffers=1GB'];

async function startSlowly(library: string, waitMs: number): Promise<TestServer> {
  const own = { LD_PRELOAD: library, HEADGATE_FLUSH_US: String(waitMs * 1_000) };
  try {
    Object.assign(process.env, own);
    return await startServer(undefined, serverSettings);
  } finally {
    for (const name of Object.keys(own)) delete process.env[name];
  }
}

async function withWait(library: string, waitMs: number, effort: Effort): Promise<(string | number)[][]> {
  const server = await startSlowly(library, waitMs);
  try {
    return await onServer(server, waitMs, effort);
  } finally {
    await server.close();
  }
}

async function onServer(server: TestServer, waitMs: number, effort: Effort): Promise<(string | number)[][]> {
  const dsn = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}`;
  const attached = await startService({ flags: [`--database-url=${dsn}`], database: 'postgres' });
  const engine = { host: server.socketDir, port: 5_432, user: 'root', database: 'postgres' };
  const service = { ...attached, engine, enginePid: process.pid };
  const opened: Contestant[] = [];
  try {
    const open = async (name: Name) => {
      const contestant = await entries[name].open(service);
      opened.push(contestant);
      return [name, () => contestant.run(effort.seconds)] as const;
    };
    const candidates: [Name, () => Promise<Measured>][] = [];
    for (const name of names) candidates.push([...(await open(name))]);
    const turns = await inTurns(
      effort.rounds,
      `a flush takes ${waitMs} ms more`,
      Object.fromEntries(candidates) as Record<Name, () => Promise<Measured>>,
    );
    return names.map((name) => {
      const of = (pick: (m: Measured) => number, digits: number) =>
        median(turns.map((turn) => pick(turn[name]))).toFixed(digits);
      const ratios = turns.map((turn) => turn.ours.perSecond / turn[name].perSecond);
      return [
        `+ ${waitMs} ms`,
        entries[name].name,
        of((m) => m.perSecond, 0),
        name === 'ours' ? '' : spread(ratios, 1),
        `${of((m) => m.p50, 1)} / ${of((m) => m.p99, 1)}`,
        `${of((m) => m.nodeCpuUs, 0)} / ${of((m) => m.engineCpuUs, 0)}`,
      ];
    });
  } finally {
    await Promise.allSettled(opened.map((contestant) => contestant.stop()));
    await service.stop();
  }
}

export const slowDisk: Bench = {
  name: 'slow-disk',
  run: async (effort) => {
    const lines: (string | number)[][] = [];
    const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-flush-'));
    try {
      const library = await compile(folder);
      for (const waitMs of waitsMs) lines.push(...(await withWait(library, waitMs, effort)));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const head = [
      'a flush',
      'contestant',
      'req/s',
      'Headgate is … times as fast (min–max)',
      'p50 / p99, ms',
      'CPU a request, µs: program / engine',
    ];
    return [
      `${stamp()}; ${effort.rounds} rounds of ${effort.seconds} s in turns after one to warm up; medians. ${connections} connections.`,
      '',
      table(head, lines, 2),
    ].join('\n');
  },
};
