/**
 * What the spool needs from a file system, and no more: so little that a test can have a model of it which forgets, as a
 * crash does, everything that was not synced. Rejects with the system's errors.
 */
import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Of the machine (`openFile`), or of a model in tests. */
export interface SpoolFile {
  readonly size: () => Promise<number>;
  /** Reads into `bytes` from a position; returns how many bytes there were. */
  read(bytes: Buffer, position: number): Promise<number>;
  /** Writes all of the pieces, one after another. */
  write(pieces: readonly Buffer[], position: number): Promise<void>;
  /** Afterwards, what was written is on the disk, and so is the file's length. */
  sync(): Promise<void>;
  /** Afterwards, what was written is on the disk. */
  syncData(): Promise<void>;
  close(): Promise<void>;
}

/** `realFiles`, or a model of it in tests. */
export interface SpoolFiles {
  /** The names in a folder; empty if there is no such folder. */
  list(folder: string): Promise<readonly string[]>;
  makeFolder(folder: string): Promise<void>;
  /** A new file; rejects if the name exists. */
  create(path: string): Promise<SpoolFile>;
  /** For reading; rejects what is no plain file. */
  open(path: string): Promise<SpoolFile>;
  remove(path: string): Promise<void>;
  /** Removes an empty folder; rejects if it is not empty. */
  removeFolder(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Afterwards, the names in a folder are on the disk. */
  syncFolder(folder: string): Promise<void>;
}

/** A link, a folder, or something else that is no plain file. */
export class NoFile extends Error {
  override readonly name = 'NoFile';
}

/** Files of this machine, for their owner alone. Links are not followed: whoever can put one here would choose what is read. */
export const realFiles: SpoolFiles = {
  list: (folder) =>
    readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    }),
  makeFolder: async (folder) => void (await mkdir(folder, { recursive: true, mode: 0o700 })),
  create: (path) =>
    openFile(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW),
  open: async (path) => {
    if (!(await lstat(path)).isFile()) throw new NoFile(`${path} is no plain file`);
    return openFile(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  },
  remove: unlink,
  removeFolder: rmdir,
  rename,
  syncFolder: async (folder) => {
    const handle = await open(join(folder), constants.O_RDONLY);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
};

async function openFile(path: string, flags: number): Promise<SpoolFile> {
  const handle = await open(path, flags, 0o600);
  return {
    size: async () => (await handle.stat()).size,
    read: async (bytes, position) => {
      let done = 0;
      while (done < bytes.length) {
        const { bytesRead } = await handle.read(bytes, done, bytes.length - done, position + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return done;
    },
    write: async (pieces, position) => {
      const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
      const { bytesWritten } = await handle.writev([...pieces], position);
      // A full disk takes a part and reports nothing until the next write.
      if (bytesWritten !== bytes) throw new Error(`only ${bytesWritten} of ${bytes} bytes were written`);
    },
    sync: () => handle.sync(),
    syncData: () => handle.datasync(),
    close: () => handle.close(),
  };
}
