/** A small disk for a data directory, and a way to fill it: a tmpfs, if this process may mount one. */
import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { mkdir, open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { temporaryFolder } from './headgate.ts';

export interface SmallDisk {
  readonly dataDir: string;
  /** null: this process may not mount, so there is no disk to fill. Returns a function that frees it. */
  readonly fill: (() => Promise<() => Promise<void>>) | null;
}

export async function smallDisk(t: TestContext): Promise<SmallDisk> {
  const folder = await temporaryFolder(t);
  const disk = join(folder, 'disk');
  await mkdir(disk);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=512m,mode=755', 'tmpfs', disk]).status === 0;
  const dataDir = join(disk, 'data');
  if (!mounted) {
    t.diagnostic('no tmpfs can be mounted here: the disk is not filled');
    return { dataDir, fill: null };
  }
  onEnd(t, 'disk', () => void spawnSync('umount', ['-l', disk]));
  chmodSync(folder, 0o755);
  return {
    dataDir,
    fill: async () => {
      const ballast = join(disk, 'ballast');
      const file = await open(ballast, 'w');
      const piece = Buffer.alloc(1024 * 1024);
      // Space that becomes free meanwhile is filled as well.
      for (;;) {
        const { bavail, bsize } = await statfs(disk);
        if (bavail * bsize === 0) break;
        await file.write(piece).catch(() => undefined);
      }
      await file.close();
      return () => rm(ballast);
    },
  };
}
