/**
 * THE table of settings: each row gives the environment variable, the flag, the default, the unit and the help
 * text of one setting. Read once at start; nothing else in Headgate reads the environment or the command line.
 */
import { acmeSettings } from './acme-settings.ts';
import { alertSettings } from './alert-settings.ts';
import { guardSettings } from './access-settings.ts';
import { commitSettings } from './commit-settings.ts';
import { consoleSettings } from './console-settings.ts';
import { engineSettings } from './engine-settings.ts';
import { gatewaySettings } from './gateway-settings.ts';
import { limits } from './limits.ts';
import { BadSetting, bool, integer, oneOf, port, setting, text } from './setting.ts';
import type { Parse, Setting } from './setting.ts';
import { spoolSettings } from './spool-settings.ts';
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
    'bearer token that the events gateway requires',
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
    'allow the SQL port and the admin port beyond loopback without credentials of their own',
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
  ...engineSettings,
  ...commitSettings,
  ...gatewaySettings,
  ...guardSettings,
  ...acmeSettings,
  ...consoleSettings,
  ...spoolSettings,
  ...alertSettings,
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
