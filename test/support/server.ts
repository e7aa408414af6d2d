/**
 * A temporary PostgreSQL of any version on a Unix socket, for tests that are about a version, about a server that Headgate does not run, or
 * about the wire protocol. Tests that only need a database use testDatabase().
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { removeFolder } from './cleanup.ts';
import { isRunning } from './is-running.ts';
import { findPackage } from '../../src/engine/embedded-binaries.ts';
import { childrenOf, sendSelf } from '../../src/engine/server-processes.ts';

export interface TestServer {
  /** The folder of the Unix socket, which a client uses as its host. */
  readonly socketDir: string;
  /** The socket itself. */
  readonly socket: string;
  readonly pid: number;
  readonly data: string;
  /** A clean shutdown: its data can be copied, until it is closed. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

export const embeddedBin = join(findPackage(), 'native', 'bin');

/** An older version that may also be installed. */
export const debianBin = '/usr/lib/postgresql/15/bin';

/** Ends the server when the pipe at fd 3 closes: with the process of the tests, however that ends. */
const watched = '( (read -r _ <&3 || kill -INT $$) >/dev/null 2>&1 & ); exec "$0" "$@" 3<&-';

/** A server that lives for seconds need not sync, or compile queries that run once. */
const cheap = ['listen_addresses=', 'fsync=off', 'jit=off'];

/** `settings`: `name=value` of postgresql.conf. `from`: data of a stopped server. The superuser is root, the database postgres. */
export async function startServer(
  bin: string = embeddedBin,
  settings: readonly string[] = [],
  from: string | null = null,
): Promise<TestServer> {
  const user = serverUser();
  const folder = mkdtempSync(join(tmpdir(), 'headgate-server-'));
  chmodSync(folder, 0o700);
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid ?? user.uid);
  const programs = reachable(bin, folder, user);
  const data = join(folder, 'data');
  if (from === null) makeCluster(bin, programs, data);
  else copyCluster(from, data);
  const running = await launch(programs, data, folder, [...cheap, ...settings]);
  let isStopped = false;
  const port = settings.find((setting) => setting.startsWith('port='))?.slice(5) ?? '5432';
  return {
    socketDir: folder,
    socket: join(folder, `.s.PGSQL.${port}`),
    pid: running.pid,
    data,
    async stop() {
      isStopped = true;
      await running.end('SIGINT');
    },
    async close() {
      // An immediate shutdown: nothing starts it again.
      if (!isStopped) await running.end('SIGQUIT');
      await removeFolder(folder);
    },
  };
}

/**
 * A cluster at `data` whose superuser is root. initdb takes half a second of CPU and a copy a tenth of that, so a run of the suite creates
 * one for each version; `bin` identifies the version, `programs` is the same folder or a copy of it.
 */
export function makeCluster(bin: string, programs: string, data: string): void {
  const { HEADGATE_TEST_TEMPLATE: template = '' } = process.env;
  if (template === '') return initdb(programs, data);
  const made = `${template}-${createHash('sha256').update(bin).digest('hex').slice(0, 12)}`;
  if (!existsSync(made)) {
    const folder = mkdtempSync(`${made}-`);
    const { uid, gid } = serverUser();
    if (uid !== undefined) chownSync(folder, uid, gid ?? uid);
    initdb(programs, join(folder, 'data'));
    try {
      renameSync(folder, made);
    } catch {
      // Another test file was faster.
      rmSync(folder, { recursive: true });
    }
  }
  copyCluster(join(made, 'data'), data);
}

function copyCluster(from: string, to: string): void {
  const copied = spawnSync('cp', ['-a', from, to], { ...serverUser(), encoding: 'utf8' });
  if (copied.status !== 0) throw new Error(`cp: ${copied.stderr}`);
}

/**
 * For a server that is killed and not restarted: its shared memory disappears with its folder. Otherwise the system would keep it until the
 * next boot.
 */
export const sharedMemory = `dynamic_shared_memory_type = 'mmap'\n`;

function initdb(programs: string, data: string): void {
  const args = ['-D', data, '-U', 'root', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'];
  const init = spawnSync(join(programs, 'initdb'), args, { ...serverUser(), cwd: '/', encoding: 'utf8' });
  if (init.status !== 0) throw new Error(`initdb: ${init.stderr}`);
  appendFileSync(join(data, 'postgresql.conf'), sharedMemory);
}

export interface RunningServer {
  readonly pid: number;
  /** Signals the postmaster, or with SIGKILL every process of the server, and resolves once it has ended. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Starts a server on an existing cluster, with its socket in `folder`; resolves once it accepts connections. */
export async function launch(
  programs: string,
  data: string,
  folder: string,
  settings: readonly string[],
): Promise<RunningServer> {
  const args = ['-D', data, '-k', folder, ...settings.flatMap((setting) => ['-c', setting])];
  const logFile = join(folder, 'log');
  const log = openSync(logFile, 'w');
  // In its own process group: Ctrl-C in a terminal ends the tests, which end the server.
  const child = spawn('/bin/sh', ['-c', watched, join(programs, 'postgres'), ...args], {
    ...serverUser(),
    cwd: '/',
    stdio: ['ignore', 'ignore', log, 'pipe'],
    detached: true,
  });
  closeSync(log);
  const exited = once(child, 'exit');
  // The watcher waits for this end of its pipe, and this process for the pipe, even if the server did not start.
  child.once('exit', () => (child.stdio[3] as Writable).destroy());
  await ready(child, join(data, 'postmaster.pid'), logFile);
  const pid = child.pid ?? 0;
  return {
    pid,
    async end(signal) {
      if (signal === 'SIGKILL') await killAll(pid, exited);
      else {
        process.kill(pid, signal);
        await exited;
      }
    },
  };
}

/**
 * As Headgate ends a server that hangs (killServer in src/engine/server-processes.ts), but with the watcher, which is in the postmaster's group: each
 * process of a server has a group of its own. Resolves once all have ended: the next server on this data cannot start while one of them holds
 * the shared memory.
 */
async function killAll(postmaster: number, exited: Promise<unknown>): Promise<void> {
  await sendSelf('STOP', [postmaster]);
  const children = await childrenOf(postmaster);
  await sendSelf('KILL', [-postmaster, ...children]);
  await exited;
  while (children.some(isRunning)) await pause(5);
}

/** PostgreSQL refuses root. */
export function serverUser(): { uid?: number; gid?: number } {
  return process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
}

/**
 * The programs in a place where `user` can run them: a checkout may be in a home directory that only its owner can enter, and is then
 * copied into `folder`, which the user can enter.
 */
export function reachable(bin: string, folder: string, user: { uid?: number; gid?: number }): string {
  if (spawnSync(join(bin, 'postgres'), ['--version'], { ...user, cwd: '/' }).status === 0) return bin;
  const copy = join(folder, 'native');
  cpSync(dirname(bin), copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, 'bin');
}

/** The server's pid file shows that it is ready. */
async function ready(child: ReturnType<typeof spawn>, pidFile: string, logFile: string): Promise<void> {
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`postgres did not start: ${readFileSync(logFile, 'utf8').slice(-500)}`);
    const lines = written(pidFile).split('\n');
    if (lines[0] === String(child.pid) && lines[7]?.trim() === 'ready') return;
    await pause(10);
  }
}

/** Empty if there is no such file: a killed server leaves its own, which the next one removes and rewrites. */
function written(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}
