/** The bounds of this Headgate: the table of limits, with what its owner has set. Pure. */
import { limits } from '../tables/limits.ts';
import type { Limits } from '../tables/limits.ts';
import type { Settings } from '../tables/settings.ts';

type Bounding = Pick<Settings, 'commitConnections' | 'bodyBytesMax'>;

export function boundsOf({ commitConnections, bodyBytesMax }: Bounding): Limits {
  return {
    ...limits,
    bodiesInFlightBytesMax: Math.max(limits.bodiesInFlightBytesMax, 2 * bodyBytesMax),
    commitConnectionsMax: commitConnections,
    // Connections are left for the groups, as far as there are any.
    largeCommitsMax: Math.max(1, Math.min(limits.largeCommitsMax, commitConnections - 1)),
  };
}

/** Room for the largest body in one segment, and for eight segments, where they are not larger than they need be. */
export function segmentBytes(
  { spoolBytesMax, bodyBytesMax }: Pick<Settings, 'spoolBytesMax' | 'bodyBytesMax'>,
  limits: Pick<Limits, 'spoolSegmentBytes' | 'spoolRecordExtraBytes'>,
): number {
  const least = bodyBytesMax + limits.spoolRecordExtraBytes;
  return Math.ceil(Math.max(least, Math.min(limits.spoolSegmentBytes, spoolBytesMax / 8)) / 4_096) * 4_096;
}
