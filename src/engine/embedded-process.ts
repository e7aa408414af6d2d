/**
 * One run of the embedded PostgreSQL as a child process: start, readiness, clean stop. Takes a prepared cluster that
 * nobody serves, returns a Postmaster; refuses with EngineError; reports the server's log lines as `engine.said`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { readLines } from '../kit/read-lines.ts';
import { within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { fixedSettings, logicalSettings } from './embedded-config.ts';
import { EngineError } from './engine.ts';
import { holderOf, killServer, sendSelf, startedBy } from './server-processes.ts';
import { childEnv, type SystemUser } from './system-user.ts';

/**
 * The watchdog. Its shell forks a reader of fd 3, a pipe whose other end Headgate holds, and becomes postgres. When
 * Headgate dies, for whatever reason, the reader sees the end of the pipe and asks postgres to stop (SIGINT: fast
 * shutdown). If postgres ends first, Headgate writes a line, and the reader ends without sending a signal, which could
 * hit an unrelated process that has been given the pid since. The double fork keeps the reader from being a child that
 * postgres does not know.
 */
const watchdog = '( (read -r _ <&3 || kill -INT $$) >/dev/null 2>&1 & ); exec "$0" "$@" 3<&-';

export interface PostmasterOptions {
  /** The folder that contains `bin/postgres`. */
  readonly binaries: string;
  readonly cluster: string;
  /** The cluster's path as the server's user reaches it; see reachablePath. */
  readonly clusterPath: string;
  readonly user: SystemUser | null;
  /** Whether other databases may follow its rows. */
  readonly logicalReplication: boolean;
  readonly observe: Observe;
}

export class Postmaster {
  readonly pid: number;
  /** Resolves with the reason when the process has ended and its last output has been read. Never rejects. */
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
        // Its last output may still be in the pipe, which orphaned backends can hold open for a moment.
        void within(500, closed, undefined).then(() => {
          // Backends that hang keep its other end open, which must not keep this process alive.
          child.stderr?.destroy();
          if (this.#lastFatal !== null) this.endReason = this.#lastFatal;
          resolve(this.endReason ?? '');
        });
      });
    });
  }

  static async start(options: PostmasterOptions): Promise<Postmaster> {
    const { binaries, cluster, clusterPath, user } = options;
    const logical = options.logicalReplication ? logicalSettings : {};
    const all = { ...fixedSettings('run'), ...logical, [startedBy]: process.pid };
    const settings = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const child = spawn(
      '/bin/sh',
      ['-c', watchdog, join(binaries, 'bin', 'postgres'), '-D', clusterPath, ...settings],
      {
        cwd: cluster,
        env: { ...childEnv, ...(await strangerEnv(cluster, user)) },
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
    // A signal that could not be sent is reported here; only the exit matters.
    child.on('error', () => undefined);
    child.stdio[3]?.on('error', () => undefined);
    return new Postmaster(child, pid, options);
  }

  /** Whether the server accepts connections. Line 1 must be the child's pid: the file of an earlier run says ready, too. */
  async isReady(): Promise<boolean> {
    const file = await readPidFile(this.#cluster);
    return file !== null && file.pid === this.pid && file.status === 'ready';
  }

  /**
   * Fast shutdown: sessions are rolled back, a checkpoint is written. After the deadline the sessions are cut off
   * (SIGQUIT) and the log is replayed at the next start, which costs time and no data.
   */
  async stop(stopMs: number = limits.engineStopMs): Promise<void> {
    for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
      if (this.endReason === null) this.#child.kill(signal);
      if (await this.#endsIn(stopMs)) return;
    }
    await this.kill();
    if (await this.#endsIn(stopMs)) return;
    throw new EngineError(`PostgreSQL (pid ${this.pid}) does not stop`);
  }

  /** SIGKILL, for a server that hangs: the server and its backends, which would otherwise remain and keep its memory. */
  async kill(): Promise<void> {
    if (this.endReason === null) await killServer(this.pid, sendSelf);
  }

  #endsIn(ms: number): Promise<boolean> {
    const ended = this.ended.then(() => true);
    return within(ms, ended, false);
  }

  #releaseWatchdog(): void {
    (this.#child.stdio[3] as Writable | null)?.end('\n');
  }
}

interface PidFile {
  readonly pid: number;
  readonly status: string;
}

export async function readPidFile(cluster: string): Promise<PidFile | null> {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'latin1').catch(() => '');
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 0 ? { pid, status: lines[7]?.trim() ?? '' } : null;
}

/**
 * In a restarted container the pid in postmaster.pid may be that of another process of the same user, and PostgreSQL
 * would refuse to start because of it. pg_ctl uses this variable to tell PostgreSQL to disregard one pid; it is set
 * only if that pid certainly does not serve a cluster of Headgate's. PostgreSQL's check of shared memory still applies.
 */
export async function strangerEnv(cluster: string, user: SystemUser | null): Promise<Record<string, string>> {
  const file = await readPidFile(cluster);
  if (file === null || (await holderOf(file.pid, cluster, user)).is !== 'stranger') return {};
  return { PG_GRANDPARENT_PID: String(file.pid) };
}
