/** What settings say about the spool: where it is, and which tables use it. Takes settings, returns values. Pure. */
import { join, resolve } from 'node:path';
import type { Settings } from '../config/settings.ts';
import type { Target } from '../types/target.ts';

export function spoolFolder({ spoolDir, dataDir }: Pick<Settings, 'spoolDir' | 'dataDir'>): string {
  return resolve(spoolDir ?? join(dataDir, 'spool'));
}

/** Whether requests for a table are kept while its database is unreachable. */
export function isSpooling({ spool }: Pick<Target, 'spool'>, settings: Pick<Settings, 'spool'>): boolean {
  return (spool?.mode ?? settings.spool) === 'fallback';
}
