/** The free space of a folder's disk, and how long a flush takes. Takes a folder and a clock; rejects with the system's error. */
import { randomBytes } from 'node:crypto';
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '../config/limits.ts';

export async function diskSpace(folder: string): Promise<{ freeBytes: number; totalBytes: number }> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}

/** The median, in ms; leaves nothing behind. `clock`: ms, monotonic. */
export async function flushTime(folder: string, clock: () => number): Promise<number> {
  const path = join(folder, `.doctor-${randomBytes(8).toString('hex')}`);
  const file = await open(path, 'wx', 0o600);
  const times: number[] = [];
  try {
    const block = Buffer.alloc(8192, 1);
    for (let i = 0; i < limits.doctorFlushes; i++) {
      const began = clock();
      await file.write(block, 0, block.length, 0);
      await file.datasync();
      times.push(clock() - began);
    }
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
  return times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0;
}
