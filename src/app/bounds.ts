/** The bounds of this Headgate: the table of limits, with what its owner has set. Pure. */
import { limits } from '../tables/limits.ts';
import type { Limits } from '../tables/limits.ts';
import type { Settings } from '../tables/settings.ts';

export function boundsOf({ commitConnections }: Pick<Settings, 'commitConnections'>): Limits {
  return {
    ...limits,
    commitConnectionsMax: commitConnections,
    // Connections are left for the groups, as far as there are any.
    largeCommitsMax: Math.max(1, Math.min(limits.largeCommitsMax, commitConnections - 1)),
  };
}
