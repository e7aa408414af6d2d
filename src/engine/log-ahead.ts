/**
 * Segments of the embedded PostgreSQL's write-ahead log, made before they are needed. A new engine has none to recycle:
 * every 16 MiB the next one would be filled with zeros and synced by whoever commits, while all others wait. Takes the
 * cluster and how to dial its server, gives nothing; refuses nothing: what cannot be made here PostgreSQL makes itself,
 * as it does anyway. May touch pg_wal: names of segments to come that nobody has yet, and one temporary file.
 *
 * A file of ours is one that PostgreSQL's own checkpointer might have made: zeros, synced, under the name of a segment to
 * come. It takes its name by link(2), which replaces nothing. What is left to show is that the log does not enter it too
 * early: before the name is on the disk, or while the checkpointer, which had seen the name free, is about to put
 * a recycled segment there. So at least one whole segment lies between the log and a file when it gets its name; then
 * the folder is synced; then the server is asked for something under the lock that the checkpointer holds from the look
 * to the rename (ControlFileLock); and only then how far the log has come. Short of the file: all of that was over
 * before. Else nobody can tell, and a checkpoint makes what was written so far independent of the log.
 */
import { type FileHandle, access, link, open, statfs, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientConfig } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../tables/limits.ts';
import { hangUp } from './hang-up.ts';
import type { SystemUser } from './system-user.ts';

export interface LogAheadOptions {
  readonly cluster: string;
  /** To whom the cluster belongs; null: to who runs Headgate. */
  readonly user: SystemUser | null;
  readonly clientConfig: () => ClientConfig;
}

/** How far the log is, and how many segments there should be beyond the one that is written. */
interface Position {
  readonly bytes: number;
  readonly timeline: string;
  readonly segmentBytes: number;
  readonly ahead: number;
}

/**
 * pg_control_checkpoint() waits for ControlFileLock, and the position is read after it: a function in FROM is through
 * before its rows are. An owner who wants little log on the disk says so by min_wal_size, and by the other two that
 * segments are neither filled nor kept: then none is made here either.
 */
const whereIsIt = `
  select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes,
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) as timeline,
    pg_size_bytes(current_setting('wal_segment_size'))::int as "segmentBytes",
    case when current_setting('wal_init_zero')::bool and current_setting('wal_recycle')::bool
      then least(pg_size_bytes(current_setting('min_wal_size'))
        / pg_size_bytes(current_setting('wal_segment_size')) / 8, $1)::int
      else 0 end as ahead
  from pg_control_checkpoint()`;

/** PostgreSQL removes files of this name itself when it starts after a crash. */
const temporary = 'xlogtemp.headgate';
/** Written and synced at a time: a flush of the log that comes meanwhile waits for so much of ours at most. */
const pieceBytes = 256 * 1024;

/** `0000000100000000000000A7`: the timeline and the number of the segment, in PostgreSQL's own way. */
export function segmentName(timeline: string, segment: number, segmentBytes: number): string {
  const each = 2 ** 32 / segmentBytes;
  const hex = (n: number): string => n.toString(16).toUpperCase().padStart(8, '0');
  return `${timeline}${hex(Math.floor(segment / each))}${hex(segment % each)}`;
}

export class LogAhead implements Closable {
  readonly #options: LogAheadOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> | null = null;

  constructor(options: LogAheadOptions) {
    this.#options = options;
  }

  /** Once; after `close` it changes nothing. */
  start(): void {
    if (!this.#stop.signal.aborted) this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await sleep(limits.engineLogLookMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.#serve();
      } catch (error) {
        // A server that is away comes back. What the folder refused once is not tried again every second.
        if (error instanceof FolderUnfit) return;
      }
    }
  }

  /** With one connection, until it is lost or `close`. */
  async #serve(): Promise<void> {
    const { signal } = this.#stop;
    const { cluster, user, clientConfig } = this.#options;
    const folder = await openFolder(join(cluster, 'pg_wal'), user);
    const client = new Client({ ...clientConfig(), connectionTimeoutMillis: limits.engineAnswerMs });
    const hangUpNow = (): void => void hangUp(client);
    client.on('error', () => undefined);
    signal.addEventListener('abort', hangUpNow, { once: true });
    try {
      await client.connect();
      while (!signal.aborted) {
        if (!(await makeNext(client, folder, user, signal)))
          await sleep(limits.engineLogLookMs, undefined, { signal });
      }
    } finally {
      signal.removeEventListener('abort', hangUpNow);
      await Promise.all([hangUp(client), folder.handle.close()]);
    }
  }
}

/** Files cannot be made here: no hard links, a full disk, or a folder that is not the server's. */
class FolderUnfit extends Error {
  override readonly name = 'FolderUnfit';
}

/** The server, or what stands before it. */
export type Asked = Pick<Client, 'query'>;

export interface Folder {
  readonly handle: FileHandle;
  /** By which files in it are named. */
  readonly path: string;
}

/**
 * Whoever is superuser in the database can put a symlink in the place of pg_wal, and root would make files where it leads
 * to, and give them away. So root works in the folder that was opened and looked at, whatever the path leads to since.
 */
export async function openFolder(path: string, user: SystemUser | null): Promise<Folder> {
  const handle = await open(path, 'r');
  try {
    if (user === null) return { handle, path };
    const { uid } = await handle.stat();
    if (uid !== user.uid || process.platform !== 'linux') throw new FolderUnfit(path);
    return { handle, path: `/proc/self/fd/${handle.fd}` };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function position(client: Asked): Promise<Position> {
  const { rows } = await client.query<Position>({ text: whereIsIt, values: [limits.engineLogAheadMax] });
  const [row] = rows;
  if (row === undefined) throw new Error('the server did not say where its log is');
  return row;
}

/** Makes the nearest one that is missing, but not the very next. False: nothing was to be done, or could be. */
export async function makeNext(
  client: Asked,
  { handle, path }: Folder,
  user: SystemUser | null,
  signal: AbortSignal,
): Promise<boolean> {
  const { bytes, timeline, segmentBytes, ahead } = await position(client);
  const current = Math.floor(bytes / segmentBytes);
  let segment = current + 2;
  const target = (): string => join(path, segmentName(timeline, segment, segmentBytes));
  while (segment <= current + ahead && (await exists(target()))) segment += 1;
  if (segment > current + ahead) return false;
  const { bavail, bsize } = await statfs(path);
  if (bavail * bsize < limits.engineLogAheadFreeBytes) return false;

  const filled = join(path, temporary);
  // Never written again: after a kill between link and unlink it is a segment of the log by its other name.
  await unlinkIfThere(filled);
  try {
    await fill(filled, segmentBytes, user, signal);
    const since = await position(client);
    if (segment < Math.floor(since.bytes / segmentBytes) + 2 || since.timeline !== timeline) return true;
    await linkNew(filled, target());
  } finally {
    await unlinkIfThere(filled);
  }
  await handle.sync();
  const after = await position(client);
  if (after.bytes >= segment * segmentBytes) await client.query('checkpoint');
  return true;
}

async function fill(
  path: string,
  bytes: number,
  user: SystemUser | null,
  signal: AbortSignal,
): Promise<void> {
  const zeros = Buffer.alloc(pieceBytes);
  const file = await open(path, 'wx', 0o600).catch(unfit);
  try {
    if (user !== null) await file.chown(user.uid, user.gid);
    for (let at = 0; at < bytes; at += zeros.length) {
      signal.throwIfAborted();
      const { bytesWritten } = await file.write(zeros, 0, zeros.length, at).catch(unfit);
      if (bytesWritten < zeros.length) throw new FolderUnfit('written in part');
      await file.datasync().catch(unfit);
    }
    await file.sync().catch(unfit);
  } finally {
    await file.close();
  }
}

/** A name that somebody has taken meanwhile stays theirs. */
async function linkNew(path: string, name: string): Promise<void> {
  await link(path, name).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') unfit(error);
  });
}

function unfit(cause: Error): never {
  throw new FolderUnfit(cause.message, { cause });
}

async function unlinkIfThere(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
