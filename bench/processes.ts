/** Processes of a benchmark: started, measured through /proc, ended. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface Started {
  readonly child: ChildProcess;
  readonly pid: number;
  /** The first output on stdout for which `ready` is true. */
  readonly output: string;
  stop(): Promise<void>;
}

export function script(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** A file of bench/ itself, which the build does not copy. */
export function source(name: string): string {
  return fileURLToPath(new URL(`../../bench/${name}`, import.meta.url));
}

/** A process that takes longer to become ready has failed. */
const readyMs = 60_000;
/** A process that takes longer to stop is killed. */
const stopMs = 30_000;

/** Running processes: none outlives the benchmark, however it ends. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGTERM');
});

export function start(
  args: readonly string[],
  ready: (stdout: string) => boolean,
  command = process.execPath,
  env: Readonly<Record<string, string>> = {},
): Promise<Started> {
  return new Promise((resolve, reject) => {
    const stdio = ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'];
    const child = spawn(command, args, { stdio, env: { ...process.env, ...env } });
    running.add(child);
    let stdout = '';
    let stderr = '';
    const state = { settled: false };
    const ended = new Promise<void>((done) => child.once('close', () => done()));
    const stop = async () => {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), stopMs);
      await ended;
      clearTimeout(late);
    };
    const isReady = () => {
      if (state.settled || child.pid === undefined) return;
      state.settled = true;
      clearTimeout(late);
      resolve({ child, pid: child.pid, output: stdout, stop });
    };
    const failed = (error: Error) => {
      state.settled = true;
      clearTimeout(late);
      reject(error);
    };
    const late = setTimeout(() => {
      failed(new Error(`${command} ${args[0] ?? ''} was not ready after ${readyMs / 1_000} s: ${stderr}`));
      child.kill('SIGKILL');
    }, readyMs);
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-4_000)));
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      // Later output is read and discarded.
      if (state.settled) return;
      stdout += text;
      if (ready(stdout)) isReady();
    });
    child.once('error', (error) => {
      running.delete(child);
      failed(error);
    });
    child.once('close', (code) => {
      running.delete(child);
      failed(new Error(`${command} ${args[0] ?? ''} ended with ${code}: ${stderr}`));
    });
  });
}

/** Runs a script to its end with JSON on its stdin; returns the JSON on its stdout. */
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
  /** Including processes that ended and were waited for. */
  readonly cpuSeconds: number;
  /** Sum over all of them; pages they share count once for each. */
  readonly rssBytes: number;
}

export interface TreeUsage {
  /** The processes and their descendants that are not PostgreSQL's. */
  readonly program: Usage;
  /** PostgreSQL's processes among their descendants; `pssBytes` counts shared pages proportionally. */
  readonly engine: Usage & { readonly pssBytes: number };
}

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly engine: boolean;
  readonly cpuSeconds: number;
  readonly rssBytes: number;
}

/** null: it has ended. Linux only. */
function statOf(pid: number): Stat | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return null;
  }
  // Fields after the command's closing parenthesis (the command may contain spaces): 11 and 12 are utime and stime, 13
  // and 14 those of children that were waited for (proc(5)).
  const [from, to] = [stat.indexOf('('), stat.lastIndexOf(')')];
  const fields = stat.slice(to + 2).split(' ');
  const ticks = [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0);
  return {
    pid,
    parent: Number(fields[1]),
    engine: stat.slice(from + 1, to) === 'postgres',
    cpuSeconds: ticks / 100,
    rssBytes: Number(fields[21]) * 4_096,
  };
}

/** The process and its descendants. */
function treeOf(top: number): Stat[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? []);
  const parents = new Map(all.map((stat) => [stat.pid, stat.parent]));
  return all.filter((stat) => {
    for (let at: number | undefined = stat.pid; at !== undefined && at > 1; at = parents.get(at))
      if (at === top) return true;
    return false;
  });
}

function pssBytes(pid: number): number {
  try {
    const kib = /^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1];
    return Number(kib ?? Number.NaN) * 1_024;
  } catch {
    // It has ended, or belongs to another user.
    return Number.NaN;
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** CPU time so far and present memory of a process and its descendants. */
export function treeUsage(pid: number): TreeUsage {
  const tree = treeOf(pid);
  const usage = (list: readonly Stat[]): Usage => ({
    cpuSeconds: sum(list.map((stat) => stat.cpuSeconds)),
    rssBytes: sum(list.map((stat) => stat.rssBytes)),
  });
  const [program, engine] = [tree.filter((stat) => !stat.engine), tree.filter((stat) => stat.engine)];
  return {
    program: usage(program),
    engine: { ...usage(engine), pssBytes: sum(engine.map((stat) => pssBytes(stat.pid))) },
  };
}
