/** The rows of settings for how rows are committed. */
import { limits } from './limits.ts';
import { integer, setting } from './setting.ts';

export const commitSettings = {
  commitConnections: setting<number>(
    'commit-connections',
    'HEADGATE_COMMIT_CONNECTIONS',
    'N',
    limits.commitConnectionsMax,
    integer(1, 1_000),
    'connections that commit rows, per database, over all listener processes; also how many tables commit at the same time',
  ),
} as const;
