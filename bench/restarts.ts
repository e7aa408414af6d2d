/**
 * Killed (SIGKILL) under load and started again at once, on a machine that six others keep busy: how long a sender that
 * tries again and again waits for its first 200. A hundred times, or for as long as BENCH_SECONDS says.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
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
/** How long there is load before a kill, in ms at most. */
const loadMs = 300;
/** A restart that takes longer is said to take as long. */
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

/** What else the machine has to do. */
function keepBusy(): ChildProcess[] {
  return Array.from({ length: busyLoops }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  );
}

async function underLoad(url: string): Promise<void> {
  const state = { over: false };
  const load = Array.from({ length: senders }, async () => {
    while (!state.over) await post(url);
  });
  await delay(Math.random() * loadMs);
  state.over = true;
  // Whoever waits for an answer reads it, or that there is none: the kill comes meanwhile.
  void Promise.all(load);
}

/** ms from the start of the program to the first 200. */
async function restart({ args, url }: Place, before: Started): Promise<{ ms: number; running: Started }> {
  before.child.kill('SIGKILL');
  await once(before.child, 'close');
  const started = performance.now();
  const starting = start(args, (text) => text.includes('Headgate is ready'));
  while (Number.isNaN(await post(url)) && performance.now() - started < ackTimeoutMs) await delay(5);
  const ms = performance.now() - started;
  return { ms, running: await starting };
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
    const times: number[] = [];
    try {
      const made = await fetch(place.sqlUrl, {
        method: 'POST',
        body: `CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook')`,
      });
      if (!made.ok) throw new Error(await made.text());
      busy.push(...keepBusy());
      const end = performance.now() + seconds * 1_000;
      while (times.length < restartsMax && performance.now() < end) {
        await underLoad(place.url);
        const { ms, running: next } = await restart(place, running);
        running = next;
        times.push(ms);
        console.error(`${times.length}: ${ms.toFixed(0)} ms`);
      }
    } finally {
      for (const child of busy) child.kill('SIGKILL');
      await running.stop();
      await rm(dataDir, { recursive: true, force: true });
    }
    const at = (q: number) => quantile(times, q).toFixed(0);
    const head = ['restarts', 'median ms', 'p90 ms', 'at most ms', 'goal ms'];
    return `${stamp()}\n\n${table(head, [[times.length, at(0.5), at(0.9), at(1), 3_000]])}`;
  },
};
