/** Which tables use the spool. Pure. */
import type { Settings } from '../config/settings.ts';
import type { Target } from '../types/target.ts';

/** Whether requests for a table are kept while its database is unreachable. */
export function isSpooling({ spool }: Pick<Target, 'spool'>, settings: Pick<Settings, 'spool'>): boolean {
  return (spool?.mode ?? settings.spool) === 'fallback';
}
