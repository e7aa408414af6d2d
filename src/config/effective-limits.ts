/** The bounds of this Headgate: the table of limits, adjusted by settings. Pure. */
import { limits } from './limits.ts';
import type { Limits } from './limits.ts';
import type { Settings } from './settings.ts';

type Bounding = Pick<Settings, 'commitConnections' | 'bodyBytesMax' | 'keepAliveSeconds'>;

export function boundsOf({ commitConnections, bodyBytesMax, keepAliveSeconds }: Bounding): Limits {
  return {
    ...limits,
    bodiesInFlightBytesMax: Math.max(limits.bodiesInFlightBytesMax, 2 * bodyBytesMax),
    keepAliveTimeoutMs: keepAliveSeconds * 1_000,
    commitConnectionsMax: commitConnections,
    // Leaves connections for the groups, as far as possible.
    largeCommitsMax: Math.max(1, Math.min(limits.largeCommitsMax, commitConnections - 1)),
  };
}

/**
 * A segment holds the largest body; the spool holds eight segments, unless that would make segments smaller than the
 * largest body needs.
 */
export function segmentBytes(
  { spoolBytesMax, bodyBytesMax }: Pick<Settings, 'spoolBytesMax' | 'bodyBytesMax'>,
  limits: Pick<Limits, 'spoolSegmentBytes' | 'spoolRecordExtraBytes'>,
): number {
  const least = bodyBytesMax + limits.spoolRecordExtraBytes;
  return Math.ceil(Math.max(least, Math.min(limits.spoolSegmentBytes, spoolBytesMax / 8)) / 4_096) * 4_096;
}
