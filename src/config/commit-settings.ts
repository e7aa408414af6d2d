/** The settings for how rows are committed. */
import { limits } from './limits.ts';
import { BadSetting, integer, setting } from './setting.ts';
import type { Parse } from './setting.ts';

const hosts: Parse<readonly string[]> = (text) => {
  const words = text.split(',').map((word) => word.trim().toLowerCase());
  if (!words.every((word) => /^([a-z0-9._-]+|\[[0-9a-f:.]+\]):\d{1,5}$/.test(word)))
    throw new BadSetting('must contain hosts with their ports, such as rw.example.com:4566');
  return words;
};

export const commitSettings = {
  commitConnections: setting<number>(
    'commit-connections',
    'HEADGATE_COMMIT_CONNECTIONS',
    'N',
    limits.commitConnectionsMax,
    integer(1, 1_000),
    'connections that commit rows, per database, across all listener processes; also how many tables commit at the same time',
  ),
  intoHosts: setting<readonly string[]>(
    'into-hosts',
    'HEADGATE_INTO_HOSTS',
    'HOSTS',
    [],
    hosts,
    'host:port of each RisingWave that tables WITH (into = …) may send rows to, separated by commas; empty: no such tables',
  ),
} as const;
