/**
 * Kills the program (SIGKILL) under load and restarts it at once, on a machine that six other processes keep busy: how long a retrying
 * sender waits for its first 200. A hundred times, or for BENCH_SECONDS.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { post } from './attacks.ts';
import { freePort, start, script } from './processes.ts';
import type { Started } from './processes.ts';
import { stamp, table } from './report.ts';
import type { Bench } from './report.ts';
import { quantile } from './statistics.ts';

const restartsMax = 100;
const busyLoops = 6;
const senders = 16;
/** The maximum duration of load before a kill, in ms. */
const loadMs = 300;
/** A longer restart is recorded as this long. */
const ackTimeoutMs = 60_000;

interface Place {
  readonly args: readonly string[];
  readonly url: string;
  readonly sqlUrl: string;
}

async function placeIn(dataDir: string): Promise<Place> {
  const [listen, gateway] = [await freePort(), await freePort()];
  const ports = [`--listen-port=${listen}`, `--gateway-port=${gateway}`, '--sql-port=0', '--admin-port=0'];
  return {
    args: [
      script('../src/app/cli.js'),
      'start',
      `--data-dir=${dataDir}`,
      '--listen-host=127.0.0.1',
      ...ports,
    ],
    url: `http://127.0.0.1:${listen}/webhook/dev/public/ledger`,
    sqlUrl: `http://127.0.0.1:${gateway}/v1/sql`,
  };
}

/**
 * Other work for the machine, each process in a session of its own as with services and terminals; it ends with the process that started
 * it, however that ends.
 */
function keepBusy(): ChildProcess[] {
  const loop = 'const { ppid } = process; while (process.ppid === ppid);';
  return Array.from({ length: busyLoops }, () =>
    spawn(process.execPath, ['-e', loop], { stdio: 'ignore', detached: true }),
  );
}

/** The CPU time of a process, and how long it was runnable but got no CPU, in ms (Linux only). */
function schedule(pid: number): { readonly cpuMs: number; readonly waitedMs: number } {
  const [cpuNs = Number.NaN, waitedNs = Number.NaN] = readFileSync(`/proc/${pid}/schedstat`, 'utf8')
    .split(' ')
    .map(Number);
  return { cpuMs: cpuNs / 1e6, waitedMs: waitedNs / 1e6 };
}

/** Each process of PostgreSQL is a session, and therefore, if started from a shell, a scheduling group (sched(7)). Linux only. */
async function sessionsAreGroups(): Promise<string> {
  const text = await readFile('/proc/sys/kernel/sched_autogroup_enabled', 'utf8').catch(() => '');
  return { '1': 'yes', '0': 'no' }[text.trim()] ?? 'unknown';
}

async function underLoad(url: string): Promise<void> {
  const state = { over: false };
  const load = Array.from({ length: senders }, async () => {
    while (!state.over) await post(url);
  });
  await delay(Math.random() * loadMs);
  state.over = true;
  // Not awaited: requests still in flight get their answer, or none, during the kill.
  void Promise.all(load);
}

interface Restart {
  /** From the start of the program to the first 200. */
  readonly ms: number;
  readonly cpuMs: number;
  /** The part of `ms` in which its main thread was runnable but got no CPU. */
  readonly waitedMs: number;
}

async function restart({ args, url }: Place, before: Started): Promise<{ took: Restart; running: Started }> {
  before.child.kill('SIGKILL');
  await once(before.child, 'close');
  const started = performance.now();
  const starting = start(args, (text) => text.includes('Headgate is ready'));
  while (Number.isNaN(await post(url)) && performance.now() - started < ackTimeoutMs) await delay(5);
  const ms = performance.now() - started;
  const running = await starting;
  return { took: { ms, ...schedule(running.pid) }, running };
}

export const restarts: Bench = {
  name: 'restarts',
  page: 'docs/reliability.md',
  apart: true,
  run: async ({ seconds }) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'headgate-bench-'));
    const place = await placeIn(dataDir);
    let running = await start(place.args, (text) => text.includes('Headgate is ready'));
    const busy: ChildProcess[] = [];
    const all: Restart[] = [];
    try {
      const made = await fetch(place.sqlUrl, {
        method: 'POST',
        body: `CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook')`,
      });
      if (!made.ok) throw new Error(await made.text());
      busy.push(...keepBusy());
      const end = performance.now() + seconds * 1_000;
      while (all.length < restartsMax && performance.now() < end) {
        await underLoad(place.url);
        const { took, running: next } = await restart(place, running);
        running = next;
        all.push(took);
        const [ms, cpu, waited] = [took.ms, took.cpuMs, took.waitedMs].map((it) => it.toFixed(0));
        console.error(`${all.length}: ${ms} ms, ${cpu} on a processor, ${waited} waiting for one`);
      }
    } finally {
      for (const child of busy) child.kill('SIGKILL');
      await running.stop();
      await rm(dataDir, { recursive: true, force: true });
    }
    const at = (of: keyof Restart, q: number) =>
      quantile(
        all.map((it) => it[of]),
        q,
      ).toFixed(0);
    const line = (what: string, of: keyof Restart) => [what, at(of, 0.5), at(of, 0.9), at(of, 1)];
    const head = [`ms, of ${all.length} restarts`, 'median', 'p90', 'at most'];
    const lines = [
      line('until the first 200; the goal is 3,000', 'ms'),
      line('of the main process on a processor', 'cpuMs'),
      line('of the main process ready and waiting for one', 'waitedMs'),
    ];
    return `${stamp()}; sessions scheduled as groups: ${await sessionsAreGroups()}\n\n${table(head, lines, 1)}`;
  },
};
