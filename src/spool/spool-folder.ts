/**
 * The folder of all spools, and those of the databases in it. Takes settings and names, returns paths and a held lock; rejects with SpoolError and the
 * system's errors. Touches nothing but the lock.
 *
 *   <folder>/<database>/tables.sealed   what is known of its tables (known-tables.ts)
 *   <folder>/<database>/<id>/           a spool (spool.ts)
 */
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Settings } from '../config/settings.ts';
import { lockByKernel } from '../engine/folder-lock.ts';
import type { Closable } from '../kit/closer.ts';
import { PlainError } from '../kit/plain-error.ts';

class SpoolError extends PlainError {
  override readonly name = 'SpoolError';
}

export function spoolFolder({ spoolDir, dataDir }: Pick<Settings, 'spoolDir' | 'dataDir'>): string {
  return resolve(spoolDir ?? join(dataDir, 'spool'));
}

/** For this process alone. Anyone who can remove files, or replace them by old ones, decides what arrives. */
export async function lockSpoolFolder(folder: string): Promise<Closable> {
  const { uid, mode } = await stat(folder);
  // A folder of root's, such as a mounted volume, may be open to all.
  const isOurs = uid === process.getuid?.() && (mode & 0o002) === 0;
  if (!isOurs && uid !== 0)
    throw new SpoolError(`users other than Headgate's may write to the directory ${folder}`);
  const lock = await lockByKernel(folder).catch(() => {
    throw new SpoolError(`another Headgate uses the folder ${folder}`);
  });
  if (lock === null)
    throw new SpoolError(`nothing here can lock the folder ${folder}: install flock, or Perl`);
  return lock;
}

/** Letters that every file system allows in a name; everything else as its bytes. */
export function folderOf(database: string): string {
  const escape = (byte: number) => `%${byte.toString(16).padStart(2, '0')}`;
  return [...Buffer.from(database)]
    .map((byte) => (/[a-z0-9_]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : escape(byte)))
    .join('');
}

/** null: not a folder of Headgate's. */
export function databaseOf(name: string): string | null {
  if (!/^(?:[a-z0-9_]|%[0-9a-f]{2})+$/.test(name)) return null;
  const bytes = name.replaceAll(/%(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString();
}
