/**
 * Processes of PostgreSQL as the system shows them: which process has a pid, what belongs to a server, how to end one
 * that hangs. Takes pids; its answers say if they are not certain. Signals only the processes that it is told to end.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { runAs, type SystemUser } from './system-user.ts';

/**
 * `served`: by a running Headgate. `orphan`: started by a Headgate that is gone. `by hand`: by somebody else.
 * `stranger`: certainly not a server of this cluster. `unknown`: it may be one, and this process cannot tell.
 */
type ServerHolder =
  | { readonly is: 'served'; readonly by: number }
  | { readonly is: 'orphan' | 'by hand' | 'stranger' | 'gone' | 'unknown' };

/** In a server's command line: the pid of the Headgate that started it. PostgreSQL accepts such a name and ignores it. */
export const startedBy = 'headgate.started_by';

/** Which process has the pid that postmaster.pid names. `user`: the user that runs the server. */
export async function holderOf(pid: number, cluster: string, user: SystemUser | null): Promise<ServerHolder> {
  const seen = await (process.platform === 'linux' ? procOf(pid, cluster, user) : psOf(pid, cluster));
  if (typeof seen === 'string') return { is: seen };
  if (!/postgres|postmaster/.test(seen.command) || seen.serves === false) return { is: 'stranger' };
  if (seen.serves === null) return { is: 'unknown' };
  if (!seen.command.includes('cluster_name=headgate')) return { is: 'by hand' };
  // The kernel reassigns the child of an ending process at once: a server whose parent is still the process that started
  // it is not an orphan, and a pid cannot equal that parent's by chance.
  const starter = new RegExp(`${startedBy}=(\\d+)`).exec(seen.command)?.[1];
  return Number(starter) === seen.parent ? { is: 'served', by: seen.parent } : { is: 'orphan' };
}

interface ProcessView {
  readonly command: string;
  readonly parent: number;
  /** Whether its working directory is the cluster, as for every postmaster; null: it cannot be determined. */
  readonly serves: boolean | null;
}

async function procOf(
  pid: number,
  cluster: string,
  user: SystemUser | null,
): Promise<ProcessView | 'gone' | 'unknown'> {
  const folder = join('/proc', String(pid));
  try {
    const command = await readFile(join(folder, 'cmdline'), 'latin1');
    // A zombie has an empty command line.
    if (command === '') return 'gone';
    const parent = parentOf(await readFile(join(folder, 'stat'), 'latin1'));
    return { command, parent, serves: await worksIn(join(folder, 'cwd'), cluster, user) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ESRCH' ? 'gone' : 'unknown';
  }
}

/**
 * By device and inode: the same folder has another path under another root or mount. If root lacks the right to inspect
 * other users' processes, as in most containers, the check runs as that user.
 */
async function worksIn(cwd: string, cluster: string, user: SystemUser | null): Promise<boolean | null> {
  try {
    const [its, ours] = await Promise.all([stat(cwd, { bigint: true }), stat(cluster, { bigint: true })]);
    return its.dev === ours.dev && its.ino === ours.ino;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') throw error;
  }
  if (user === null) return null;
  const script = 'if [ "$1" -ef . ]; then echo same; elif [ -d "$1/." ]; then echo other; fi';
  const { stdout } = await runAs(user, '/bin/sh', ['-c', script, 'sh', cwd], { cwd: cluster });
  return stdout === 'same\n' ? true : stdout === 'other\n' ? false : null;
}

/** From /proc/<pid>/stat; the second field is a name in parentheses that may contain anything. */
function parentOf(stats: string): number {
  return Number(stats.slice(stats.lastIndexOf(')') + 2).split(' ')[1]);
}

async function psOf(pid: number, cluster: string): Promise<ProcessView | 'gone'> {
  const shown = await runAs(null, '/bin/ps', ['-o', 'stat=,ppid=,command=', '-p', String(pid)]);
  const [, state = 'Z', parent, command = ''] = /^\s*(\S+)\s+(\d+)\s+(.*)$/s.exec(shown.stdout) ?? [];
  if (!shown.ok || state.startsWith('Z')) return 'gone';
  return { command, parent: Number(parent), serves: command.includes(cluster) };
}

/** Sends a signal to processes; a process that is gone is not an error. */
export type Send = (name: 'STOP' | 'KILL', pids: readonly number[]) => Promise<void> | void;

/**
 * Ends a server that hangs, with its backends, which would otherwise keep its memory and prevent the next start. It is
 * stopped first: it then starts no backend and reaps none that ends, so that every pid stays valid.
 */
export async function killServer(pid: number, send: Send): Promise<void> {
  await send('STOP', [pid]);
  await send('KILL', [...(await childrenOf(pid)), pid]);
}

export const sendSelf: Send = (name, pids) => {
  for (const pid of pids) {
    try {
      process.kill(pid, `SIG${name}`);
    } catch {
      // It has already ended.
    }
  }
};

/** As the server's own user, not as root: if a pid has been reused, only a process of that user can be hit. */
export function sendAs(user: SystemUser | null): (name: string, pids: readonly number[]) => Promise<void> {
  return async (name, pids) => {
    const script = 'name=$1; shift; for pid; do kill -"$name" "$pid"; done';
    await runAs(user, '/bin/sh', ['-c', script, 'sh', name, ...pids.map(String)]);
  };
}

export async function childrenOf(parent: number): Promise<number[]> {
  if (process.platform !== 'linux') {
    const { stdout } = await runAs(null, '/bin/ps', ['-A', '-o', 'pid=,ppid=']);
    const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
    return rows.flatMap(([pid = 0, of]) => (of === parent ? [pid] : []));
  }
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const stats = await readFile(join('/proc', pid, 'stat'), 'latin1').catch(() => ') - 0');
      return parentOf(stats) === parent ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}
