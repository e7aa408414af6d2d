/**
 * The user that runs the embedded PostgreSQL. PostgreSQL refuses to run as root, so a Headgate run by root starts it
 * under an unprivileged uid. Takes the folder of an existing cluster, returns the identity for `spawn`; refuses
 * nothing; may read /etc/passwd and run short commands.
 */
import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { EngineError } from './engine.ts';

/** For `spawn`. libuv changes the folder before it drops the uid, and clears the supplementary groups. */
export interface SystemUser {
  readonly uid: number;
  readonly gid: number;
}

/** Headgate's environment contains secrets, which its child processes must not see. The locale keeps messages readable. */
export const childEnv: Readonly<Record<string, string>> = {
  LC_ALL: 'C',
  PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
};

export const isRoot = (): boolean => process.geteuid?.() === 0;

/**
 * null: the user that runs Headgate. Otherwise the owner of `cluster`, if it exists: choosing by name would pick
 * another uid once a distribution's package has created its `postgres`. Otherwise the owner of the data directory, if
 * initdb can look it up by name, otherwise postgres, otherwise nobody.
 */
export async function chooseUser(dataDir: string, cluster: string): Promise<SystemUser | null> {
  if (!isRoot()) return null;
  const owner = await ownerOf(cluster);
  if (owner !== null) {
    if (owner.uid !== 0) return owner;
    throw new EngineError(
      `the database in ${cluster} belongs to root, and PostgreSQL does not run as root: chown -R it to another user`,
    );
  }
  const users = parsePasswd(await readFile('/etc/passwd', 'utf8').catch(() => ''));
  const keeper = await ownerOf(dataDir);
  const known = [...users.values()].find((user) => user.uid === keeper?.uid && user.uid !== 0);
  return (
    known ??
    users.get('postgres') ??
    users.get('_postgres') ??
    users.get('nobody') ?? { uid: 65_534, gid: 65_534 }
  );
}

export function parsePasswd(text: string): Map<string, SystemUser> {
  const users = new Map<string, SystemUser>();
  for (const line of text.split('\n')) {
    const [name, , uid, gid] = line.split(':');
    // Negative ids (macOS writes nobody as -2) are what the kernel calls 2^32 - 2.
    if (name === undefined || !/^-?\d+$/.test(uid ?? '') || !/^-?\d+$/.test(gid ?? '')) continue;
    if (!users.has(name)) users.set(name, { uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 });
  }
  return users;
}

async function ownerOf(path: string): Promise<SystemUser | null> {
  try {
    const { uid, gid } = await stat(path);
    return { uid, gid };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

interface CommandResult {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a short command to its end as `user`. Bounded by `timeoutMs`; never rejects. */
export function runAs(
  user: SystemUser | null,
  file: string,
  args: readonly string[],
  { cwd = '/', timeoutMs = 10_000 }: { cwd?: string; timeoutMs?: number } = {},
): Promise<CommandResult> {
  return new Promise((resolve) => {
    const options = { cwd, env: childEnv, timeout: timeoutMs, maxBuffer: 1024 * 1024, ...user };
    try {
      execFile(file, args, options, (error, stdout, stderr) => {
        resolve({ ok: error === null, stdout, stderr: stderr === '' ? (error?.message ?? '') : stderr });
      });
    } catch (error) {
      resolve({ ok: false, stdout: '', stderr: (error as Error).message });
    }
  });
}

/** Whether `user` can reach `folder` by its path, through all the folders above it. */
export async function canEnter(user: SystemUser | null, folder: string): Promise<boolean> {
  // A shell, not a computation on mode bits: ACLs, capabilities and mounts matter, too.
  return (await runAs(user, '/bin/sh', ['-c', 'cd -- "$1" && [ -r . ]', 'sh', folder])).ok;
}
