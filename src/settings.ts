/**
 * THE table of settings: one row each gives the environment variable, the flag, the default, the unit and the
 * help text. Read once at start; nothing else in Headgate looks at the environment or at the command line.
 */
import { limits } from './limits.ts';

type Parse<T> = (text: string) => T;

interface Setting<T> {
  readonly env: string;
  /** Command-line flag without the dashes; null: environment only, because `ps` would show a secret. */
  readonly flag: string | null;
  readonly value: string;
  readonly default: T;
  readonly parse: Parse<T>;
  readonly help: string;
  /** Shown as *** by `headgate config`. */
  readonly secret: boolean;
}

/** A setting's text cannot be used; the message says what would be. */
class BadSetting extends Error {}

const text: Parse<string> = (t) => {
  if (t === '') throw new BadSetting('must not be empty');
  return t;
};
const integer =
  (min: number, max: number): Parse<number> =>
  (t) => {
    if (!/^\d{1,15}$/.test(t) || Number(t) < min || Number(t) > max) {
      throw new BadSetting(`must be a whole number from ${min} to ${max}`);
    }
    return Number(t);
  };
const port = integer(0, 65_535);
const oneOf =
  <const T extends string>(...words: T[]): Parse<T> =>
  (t) => {
    const word = words.find((w) => w === t);
    if (word === undefined) throw new BadSetting(`must be one of ${words.join(', ')}`);
    return word;
  };
const bool: Parse<boolean> = (t) => {
  if (/^(1|true|on|yes)$/i.test(t)) return true;
  if (/^(0|false|off|no)$/i.test(t)) return false;
  throw new BadSetting('must be true or false');
};
const httpUrl: Parse<string> = (t) => {
  if (!/^https?:\/\/[^/?#\s]+(\/[^?#\s]*)?$/.test(t))
    throw new BadSetting('must be an http:// or https:// URL without query');
  return t.replace(/\/$/, '');
};
const origins: Parse<string> = (t) => {
  const listed = t.split(',').map((origin) => origin.trim());
  if (!listed.every((origin) => /^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+)$/i.test(origin)))
    throw new BadSetting('must be origins like https://app.example.com, parted by commas, or *');
  return t;
};
const dsn: Parse<string> = (t) => {
  if (!/^postgres(ql)?:\/\//.test(t)) throw new BadSetting('must be a postgresql:// connection string');
  return t;
};

const setting = <T>(
  flag: string | null,
  env: string,
  value: string,
  fallback: T,
  parse: Parse<NoInfer<T> & {}>,
  help: string,
  secret = false,
): Setting<T> => ({ flag, env, value, default: fallback, parse: parse as Parse<T>, help, secret });

export const settingsTable = {
  dataDir: setting(
    'data-dir',
    'HEADGATE_DATA_DIR',
    'DIR',
    './headgate-data',
    text,
    'folder of the embedded engine, the master key and ports.json',
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
    '0.0.0.0',
    text,
    'address of the webhook listener',
  ),
  listenPort: setting(
    'listen-port',
    'HEADGATE_LISTEN_PORT',
    'N',
    4560,
    port,
    'port of the webhook listener; 0 picks a free one',
  ),
  sqlHost: setting('sql-host', 'HEADGATE_SQL_HOST', 'HOST', '127.0.0.1', text, 'address of the SQL door'),
  sqlPort: setting(
    'sql-port',
    'HEADGATE_SQL_PORT',
    'N',
    4567,
    port,
    'port of the SQL door; 0 picks a free one',
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
  insecure: setting(
    'insecure',
    'HEADGATE_INSECURE',
    'BOOL',
    false,
    bool,
    'let the SQL door and the admin port listen beyond loopback without credentials of their own',
  ),
  masterKey: setting<string | null>(
    null,
    'HEADGATE_MASTER_KEY',
    'BASE64',
    null,
    text,
    'the key that seals secrets (32 bytes, base64), instead of <data-dir>/master.key',
    true,
  ),
  masterKeyFile: setting<string | null>(
    'master-key-file',
    'HEADGATE_MASTER_KEY_FILE',
    'FILE',
    null,
    text,
    'file of the key that seals secrets; made (0600) when missing; default <data-dir>/master.key',
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
    'json: one object a line; pretty: for people; auto: pretty on a terminal',
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
    'origins whose pages may open a WebSocket, parted by commas; * allows all; default: no page may',
  ),
} as const;

export type SettingName = keyof typeof settingsTable;
export type Settings = {
  readonly [K in SettingName]: (typeof settingsTable)[K] extends Setting<infer T> ? T : never;
};

export interface SettingSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags: { readonly [K in SettingName]?: string | true | undefined };
}

export interface ResolvedSettings {
  readonly settings: Settings;
  /** Where each value came from: `default`, the variable's name, or the flag. */
  readonly origins: { readonly [K in SettingName]: string };
}

/** Settings that cannot be used, all told together: one line each. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/** Flags win over the environment, the environment over defaults. An empty variable counts as unset. */
export function resolveSettings(source: SettingSource): ResolvedSettings {
  const values: Record<string, unknown> = {};
  const origins: Record<string, string> = {};
  const problems: string[] = [];
  for (const [name, row] of Object.entries(settingsTable) as [SettingName, Setting<unknown>][]) {
    const flag = source.flags[name];
    const env = source.env[row.env];
    const given = flag === true ? 'true' : (flag ?? (env === '' ? undefined : env));
    origins[name] = flag !== undefined ? `--${row.flag}` : given === undefined ? 'default' : row.env;
    try {
      values[name] = given === undefined ? row.default : row.parse(given);
    } catch (error) {
      if (!(error instanceof BadSetting)) throw error;
      problems.push(`${origins[name]} ${error.message}`);
    }
  }
  const known = new Set(Object.values(settingsTable).map((row) => row.env));
  for (const name of Object.keys(source.env)) {
    if (name.startsWith('HEADGATE_') && !known.has(name) && !name.startsWith('HEADGATE_TEST_')) {
      problems.push(`${name} is not a setting; see headgate start --help`);
    }
  }
  if (problems.length > 0) throw new SettingsError(problems.join('\n'));
  return { settings: values as Settings, origins: origins as ResolvedSettings['origins'] };
}
