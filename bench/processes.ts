/** Processes of a benchmark: started, measured through /proc, ended. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  /** The first text on stdout for which `ready` is true. */
  readonly output: string;
  stop(): Promise<void>;
}

export function script(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

export function start(args: readonly string[], ready: (stdout: string) => boolean): Promise<Started> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    const ended = new Promise<void>((done) => child.once('close', () => done()));
    const stop = async () => {
      child.kill('SIGTERM');
      await ended;
    };
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-4_000)));
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (child.pid !== undefined && ready(stdout)) resolve({ child, pid: child.pid, output: stdout, stop });
    });
    child.once('error', reject);
    child.once('close', (code) => reject(new Error(`${args.join(' ')} ended with ${code}: ${stderr}`)));
  });
}

/** Runs a script to its end with JSON on its stdin; gives the JSON on its stdout. */
export function runJson<T>(path: string, input: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [path], { stdio: ['pipe', 'pipe', 'inherit'] });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(JSON.parse(stdout) as T);
      else reject(new Error(`${path} ended with ${code}`));
    });
    child.stdin.end(JSON.stringify(input));
  });
}

export interface Usage {
  readonly cpuSeconds: number;
  readonly rssBytes: number;
}

/** CPU time so far and memory now of a process and, with `children`, of all below it. Linux only. */
export function usageOf(pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // Fields after the command's closing parenthesis, which may itself hold spaces: 12 and 13 are utime and stime.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return { cpuSeconds: ticks / 100, rssBytes: Number(fields[21]) * 4096 };
}

/** CPU time of every process whose ancestor is `pid`, those that have ended and been waited for included. */
export function cpuOfDescendants(pid: number): number {
  const parents = new Map<number, number>();
  const cpu = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      parents.set(Number(name), Number(fields[1]));
      const ticks = [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0);
      cpu.set(Number(name), ticks / 100);
    } catch {
      // It ended while the list was read.
    }
  }
  let sum = 0;
  for (const [child, own] of cpu) {
    for (let at: number | undefined = child; at !== undefined && at > 1; at = parents.get(at)) {
      if (at === pid && child !== pid) sum += own;
    }
  }
  return sum;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}
