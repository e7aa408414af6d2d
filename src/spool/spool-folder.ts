/**
 * The folder of all spools, those of the databases in it, and the ids of spools, which name theirs. Takes settings and names, returns paths and a held
 * lock; rejects with SpoolError and the system's errors. Touches nothing but the lock.
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
import type { SpoolFiles } from './files.ts';

class SpoolError extends PlainError {
  override readonly name = 'SpoolError';
}

export function spoolFolder({ spoolDir, dataDir }: Pick<Settings, 'spoolDir' | 'dataDir'>): string {
  return resolve(spoolDir ?? join(dataDir, 'spool'));
}

/** For this process alone. Anyone who can remove files, or replace them by old ones, decides what arrives. */
export async function lockSpoolFolder(folder: string): Promise<Closable> {
  const failed = () => {
    throw new SpoolError(`another Headgate uses the folder ${folder}`);
  };
  const { uid, mode } = await stat(folder).catch(failed);
  // A folder of root's, such as a mounted volume, may be open to all.
  const isOurs = uid === process.getuid?.() && (mode & 0o002) === 0;
  if (!isOurs && uid !== 0)
    throw new SpoolError(`users other than Headgate's may write to the directory ${folder}`);
  const lock = await lockByKernel(folder).catch(failed);
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

/** Ids of the spools in the folder of a database, which sort by the time at which the spools were made: 32 hexadecimal digits. */
export async function spoolIds(files: SpoolFiles, folder: string): Promise<readonly string[]> {
  return (await files.list(folder)).filter((name) => /^[0-9a-f]{32}$/.test(name));
}

/** Later than that of every existing spool, whatever the clock says. */
export function newSpoolId(existing: readonly string[], nowMs: number, random: Buffer): string {
  const last = existing.reduce((most, id) => Math.max(most, madeAtMs(id)), 0);
  const made = Math.max(nowMs, last + 1);
  return made.toString(16).padStart(12, '0') + random.toString('hex');
}

/** When a spool was made, in ms since 1970. */
export function madeAtMs(id: string): number {
  return parseInt(id.slice(0, 12), 16);
}
