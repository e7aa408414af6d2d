/** The resources that the machine, or the container, gives this process. */
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

export interface Resources {
  /** May be a fraction: the CPU quota of a container. */
  readonly cores: number;
  readonly memoryBytes: number;
}

export function resources(read: (path: string) => string | null = readText): Resources {
  // Node returns an absurdly large number, or 0, if there is no bound.
  const bound = process.constrainedMemory();
  const total = totalmem();
  return {
    cores: Math.min(availableParallelism(), quotaCores(read)),
    memoryBytes: bound > 0 && bound < total ? bound : total,
  };
}

const root = '/sys/fs/cgroup';

/**
 * The smallest quota of the control groups (version 2) that this process is in: Node 20 knows the cores that it may run
 * on, but not a quota, which is how containers are bounded. Infinity: there is none, or it cannot be read.
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
