/**
 * One run of the embedded PostgreSQL as a child process: start, readiness, clean stop, and the orphan that an
 * earlier Headgate may have left. Takes a prepared cluster, gives a Postmaster; refuses with EngineError; says
 * the server's log lines as `engine.said`. Never removes postmaster.pid: that file is PostgreSQL's own guard.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { readLines } from '../kit/read-lines.ts';
import { limits } from '../limits.ts';
import type { Observe } from '../observations.ts';
import { fixedSettings } from './embedded-config.ts';
import { EngineError } from './engine.ts';
import { childEnv, runAs, type SystemUser } from './system-user.ts';

/**
 * The watchdog. Its shell forks a reader of fd 3, a pipe whose other end Headgate holds, and becomes postgres. When
 * Headgate dies, however it dies, the reader meets the end of the pipe and asks postgres to stop (SIGINT: fast
 * shutdown). When postgres ends first, Headgate writes a line, and the reader ends without a signal, which
 * could meet a stranger that has got the pid since. The double fork keeps the reader from being a child that
 * postgres does not know.
 */
const watchdog = '( (read -r _ <&3 || kill -INT $$) >/dev/null 2>&1 & ); exec "$0" "$@" 3<&-';

export interface PostmasterOptions {
  /** Folder that holds `bin/postgres`. */
  readonly binaries: string;
  readonly cluster: string;
  /** The cluster's path as the server's user reaches it; see reachablePath. */
  readonly clusterPath: string;
  readonly user: SystemUser | null;
  readonly observe: Observe;
}

export class Postmaster {
  readonly pid: number;
  /** Resolves with the reason when the process has ended and its last words have been read. Never rejects. */
  readonly ended: Promise<string>;
  /** null while the process runs. */
  endReason: string | null = null;
  readonly #child: ChildProcess;
  readonly #cluster: string;
  #lastFatal: string | null = null;

  private constructor(child: ChildProcess, pid: number, options: PostmasterOptions) {
    this.#child = child;
    this.#cluster = options.cluster;
    this.pid = pid;
    if (child.stderr !== null) {
      readLines(child.stderr, limits.engineLogLineCharsMax, (line) => {
        if (/\b(FATAL|PANIC): /.test(line)) this.#lastFatal ??= line.replace(/^\[\d+\] /, '');
        options.observe({ kind: 'engine.said', line });
      });
    }
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#releaseWatchdog();
        this.endReason =
          signal === null ? `PostgreSQL exited with code ${code}` : `PostgreSQL was ended by ${signal}`;
        // Its last words may still be in the pipe, which orphaned backends can hold open for a moment.
        void Promise.race([closed, sleep(500, undefined, { ref: false })]).then(() => {
          if (this.#lastFatal !== null) this.endReason = this.#lastFatal;
          resolve(this.endReason ?? '');
        });
      });
    });
  }

  static async start(options: PostmasterOptions): Promise<Postmaster> {
    const { binaries, cluster, clusterPath, user } = options;
    const settings = Object.entries(fixedSettings('run')).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ]);
    const child = spawn(
      '/bin/sh',
      ['-c', watchdog, join(binaries, 'bin', 'postgres'), '-D', clusterPath, ...settings],
      {
        cwd: cluster,
        env: { ...childEnv, ...(await strangerEnv(cluster)) },
        stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
        // A session of its own: Ctrl-C in the terminal is for Headgate, which then stops its engine in order.
        detached: true,
        ...user,
      },
    );
    const { pid } = child;
    if (pid === undefined) {
      const error = await new Promise<Error>((resolve) => child.once('error', resolve));
      throw new EngineError(`the embedded PostgreSQL cannot be started: ${error.message}`);
    }
    // A signal that could not be sent is reported here; the exit is what counts.
    child.on('error', () => undefined);
    child.stdio[3]?.on('error', () => undefined);
    return new Postmaster(child, pid, options);
  }

  /** Whether the server takes connections. Line 1 must be our child: the file of an earlier run says ready too. */
  async isReady(): Promise<boolean> {
    const file = await readPidFile(this.#cluster);
    return file !== null && file.pid === this.pid && file.status === 'ready';
  }

  /**
   * Fast shutdown: sessions are rolled back, a checkpoint is written. Past the deadline the sessions are cut off
   * (SIGQUIT) and the log is replayed at the next start, which costs time and no data.
   */
  async stop(stopMs: number = limits.engineStopMs): Promise<void> {
    for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
      if (this.endReason === null) this.#child.kill(signal);
      const late = new AbortController();
      const timer = sleep(stopMs, 'late' as const, { signal: late.signal }).catch(() => 'late' as const);
      const first = await Promise.race([this.ended.then(() => 'ended' as const), timer]);
      late.abort();
      if (first === 'ended') return;
    }
    throw new EngineError(`PostgreSQL (pid ${this.pid}) does not stop`);
  }

  #releaseWatchdog(): void {
    (this.#child.stdio[3] as Writable | null)?.end('\n');
  }
}

interface PidFile {
  readonly pid: number;
  readonly status: string;
}

async function readPidFile(cluster: string): Promise<PidFile | null> {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'latin1').catch(() => '');
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 0 ? { pid, status: lines[7]?.trim() ?? '' } : null;
}

/**
 * Stops a postmaster that outlived its Headgate, so that this one can start its own. Needs the lock of the data
 * directory: with it, whatever still serves the cluster is nobody's. Gives the pid, or null: there was none.
 */
export async function stopOrphan(
  cluster: string,
  user: SystemUser | null,
  deadlineMs: number,
): Promise<number | null> {
  const file = await readPidFile(cluster);
  if (file === null) return null;
  const whose = await ownerOfPid(file.pid, cluster);
  if (whose === 'stranger') return null;
  if (whose === 'by hand') {
    throw new EngineError(
      `the database in ${cluster} is in use by a PostgreSQL that Headgate did not start (pid ${file.pid})`,
    );
  }
  for (let waitedMs = 0; waitedMs < deadlineMs; waitedMs += 20) {
    if (waitedMs === 0) await signal(file.pid, 'INT', user);
    else if (waitedMs === limits.engineStopMs) await signal(file.pid, 'QUIT', user);
    if ((await ownerOfPid(file.pid, cluster)) !== 'ours') return file.pid;
    await sleep(20);
  }
  throw new EngineError(`the PostgreSQL of an earlier Headgate (pid ${file.pid}) does not stop`);
}

/** Sent by the server's own user, not by root: should the pid have changed hands, it meets none but that user's. */
async function signal(pid: number, name: string, user: SystemUser | null): Promise<void> {
  await runAs(user, '/bin/sh', ['-c', `kill -${name} "$1"`, 'sh', String(pid)]);
}

/** Who has the pid that postmaster.pid names: a postmaster works in its cluster's folder. A zombie is gone. */
async function ownerOfPid(pid: number, cluster: string): Promise<'ours' | 'by hand' | 'stranger'> {
  const process = await (globalThis.process.platform === 'linux' ? procOf(pid) : psOf(pid));
  if (process === null) return 'stranger';
  const serves =
    process.cwd === null ? process.command.includes(cluster) : process.cwd === (await realpath(cluster));
  if (!serves || !/postgres/.test(process.command)) return 'stranger';
  return process.command.includes('cluster_name=headgate') ? 'ours' : 'by hand';
}

interface ProcessView {
  readonly command: string;
  /** null: not known here. */
  readonly cwd: string | null;
}

async function procOf(pid: number): Promise<ProcessView | null> {
  try {
    const folder = join('/proc', String(pid));
    // A zombie has an empty command line and no folder any more.
    const [command, cwd] = await Promise.all([
      readFile(join(folder, 'cmdline'), 'latin1'),
      readlink(join(folder, 'cwd')),
    ]);
    return command === '' ? null : { command, cwd };
  } catch {
    return null;
  }
}

async function psOf(pid: number): Promise<ProcessView | null> {
  const shown = await runAs(null, '/bin/ps', ['-o', 'stat=,command=', '-p', String(pid)]);
  return !shown.ok || /^\s*Z/.test(shown.stdout) ? null : { command: shown.stdout, cwd: null };
}

/**
 * In a restarted container the pid in postmaster.pid may be that of another process of the same user, and
 * PostgreSQL would refuse to start for its sake. stopOrphan has seen that it serves no cluster of ours; this is
 * the variable by which pg_ctl tells PostgreSQL to disregard one pid. Its check of shared memory still stands.
 */
async function strangerEnv(cluster: string): Promise<Record<string, string>> {
  const file = await readPidFile(cluster);
  if (file === null || (await ownerOfPid(file.pid, cluster)) !== 'stranger') return {};
  return { PG_GRANDPARENT_PID: String(file.pid) };
}
