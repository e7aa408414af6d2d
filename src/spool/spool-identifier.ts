/** Ids of spools: 32 hexadecimal digits, which sort by the time at which the spools were made. */
import type { SpoolFiles } from './files.ts';

/** Those of the spools in a folder. */
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
