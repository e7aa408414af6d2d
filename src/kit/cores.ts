/** What the machine, or the container, gives this process. */
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

export interface Resources {
  /** May be a fraction: a container's quota of time. */
  readonly cores: number;
  readonly memoryBytes: number;
}

export function resources(read: (path: string) => string | null = readText): Resources {
  // Node gives an absurdly large number, or 0, where there is no bound.
  const bound = process.constrainedMemory();
  const total = totalmem();
  return {
    cores: Math.min(availableParallelism(), quotaCores(read)),
    memoryBytes: bound > 0 && bound < total ? bound : total,
  };
}

const root = '/sys/fs/cgroup';

/**
 * The least quota of the control groups (version 2) that this process is in: Node 20 knows of the cores that it may run
 * on, and not of a quota, which is how containers are bounded. Infinity: there is none, or it cannot be read.
 */
export function quotaCores(read: (path: string) => string | null): number {
  let cores = Infinity;
  const [, own = '/'] = /^0::(\/.*)$/m.exec(read('/proc/self/cgroup') ?? '') ?? [];
  for (let group = own; ; group = dirname(group)) {
    const [, quota, period] = /^(\d+) (\d+)/.exec(read(join(root, group, 'cpu.max')) ?? '') ?? [];
    if (quota !== undefined && Number(period) > 0) cores = Math.min(cores, Number(quota) / Number(period));
    if (group === '/') return cores;
  }
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
