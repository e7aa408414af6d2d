/**
 * The data directory of the embedded engine: what is in it, whether it is Headgate's, and how it is created. Takes a
 * path, returns a cluster that PostgreSQL can be started on; refuses with EngineError, one line, without touching
 * anything, if the folder belongs to something else or is damaged.
 *
 *   <data dir>/headgate.json   marks the folder as Headgate's, with the version of this layout
 *              lock/           claims of the Headgates that serve it (data-dir-lock.ts)
 *              pg/             the cluster; its owner is the user that runs PostgreSQL
 *              pg/run/         the socket. Inside the cluster, because the server reaches it from its own
 *                              folder by a relative path, whatever the rights and the length of the path above
 *              bin/            the programs, only if they had to be copied
 *              pg.new-*        a cluster being created; becomes pg by rename, so that pg is always complete
 */
import { lchown, mkdtemp, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { resources } from '../kit/cores.ts';
import { headgateConf, includeLine, initdbArgs } from './embedded-config.ts';
import { EngineError } from './engine.ts';
import { canEnter, runAs, type SystemUser } from './system-user.ts';

const format = 1;
const postgresMajor = 18;
/** Names that may be in the folder before its first cluster is created; a new file system has lost+found. */
const ownNames =
  /^(lock|bin|master\.key(\.[0-9a-f]{8}\.old)?|ports\.json|acme|console\.key|pg\.new-.*|lost\+found)$/;

export interface DataDir {
  readonly path: string;
  readonly cluster: string;
  readonly socketDir: string;
}

export function dataDirAt(path: string): DataDir {
  const cluster = join(path, 'pg');
  return { path, cluster, socketDir: join(cluster, 'run') };
}

/** `new`: there is no cluster yet, and one may be created here. Touches nothing. */
export async function inspectDataDir(dir: DataDir): Promise<'new' | 'ours'> {
  const names = await readdir(dir.path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [] as string[];
    throw new EngineError(unusable(`the data directory ${dir.path}`, error));
  });
  const marked = names.includes('headgate.json');
  if (marked) await readMark(dir);
  if (names.includes('pg')) {
    const inside = await readdir(dir.cluster).catch((error: NodeJS.ErrnoException) => {
      throw new EngineError(unusable(`the database in ${dir.cluster}`, error));
    });
    // The mark is written last; a kill just before that leaves a complete cluster, which headgate.conf in it identifies as Headgate's.
    if (!marked && !inside.includes('headgate.conf')) throw foreign(dir, 'pg');
    await checkCluster(dir);
    return 'ours';
  }
  if (marked) {
    throw new EngineError(
      `the data directory ${dir.path} is damaged: its database, the folder pg, is missing`,
    );
  }
  const stranger = names.find((name) => !ownNames.test(name));
  if (stranger !== undefined) throw foreign(dir, stranger);
  return 'new';
}

/** What the system refused, in a sentence with the remedy. */
export function unusable(what: string, error: NodeJS.ErrnoException): string {
  const { code } = error;
  if (code === 'ENOTDIR') return `${what} is a file, or lies in one: name a folder`;
  if (code === 'EROFS') return `${what} is on a file system that is mounted read-only: mount it for writing`;
  if (code === 'ENOSPC' || code === 'EDQUOT') return `${what} cannot be written: the disk is full`;
  if (code === 'EACCES' || code === 'EPERM') {
    const who = process.geteuid?.() ?? 'another';
    return `${what} belongs to another user than the one that Headgate runs as (uid ${who}): run it as its owner, or give the folder to that user with chown -R`;
  }
  return `${what} cannot be used: ${error.message}`;
}

function foreign(dir: DataDir, what: string): EngineError {
  return new EngineError(
    `${dir.path} is not a data directory of Headgate (it contains ${JSON.stringify(what)}): choose another or an empty one`,
  );
}

async function readMark(dir: DataDir): Promise<void> {
  const file = join(dir.path, 'headgate.json');
  let mark: unknown;
  try {
    mark = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new EngineError(`the data directory ${dir.path} is damaged: ${file}: ${(error as Error).message}`);
  }
  const found = typeof mark === 'object' && mark !== null && 'format' in mark ? mark.format : undefined;
  if (found !== format) {
    const seen = typeof found === 'number' ? `format ${found}` : 'no format';
    throw new EngineError(`the data directory ${dir.path} has ${seen}; this Headgate knows format ${format}`);
  }
}

async function checkCluster(dir: DataDir): Promise<void> {
  const read = (name: string): Promise<Buffer> =>
    readFile(join(dir.cluster, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT')
        throw new EngineError(`the database in ${dir.cluster} is damaged: ${name} is missing`);
      throw new EngineError(unusable(`the database in ${dir.cluster}`, error));
    });
  const major = (await read('PG_VERSION')).toString('latin1').trim();
  if (major !== String(postgresMajor)) {
    throw new EngineError(
      `the database in ${dir.cluster} was made by PostgreSQL ${JSON.stringify(major.slice(0, 20))}; this Headgate has PostgreSQL ${postgresMajor}`,
    );
  }
  await read('global/pg_control');
  await read('postgresql.conf');
}

/** The `-D` for a program of PostgreSQL started in `folder`: a path by which `user` can actually reach it. */
export async function reachablePath(folder: string, user: SystemUser | null): Promise<string> {
  if (await canEnter(user, folder)) return folder;
  if (process.platform === 'linux' && user !== null) {
    // Folders above are closed to that user (a data directory under a 0700 /root). Root has placed the process in the
    // folder before dropping its rights; this path leads there without traversing the path again.
    return '/proc/self/cwd';
  }
  throw new EngineError(
    `the directory ${folder} cannot be reached by the user that runs PostgreSQL (uid ${user?.uid ?? 'own'})`,
  );
}

/** Creates the cluster. A kill at any moment leaves either none or a complete one. Needs the lock. */
export async function createCluster(dir: DataDir, binaries: string, user: SystemUser | null): Promise<void> {
  await removeLeftovers(dir);
  const part = await mkdtemp(join(dir.path, 'pg.new-'));
  try {
    if (user !== null) await lchown(part, user.uid, user.gid);
    const initdb = join(binaries, 'bin', 'initdb');
    const args = [...initdbArgs, '-D', await reachablePath(part, user)];
    const made = await runAs(user, initdb, args, { cwd: part, timeoutMs: 120_000 });
    if (!made.ok) {
      const line =
        made.stderr.split('\n').find((text) => text.includes('error:')) ?? made.stderr.split('\n')[0] ?? '';
      throw new EngineError(
        `the database in ${dir.path} could not be created: ${line.replace(/^initdb: /, '')}`,
      );
    }
    await asOwner(user, part, `${writeConf} && printf %s "$2" >> postgresql.conf`, [
      headgateConf(resources().memoryBytes),
      includeLine,
    ]);
    await syncFolder(part);
    await rename(part, dir.cluster);
    await syncFolder(dir.path);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    throw error;
  }
}

/** What every start needs, whether the cluster is new or not. Idempotent. Needs the lock. */
export async function prepareCluster(dir: DataDir, user: SystemUser | null): Promise<void> {
  await removeLeftovers(dir);
  // Everybody who reaches the socket is trusted: only its folder keeps the machine's other users from it.
  await asOwner(user, dir.cluster, `${writeConf} && mkdir -p run && chmod 700 run`, [
    headgateConf(resources().memoryBytes),
  ]);
  const mark = join(dir.path, 'headgate.json');
  await writeFile(mark, `${JSON.stringify({ format, postgres: postgresMajor })}\n`, {
    flag: 'wx',
    mode: 0o644,
  }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

async function removeLeftovers(dir: DataDir): Promise<void> {
  for (const name of await readdir(dir.path)) {
    // An initdb that outlived its Headgate may still be writing there: hence the retries.
    if (name.startsWith('pg.new-'))
      await rm(join(dir.path, name), { recursive: true, force: true, maxRetries: 10 });
  }
}

const writeConf = 'umask 077 && printf %s "$1" > headgate.conf';

/**
 * Runs a short shell script in a folder of the cluster as its owner. Not as root with a chown afterwards: a superuser
 * of the database can put a symlink there, and root would write to, and give away, what it leads to.
 */
async function asOwner(
  user: SystemUser | null,
  folder: string,
  script: string,
  args: readonly string[],
): Promise<void> {
  const done = await runAs(user, '/bin/sh', ['-c', script, 'sh', ...args], { cwd: folder });
  if (!done.ok)
    throw new EngineError(`the database in ${folder} cannot be written: ${done.stderr.split('\n')[0] ?? ''}`);
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
