// Where tests have their temporary files: in memory where there is plenty of it. Hundreds of databases are made and dropped,
// and each waits for a disk several times; what a test kills are processes, which costs no page of a file system.
import { chmodSync, mkdtempSync, readFileSync, statfsSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';

const memory = '/dev/shm';
const tmpfs = 0x01021994;
const bytesMin = 8 * 2 ** 30;

export function temporary() {
  const folder = mkdtempSync(join(isRoomy() ? memory : tmpdir(), 'hg-'));
  // A PostgreSQL that root starts runs as somebody else, and its folders are below.
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
