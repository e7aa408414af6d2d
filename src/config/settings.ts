/**
 * THE table of settings: each row gives the environment variable, the flag, the default, the unit and the help
 * text of one setting. Read once at start; nothing else in Headgate reads the environment or the command line.
 */
import { isLoopbackHost } from '../kit/address.ts';
import { Networks } from '../kit/networks.ts';
import { acmeSettings } from './acme-settings.ts';
import { guardSettings } from './access-settings.ts';
import { limits } from './limits.ts';
import { BadSetting, bool, hosts, integer, oneOf, port, setting, text } from './setting.ts';
import type { Parse, Setting } from './setting.ts';
import { telemetrySettings } from './telemetry-settings.ts';

const httpUrl: Parse<string> = (t) => {
  if (!/^https?:\/\/[^/?#\s]+(\/[^?#\s]*)?$/.test(t))
    throw new BadSetting('must be an http:// or https:// URL without a query');
  // No sender signs them, so `url` in VALIDATE would never match what was signed.
  if (/^[^/]*\/\/[^/]*@/.test(t)) throw new BadSetting('must not contain a user or a password');
  return t.replace(/\/$/, '');
};
const origins: Parse<string> = (t) => {
  const listed = t.split(',').map((origin) => origin.trim());
  if (!listed.every((origin) => /^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+)$/i.test(origin)))
    throw new BadSetting('must be origins like https://app.example.com, separated by commas, or *');
  return t;
};
const dsn: Parse<string> = (t) => {
  if (!/^postgres(ql)?:\/\//.test(t)) throw new BadSetting('must be a postgresql:// connection string');
  return t;
};

const token: Parse<string> = (t) => {
  if (!/^[\x21-\x7e]+$/.test(t)) throw new BadSetting('must be printable ASCII without spaces');
  return t;
};
/** Words separated by commas. */
const list: Parse<readonly string[]> = (t) => {
  const words = t.split(',').map((word) => word.trim());
  if (words.includes('')) throw new BadSetting('must be a list of words separated by commas');
  return words;
};

const pageOrigins: Parse<readonly string[]> = (t) => {
  const words = list(t).map((word) => word.toLowerCase());
  const wrong = words.find((word) => word !== '*' && !/^https?:\/\/[^/?#\s@]+$/.test(word));
  if (wrong !== undefined) throw new BadSetting('must contain origins such as https://app.example.com, or *');
  return words;
};

/** PostgreSQL truncates longer names, and ends a name at a zero byte. */
const roleName: Parse<string> = (t) => {
  if (t === '' || Buffer.byteLength(t) > 63 || t.includes('\0')) {
    throw new BadSetting('must be the name of a role, 1 to 63 bytes long');
  }
  return t;
};

const deliverNetworks: Parse<string> = (t) => {
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

const hostNames: Parse<readonly string[]> = (t) => {
  const names = t.split(',').map((name) => name.trim().toLowerCase());
  if (!names.every((name) => /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/.test(name)))
    throw new BadSetting(
      'must contain names such as headgate.example.com or 10.0.0.5:4561, separated by commas',
    );
  return names;
};

const alertUrl: Parse<string> = (t) => {
  const url = URL.canParse(t) ? new URL(t) : null;
  const isPlain = url?.protocol === 'http:';
  if (url === null || !(isPlain || url.protocol === 'https:'))
    throw new BadSetting('must be an https:// URL');
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    throw new BadSetting('must not contain a user, password or fragment');
  if (isPlain && !isLoopbackHost(url.hostname))
    throw new BadSetting('must be an https:// URL, or http:// to this machine (127.0.0.1, ::1 or localhost)');
  return url.href;
};

const mebibyte = 1024 * 1024;

export const settingsTable = {
  dataDir: setting(
    'data-dir',
    'HEADGATE_DATA_DIR',
    'DIR',
    './headgate-data',
    text,
    'directory of the embedded engine, the master key and ports.json',
  ),
  databaseUrl: setting<string | null>(
    'database-url',
    'HEADGATE_DATABASE_URL',
    'DSN',
    null,
    dsn,
    'serve this PostgreSQL (14 to 18) instead of the embedded one',
    true,
  ),
  publicUrl: setting<string | null>(
    'public-url',
    'HEADGATE_PUBLIC_URL',
    'URL',
    null,
    httpUrl,
    'the URL that senders call, for `url` in VALIDATE',
  ),
  listenHost: setting(
    'listen-host',
    'HEADGATE_LISTEN_HOST',
    'HOST',
    '*',
    text,
    'address of the webhook listener; *: every address, of IPv6 as well if this machine has any; 0.0.0.0: IPv4 only',
  ),
  listenPort: setting(
    'listen-port',
    'HEADGATE_LISTEN_PORT',
    'N',
    4560,
    port,
    'port of the webhook listener; 0 picks a free one',
  ),
  listenEnabled: setting(
    'listen-enabled',
    'HEADGATE_LISTEN_ENABLED',
    'BOOL',
    true as boolean,
    bool,
    'open the webhook listener; false: rows arrive only through the other doors',
  ),
  fastPath: setting(
    'fast-path',
    'HEADGATE_FAST_PATH',
    'BOOL',
    true as boolean,
    bool,
    "parse plain requests without Node's HTTP parser; false: use that parser for every request",
  ),
  listeners: setting<number>(
    'listeners',
    'HEADGATE_LISTENERS',
    'N',
    0,
    integer(0, 32),
    'number of processes that share the webhook listener; 0 chooses by cores and memory (half of the cores, 512 MiB each, at most 4)',
  ),
  sqlHost: setting('sql-host', 'HEADGATE_SQL_HOST', 'HOST', '127.0.0.1', text, 'address of the SQL port'),
  sqlPort: setting(
    'sql-port',
    'HEADGATE_SQL_PORT',
    'N',
    4567,
    port,
    'port for SQL clients such as psql; 0 picks a free one',
  ),
  adminHost: setting(
    'admin-host',
    'HEADGATE_ADMIN_HOST',
    'HOST',
    '127.0.0.1',
    text,
    'address of the admin port',
  ),
  adminPort: setting(
    'admin-port',
    'HEADGATE_ADMIN_PORT',
    'N',
    4561,
    port,
    'port of /healthz, /readyz and /metrics; 0 picks a free one',
  ),
  gatewayHost: setting(
    'gateway-host',
    'HEADGATE_GATEWAY_HOST',
    'HOST',
    '127.0.0.1',
    text,
    'address of the events gateway',
    false,
    'EVENTS_API_HOST',
  ),
  gatewayPort: setting(
    'gateway-port',
    'HEADGATE_GATEWAY_PORT',
    'N',
    8000,
    port,
    'port of /v1/events and /v1/sql; 0 picks a free one',
    false,
    'EVENTS_API_PORT',
  ),
  gatewayToken: setting<string | null>(
    null,
    'HEADGATE_GATEWAY_TOKEN',
    'TOKEN',
    null,
    token,
    'bearer token that the events gateway requires; without one every client on loopback can run SQL there, also with HEADGATE_SQL_PASSWORD, unless HEADGATE_GATEWAY_TLS_CLIENT_CA requires a certificate, and with HEADGATE_DATABASE_URL nobody can',
    true,
    'EVENTS_API_TOKEN',
  ),
  gatewayOrigins: setting<readonly string[]>(
    'gateway-origins',
    'HEADGATE_GATEWAY_ORIGINS',
    'LIST',
    [],
    pageOrigins,
    'origins whose web pages may call the events gateway, e.g. https://app.example.com; * allows all and requires a token',
    false,
    'EVENTS_API_ALLOWED_ORIGINS',
  ),
  gatewayHosts: setting<readonly string[]>(
    'gateway-hosts',
    'HEADGATE_GATEWAY_HOSTS',
    'LIST',
    [],
    list,
    'additional host names that the events gateway answers to, with or without a port; * allows any',
    false,
    'EVENTS_API_ALLOWED_HOSTS',
  ),
  gatewayRateMax: setting(
    'gateway-rate-max',
    'HEADGATE_GATEWAY_RATE_MAX',
    'N',
    0,
    integer(0, 1_000_000),
    'requests per second that the events gateway accepts from one address (IPv6: /64); 0: no limit',
  ),
  insecure: setting(
    'insecure',
    'HEADGATE_INSECURE',
    'BOOL',
    false,
    bool,
    'allow the SQL port, the admin port and the events gateway without credentials of their own: beyond loopback, and the gateway in front of HEADGATE_DATABASE_URL also on it',
  ),
  masterKey: setting<string | null>(
    null,
    'HEADGATE_MASTER_KEY',
    'BASE64',
    null,
    text,
    'the key that seals secrets (32 bytes, base64), instead of <data-dir>/master.key; <new>,<old> while the key is being replaced',
    true,
  ),
  masterKeyFile: setting<string | null>(
    'master-key-file',
    'HEADGATE_MASTER_KEY_FILE',
    'FILE',
    null,
    text,
    'file of the key that seals secrets; created (mode 0600) if missing; default <data-dir>/master.key',
  ),
  logLevel: setting(
    'log-level',
    'HEADGATE_LOG_LEVEL',
    'LEVEL',
    'info' as 'debug' | 'info' | 'warn' | 'error',
    oneOf('debug', 'info', 'warn', 'error'),
    'least severe log lines to print: debug, info, warn or error',
  ),
  logFormat: setting(
    'log-format',
    'HEADGATE_LOG_FORMAT',
    'FORMAT',
    'auto' as 'auto' | 'json' | 'pretty',
    oneOf('auto', 'json', 'pretty'),
    'json: one object per line; pretty: for people; auto: pretty on a terminal',
  ),
  operatorNamespace: setting<string | null>(
    'operator-namespace',
    'HEADGATE_OPERATOR_NAMESPACE',
    'NAMESPACE',
    null,
    text,
    'headgate operator: manage only this namespace instead of all',
  ),
  operatorImage: setting<string | null>(
    'operator-image',
    'HEADGATE_OPERATOR_IMAGE',
    'IMAGE',
    null,
    text,
    'headgate operator: the image for Headgate resources that name none',
  ),
  operatorIdentity: setting<string | null>(
    'operator-identity',
    'HEADGATE_OPERATOR_IDENTITY',
    'NAME',
    null,
    text,
    'headgate operator: its name in the leader election, which must be unique; default: the host name',
  ),
  bodyBytesMax: setting(
    'body-bytes-max',
    'HEADGATE_BODY_BYTES_MAX',
    'BYTES',
    limits.bodyBytesMax,
    integer(1, 256 * 1024 * 1024),
    'largest request body, in bytes',
  ),
  websocketOrigins: setting<string | null>(
    'websocket-origins',
    'HEADGATE_WEBSOCKET_ORIGINS',
    'ORIGINS',
    null,
    origins,
    'origins whose pages may open a WebSocket, separated by commas; * allows all; default: none allowed',
  ),
  rejectedRowsMax: setting<number>(
    'rejected-rows-max',
    'HEADGATE_REJECTED_ROWS_MAX',
    'N',
    limits.rejectedRowsMax,
    integer(0, 1_000_000),
    'refused requests kept in headgate.rejected_requests, per database; 0: none',
  ),
  rejectedDays: setting<number>(
    'rejected-days',
    'HEADGATE_REJECTED_DAYS',
    'DAYS',
    limits.rejectedDays,
    integer(1, 3_650),
    'how long refused requests are kept, in days',
  ),
  logicalReplication: setting(
    'logical-replication',
    'HEADGATE_LOGICAL_REPLICATION',
    'BOOL',
    false as boolean,
    bool,
    'allow other databases to replicate rows of the embedded engine (wal_level = logical)',
  ),
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
    deliverNetworks,
    'networks that are not public and that these hosts may be in, such as 10.0.0.0/8; unset: public addresses only',
  ),
  eventsRole: setting<string | null>(
    'events-role',
    'HEADGATE_EVENTS_ROLE',
    'ROLE',
    null,
    roleName,
    'role of the embedded engine that the events gateway runs SQL as; default: headgate_gateway, which Headgate creates and which is not a superuser',
  ),
  ...guardSettings,
  ...acmeSettings,
  console: setting(
    'console',
    'HEADGATE_CONSOLE',
    'WORD',
    'auto' as 'auto' | 'on' | 'off',
    oneOf('auto', 'on', 'off'),
    'the web console on the admin port: on, off, or auto: on if that port is on loopback',
  ),
  consoleHosts: setting<readonly string[]>(
    'console-hosts',
    'HEADGATE_CONSOLE_HOSTS',
    'LIST',
    [],
    hostNames,
    'additional host names that the console answers to, with or without a port; localhost and loopback addresses always work',
  ),
  spool: setting(
    'spool',
    'HEADGATE_SPOOL',
    'WHEN',
    'off' as 'off' | 'fallback',
    oneOf('off', 'fallback'),
    'fallback: keep webhooks on disk while the database is unreachable, for tables that do not say otherwise; off: answer 503',
  ),
  spoolDir: setting<string | null>(
    'spool-dir',
    'HEADGATE_SPOOL_DIR',
    'DIR',
    null,
    text,
    'directory for these webhooks; default <data-dir>/spool',
  ),
  spoolBytesMax: setting<number>(
    'spool-bytes',
    'HEADGATE_SPOOL_BYTES',
    'BYTES',
    1024 * mebibyte,
    integer(16 * mebibyte, 1024 * 1024 * mebibyte),
    'maximum size of the files there, in bytes; beyond it senders get 503',
  ),
  spoolHours: setting<number>(
    'spool-age',
    'HEADGATE_SPOOL_AGE',
    'HOURS',
    72,
    integer(1, 8_760),
    'how long a table may spool before it accepts no more requests, in hours; nothing is deleted because of its age',
  ),
  spoolTrustSeconds: setting<number>(
    'spool-trust',
    'HEADGATE_SPOOL_TRUST',
    'SECONDS',
    900,
    integer(0, 86_400),
    'how long checks and secrets are used without confirmation by the database, in seconds; then senders get 503',
  ),
  alertUrl: setting<string | null>(
    null,
    'HEADGATE_ALERT_URL',
    'URL',
    null,
    alertUrl,
    'URL that alerts, and their end, are POSTed to (docs/operating/alerts.md): https, or http to this machine; unset: no alerts',
    true,
  ),
  alertForm: setting(
    'alert-form',
    'HEADGATE_ALERT_FORM',
    'WORD',
    'auto' as 'auto' | 'json' | 'slack',
    oneOf('auto', 'json', 'slack'),
    "json; slack: a text, as Slack, Mattermost and others accept it; auto: slack if the URL's host is hooks.slack.com",
  ),
  alertSeconds: setting(
    'alert-seconds',
    'HEADGATE_ALERT_SECONDS',
    'SECONDS',
    15,
    integer(1, 3_600),
    'how often to check for problems, in seconds',
  ),
  ...telemetrySettings,
} as const;

export type SettingName = keyof typeof settingsTable;
export type Settings = {
  readonly [K in SettingName]: (typeof settingsTable)[K] extends Setting<infer T> ? T : never;
} & {
  /** The databases of the events gateway, ordered by name; the first is its default. Empty: none are set. */
  readonly eventDatabases: readonly EventDatabase[];
  /** File descriptors of sockets that were open before this process started (host/sockets.ts). */
  readonly sockets: { readonly [door in SocketName]?: number };
};

export type SocketName = 'listen' | 'challenge' | 'sql' | 'gateway' | 'admin';

/** EVENTS_API_<DB>_DSN */
export interface EventDatabase {
  readonly env: string;
  /** <DB> in lower case: what `?database=` names. */
  readonly name: string;
  readonly dsn: string;
}

export interface SettingSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags: { readonly [K in SettingName]?: string | true | undefined };
}

export interface ResolvedSettings {
  readonly settings: Settings;
  /** The source of each value: `default`, the variable's name, or the flag. */
  readonly origins: { readonly [K in SettingName]: string };
}
