/** The settings for how rows are committed. */
import { Networks } from '../kit/networks.ts';
import { limits } from './limits.ts';
import { BadSetting, hosts, integer, setting } from './setting.ts';
import type { Parse } from './setting.ts';

const networks: Parse<string> = (text) => {
  const parsed = Networks.parse(text);
  if (!(parsed instanceof Networks)) throw new BadSetting(`"${parsed.wrong}" is no network`);
  return text;
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
  deliverHosts: setting<readonly string[]>(
    'deliver-hosts',
    'HEADGATE_DELIVER_HOSTS',
    'HOSTS',
    [],
    hosts,
    'host:port of each receiver that headgate deliver may call, separated by commas; empty: none',
  ),
  deliverNetworks: setting<string | null>(
    'deliver-networks',
    'HEADGATE_DELIVER_NETWORKS',
    'NETWORKS',
    null,
    networks,
    'networks that are not public and that these hosts may be in, such as 10.0.0.0/8; unset: public addresses only',
  ),
} as const;
