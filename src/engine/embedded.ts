/**
 * The embedded engine: Headgate's own PostgreSQL 18, as a supervised child process on a Unix socket in the data
 * directory. Takes the data directory, returns an Engine with the database `dev` and the superuser `root`; refuses with
 * EngineError, in one line, a machine without programs and a directory that is in use, foreign or damaged. May touch
 * the data directory, /var/lib/headgate (copied programs, only if root needs them) and missing symlinks of the
 * installed package.
 */
import { mkdir, realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, ClientConfig } from 'pg';
import { Closer } from '../kit/closer.ts';
import { together, within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import {
  type DataDir,
  createCluster,
  dataDirAt,
  inspectDataDir,
  prepareCluster,
  reachablePath,
  unusable,
} from './data-dir.ts';
import { DataDirInUse, lockFolder } from './data-dir-lock.ts';
import { findPackage, usableBinaries } from './embedded-binaries.ts';
import { lockByKernel } from './folder-lock.ts';
import { Postmaster, type PostmasterOptions } from './embedded-process.ts';
import { type Engine, EngineError } from './engine.ts';
import type { EngineWatch } from './engine-watch.ts';
import { refuseUnseenServer, stopOrphan } from './orphaned-server.ts';
import { openShortPath } from './socket-path.ts';
import { chooseUser, type SystemUser } from './system-user.ts';

export interface EmbeddedOptions {
  /** Relative paths are resolved against the working directory. Created if missing. */
  readonly dataDir: string;
  readonly observe: Observe;
  /** Whether other databases may follow its rows; default: no. */
  readonly logicalReplication?: boolean;
  /** The folder of the package with the programs; by default the one installed for this machine. */
  readonly packageDir?: string;
  /** Where programs are copied to if the server's user can reach them neither in the package nor in the data directory. */
  readonly sharedDir?: string;
  readonly random?: () => number;
}

const defaultDatabase = 'dev';
const role = 'root';

/**
 * Resolves when the server accepts connections. A server that is still replaying its log after `limits.engineStartMs`
 * continues: the engine is then returned as unavailable, and becomes available later.
 */
export async function openEmbeddedEngine(options: EmbeddedOptions): Promise<Engine> {
  const closer = new Closer();
  try {
    return await open(options, closer);
  } catch (error) {
    await closer.close();
    throw plainly(error, options.dataDir);
  }
}

async function open(options: EmbeddedOptions, closer: Closer): Promise<Engine> {
  const { observe, random } = options;
  const packageDir = options.packageDir ?? findPackage();
  const given = resolve(options.dataDir);
  // Inspected before anything is touched, and again under the lock.
  await inspectDataDir(dataDirAt(given));
  await mkdir(given, { recursive: true, mode: 0o700 });
  const dir = dataDirAt(await realpath(given));

  const short = await openShortPath(dir.path);
  closer.add('path', () => short.close());
  await mkdir(join(dir.path, 'lock'), { recursive: true, mode: 0o700 });
  const lock = await lockFolder(join(short.path, 'lock'));
  closer.add('lock', () => lock.close());
  const user = await chooseUser(dir.path, dir.cluster);
  // Located in parallel with the steps that must be complete before they run.
  const programs = findPrograms(dir, packageDir, user, options.sharedDir);
  programs.catch(() => undefined);
  const kernelLock = await lockByKernel(dir.path);
  closer.add('lock of the kernel', () => kernelLock?.close());

  const endpoint = { kind: 'unix', path: join(short.path, 'pg', 'run', '.s.PGSQL.5432') } as const;
  const launch = await prepare({ dir, user, programs, socket: endpoint.path, options });
  const supervisor = new Supervisor(launch);
  closer.add('server', () => supervisor.close());
  // The server starts while the package for its clients is loaded. If the start fails, the watch runs into the same error.
  const starting = supervisor.begin().catch(() => undefined);
  const clients = Promise.all([import('./engine-watch.ts'), import('./checkpoint.ts')]);
  const [[{ EngineWatch }, { Checkpoints }]] = await together(clients, starting);

  const clientConfigAs = (database: string, user: string): ClientConfig => ({
    host: join(short.path, 'pg', 'run'),
    port: 5432,
    user,
    database,
    ssl: false,
    application_name: 'headgate',
  });
  const clientConfig = (database: string): ClientConfig => clientConfigAs(database, role);
  const watch = new EngineWatch({
    engine: 'embedded',
    // Not `dev`: a permanent connection would keep its owner from dropping or renaming it.
    clientConfig: () => clientConfig('postgres'),
    observe,
    prepare: (signal) => supervisor.ensureReady(signal),
    greet: ensureDatabase,
    explain: () => supervisor.endReason,
    passes: (error) => passing.test(error.message),
    ...(random === undefined ? {} : { random }),
  });
  closer.add('watch', () => watch.close());
  const checkpoints = new Checkpoints(() => clientConfig('postgres'));
  closer.add('checkpoint', () => checkpoints.close());
  await firstStart(watch, supervisor);
  return {
    kind: 'embedded',
    defaultDatabase,
    clientConfig,
    clientConfigAs,
    endpoint: () => endpoint,
    get serverVersion() {
      return watch.serverVersion;
    },
    get unavailable() {
      return watch.unavailable;
    },
    get readOnly() {
      return watch.readOnly;
    },
    checkpoint: () => checkpoints.ask(),
    cutOff: () => supervisor.kill(),
    close: async () => {
      await closer.close();
      observe({ kind: 'engine.stopped', engine: 'embedded' });
    },
  };
}

/** The folder that contains `bin/postgres`. */
function findPrograms(
  dir: DataDir,
  packageDir: string,
  user: SystemUser | null,
  sharedDir = '/var/lib/headgate',
): Promise<string> {
  const copyTo = [join(dir.path, 'bin'), ...(user === null ? [] : [sharedDir])];
  return usableBinaries(packageDir, user, copyTo);
}

interface Prepared {
  readonly dir: DataDir;
  readonly user: SystemUser | null;
  readonly programs: Promise<string>;
  readonly socket: string;
  readonly options: EmbeddedOptions;
}

/** Everything between taking the locks and the first start of the server. */
async function prepare({ dir, user, programs, socket, options }: Prepared): Promise<PostmasterOptions> {
  const { observe, logicalReplication = false } = options;
  observe({ kind: 'engine.starting', engine: 'embedded' });
  if ((await inspectDataDir(dir)) === 'new') await createCluster(dir, await programs, user);
  else {
    await reportOrphan(dir, user, observe);
    await refuseUnseenServer(dir.cluster, socket);
  }
  await prepareCluster(dir, user);
  return {
    binaries: await programs,
    cluster: dir.cluster,
    clusterPath: await reachablePath(dir.cluster, user),
    user,
    logicalReplication,
    observe,
  };
}

async function reportOrphan(dir: DataDir, user: SystemUser | null, observe: Observe): Promise<void> {
  const pid = await stopOrphan(dir.cluster, user, limits.engineStartMs);
  if (pid !== null) observe({ kind: 'engine.orphan_stopped', pid });
}

/**
 * What an unclean end leaves behind for a moment: backends that have not yet noticed that their postmaster is gone. The
 * server reports this in these words (lc_messages is C) and exits; a moment later it starts.
 */
const passing = /pre-existing shared memory block|lock file "postmaster\.pid" already exists/;

/** Waits for the first connection. A server that refuses to start, e.g. because of a line in postgresql.conf, is an error. */
async function firstStart(watch: EngineWatch, supervisor: Supervisor): Promise<void> {
  const first = await within(limits.engineStartMs, watch.settled, 'late' as const);
  if (first === null || supervisor.running) return;
  throw new EngineError(`the embedded PostgreSQL did not start: ${watch.unavailable ?? String(first)}`);
}

/** Runs one postmaster: starts it if none is running, and stops it at the end. */
class Supervisor {
  readonly #launch: PostmasterOptions;
  #postmaster: Postmaster | null = null;
  #closed = false;

  constructor(launch: PostmasterOptions) {
    this.#launch = launch;
  }

  /** Why there is no server; null while one runs or before the first start. */
  get endReason(): string | null {
    return this.#postmaster?.endReason ?? null;
  }

  get running(): boolean {
    return this.#postmaster !== null && this.#postmaster.endReason === null;
  }

  /** Starts a server if none is running. */
  async begin(): Promise<void> {
    if (this.#closed) throw new EngineError('the embedded PostgreSQL is closed');
    if (!this.running) this.#postmaster = await Postmaster.start(this.#launch);
  }

  /** Rejects if the server ends or is not ready in time; in the latter case it continues, and the next call waits further. */
  async ensureReady(signal: AbortSignal): Promise<void> {
    await this.begin();
    const postmaster = this.#postmaster;
    if (postmaster === null) return;
    // Readiness is announced only by the line in postmaster.pid.
    for (let waitedMs = 0; !(await postmaster.isReady()); waitedMs += 10) {
      if (postmaster.endReason !== null) throw new EngineError(await postmaster.ended);
      if (waitedMs >= limits.engineStartMs) {
        throw new EngineError('the database is starting: it is replaying its log after an unclean end');
      }
      await sleep(10, undefined, { signal });
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#postmaster?.stop();
  }

  async kill(): Promise<void> {
    this.#closed = true;
    await this.#postmaster?.kill();
  }
}

async function ensureDatabase(client: Client): Promise<void> {
  const { rowCount } = await client.query('select from pg_database where datname = $1', [defaultDatabase]);
  if (rowCount === 0) await client.query(`create database ${defaultDatabase}`);
}

/** One line for the terminal. System errors are reported with their path; a bug of Headgate's keeps its stack. */
function plainly(error: unknown, dataDir: string): unknown {
  if (error instanceof DataDirInUse) {
    const who = error.pid === null ? '' : ` (pid ${error.pid})`;
    return new EngineError(`the data directory ${dataDir} is in use by another Headgate${who}`);
  }
  if (error instanceof Error && (error as NodeJS.ErrnoException).syscall !== undefined) {
    return new EngineError(unusable(`the data directory ${dataDir}`, error as NodeJS.ErrnoException));
  }
  return error;
}
