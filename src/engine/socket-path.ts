/**
 * A path for Unix sockets in a folder. `sockaddr_un` holds 107 bytes on Linux and 103 on macOS, and data directories
 * can have longer paths. Instead of moving the sockets to a folder in /tmp, which others could create first and a
 * cleaner could empty, Linux reaches the same folder by an open file: /proc/<pid>/fd/<n>.
 */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Closable } from '../kit/closer.ts';
import { EngineError } from './engine.ts';

const socketPathBytesMax = process.platform === 'linux' ? 107 : 103;
/** The longest addition to the folder's path: `/pg/run/.s.PGSQL.5432.lock`, `/lock/claim-4194304-0123abcd`. */
const tailBytesMax = 32;

interface ShortPath extends Closable {
  /** Leads to the folder until this is closed. */
  readonly path: string;
}

export async function openShortPath(folder: string): Promise<ShortPath> {
  if (Buffer.byteLength(folder) + tailBytesMax <= socketPathBytesMax) {
    return { path: folder, close: () => Promise.resolve() };
  }
  if (process.platform !== 'linux') {
    const longest = socketPathBytesMax - tailBytesMax;
    throw new EngineError(
      `the path of the data directory ${folder} is too long: it may have ${longest} bytes here`,
    );
  }
  const handle = await open(folder, 'r');
  // The pid instead of `self`, so that a psql started next to Headgate can use the path, too.
  return { path: join('/proc', String(process.pid), 'fd', String(handle.fd)), close: () => handle.close() };
}
