/** The settings for how rows are committed. */
import { Networks } from '../kit/networks.ts';
import { limits } from './limits.ts';
import { BadSetting, hosts, integer, setting, text } from './setting.ts';
import type { Parse } from './setting.ts';

const networks: Parse<string> = (t) => {
  const parsed = Networks.parse(t);
  if (!(parsed instanceof Networks)) throw new BadSetting(`"${parsed.wrong}" is no network`);
  return t;
};

/** `sender=URL` of each, separated by commas. */
const apis: Parse<readonly string[]> = (given) => {
  if (given === 'none') return [];
  const words = given.split(',').map((word) => word.trim().replace(/\/$/, ''));
  if (!words.every((word) => /^[a-z_]+=https?:\/\/[^/?#\s@]+(\/[^?#\s]*)?$/.test(word)))
    throw new BadSetting('must contain senders with URLs, such as github=https://api.github.com, or be none');
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
  reconcileApis: setting<readonly string[]>(
    'reconcile-apis',
    'HEADGATE_RECONCILE_APIS',
    'APIS',
    ['github=https://api.github.com', 'stripe=https://api.stripe.com'],
    apis,
    'sender=URL of each API that tables WITH (reconcile = …) are compared with, separated by commas, without TLS only on this machine; none: no such tables',
  ),
  deliver: setting<string | null>(
    'deliver',
    'HEADGATE_DELIVER',
    'PATH',
    null,
    text,
    'file with the tables whose rows are sent on, and to whom, as JSON (docs/deliver.md); unset: none',
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
