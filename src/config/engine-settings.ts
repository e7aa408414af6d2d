/** The settings for the embedded engine. */
import { bool, setting } from './setting.ts';

export const engineSettings = {
  logicalReplication: setting(
    'logical-replication',
    'HEADGATE_LOGICAL_REPLICATION',
    'BOOL',
    false as boolean,
    bool,
    'allow other databases to replicate rows of the embedded engine (wal_level = logical)',
  ),
} as const;
