/** Processes of this machine by their parent, from /proc; empty where a system has none. */
import { readdirSync, readFileSync } from 'node:fs';

export interface ProcessStat {
  readonly parent: number;
  /** `Z`: it has ended, and its parent has not noticed yet. */
  readonly state: string;
  /** Its command line, which PostgreSQL's processes set to what they do. */
  readonly title: string;
}

/** null: it has ended. */
export function statOf(pid: number): ProcessStat | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before them may contain anything.
    const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { parent: Number(parent), state, title: readFileSync(`/proc/${pid}/cmdline`, 'latin1') };
  } catch {
    return null;
  }
}

export function childrenOf(parent: number): number[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return [];
  }
  return names
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => statOf(pid)?.parent === parent);
}

/** Whether it still holds anything, such as memory that it shares. */
export function isRunning(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== null && stat.state !== 'Z';
}
