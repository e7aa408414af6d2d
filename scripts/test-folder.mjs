// The folder for temporary files of tests: in memory if there is plenty. Hundreds of databases are created and dropped, and
// each waits for a disk several times; tests kill only processes, which loses no page of a file system.
import { chmodSync, mkdtempSync, readFileSync, statfsSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';

const memory = '/dev/shm';
const tmpfs = 0x01021994;
const bytesMin = 8 * 2 ** 30;

export function temporary() {
  const folder = mkdtempSync(join(isRoomy() ? memory : tmpdir(), 'hg-'));
  // A PostgreSQL started by root runs as another user, and its folders are inside.
  chmodSync(folder, 0o711);
  return folder;
}

function isRoomy() {
  if (process.env.TMPDIR !== undefined) return false;
  try {
    // Programs are unpacked there, too.
    if (/ \/dev\/shm \S+ \S*\bnoexec\b/.test(readFileSync('/proc/mounts', 'utf8'))) return false;
    const { type, bavail, bsize } = statfsSync(memory);
    return type === tmpfs && bavail * bsize >= bytesMin && freemem() >= bytesMin;
  } catch {
    return false;
  }
}
