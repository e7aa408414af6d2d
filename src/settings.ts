/**
 * THE table of settings: one row each gives the environment variable, the flag, the default, the unit and the
 * help text. Read once at start; nothing else in Headgate looks at the environment or at the command line.
 */
import { Networks } from './kit/networks.ts';
import { parseRate } from './kit/rate.ts';
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

/** What SASLprep (RFC 4013) leaves as it is: then every client means the same bytes by it. */
const password: Parse<string> = (t) => {
  if (!/^[\x20-\x7e]{1,1024}$/.test(t)) throw new BadSetting('must be 1 to 1024 printable ASCII characters');
  return t;
};

const networks: Parse<string> = (t) => {
  const read = Networks.parse(t);
  if (read instanceof Networks) return t;
  throw new BadSetting(`must hold networks such as 10.0.0.0/8, 2001:db8::/32; "${read.wrong}" is none`);
};
const rate: Parse<string> = (t) => {
  if (parseRate(t) === null)
    throw new BadSetting('must be a number of requests in a time, such as 100/s, 600/min');
  return t;
};

/** The rows of one door's TLS. */
const tlsSettings = (door: string, env: string, what: string) => ({
  cert: setting<string | null>(
    `${door}-tls-cert`,
    `HEADGATE_${env}_TLS_CERT`,
    'FILE',
    null,
    text,
    `certificate of ${what} and those that lead to its authority, PEM; with it the door speaks TLS`,
  ),
  key: setting<string | null>(
    `${door}-tls-key`,
    `HEADGATE_${env}_TLS_KEY`,
    'FILE',
    null,
    text,
    `key of that certificate, PEM`,
  ),
  clientCa: setting<string | null>(
    `${door}-tls-client-ca`,
    `HEADGATE_${env}_TLS_CLIENT_CA`,
    'FILE',
    null,
    text,
    `authorities whose certificates the clients of ${what} have to show, PEM`,
  ),
  clientCert: setting(
    `${door}-tls-client-cert`,
    `HEADGATE_${env}_TLS_CLIENT_CERT`,
    'WORD',
    'required' as 'required' | 'optional',
    oneOf('required', 'optional'),
    'with client authorities: whether a client may come without a certificate (optional)',
  ),
});
const listenTls = tlsSettings('listen', 'LISTEN', 'the webhook listener');
const sqlTls = tlsSettings('sql', 'SQL', 'the SQL door');

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
  listenTlsCert: listenTls.cert,
  listenTlsKey: listenTls.key,
  listenTlsClientCa: listenTls.clientCa,
  listenTlsClientCert: listenTls.clientCert,
  sqlTlsCert: sqlTls.cert,
  sqlTlsKey: sqlTls.key,
  sqlTlsClientCa: sqlTls.clientCa,
  sqlTlsClientCert: sqlTls.clientCert,
  trustedProxies: setting<string | null>(
    'trusted-proxies',
    'HEADGATE_TRUSTED_PROXIES',
    'NETWORKS',
    null,
    networks,
    'networks of proxies that say truly whom they speak for, e.g. 10.0.0.0/8, fd00::/8',
  ),
  forwardedHeader: setting(
    'forwarded-header',
    'HEADGATE_FORWARDED_HEADER',
    'NAME',
    'x-forwarded-for' as 'x-forwarded-for' | 'forwarded',
    oneOf('x-forwarded-for', 'forwarded'),
    'the header in which they say it; the other one is not read',
  ),
  listenNetworks: setting<string | null>(
    'listen-networks',
    'HEADGATE_LISTEN_NETWORKS',
    'NETWORKS',
    null,
    networks,
    'the webhook listener answers clients of these networks only; others read 403',
  ),
  addressRate: setting<string | null>(
    'address-rate',
    'HEADGATE_ADDRESS_RATE',
    'RATE',
    null,
    rate,
    'requests that the webhook listener takes from one address (IPv6: /64), e.g. 100/s; more read 429',
  ),
  tableRate: setting<string | null>(
    'table-rate',
    'HEADGATE_TABLE_RATE',
    'RATE',
    null,
    rate,
    'requests that the webhook listener takes for one table, e.g. 1000/s; more read 429',
  ),
  sqlTlsOptional: setting(
    'sql-tls-optional',
    'HEADGATE_SQL_TLS_OPTIONAL',
    'BOOL',
    false,
    bool,
    'with TLS: let clients of the SQL door in that do not encrypt, too',
  ),
  sqlPassword: setting<string | null>(
    null,
    'HEADGATE_SQL_PASSWORD',
    'TEXT',
    null,
    password,
    'password of root on the SQL door of the embedded engine; other roles have those of CREATE ROLE; without it nobody is asked',
    true,
  ),
  sqlPasswordFile: setting<string | null>(
    'sql-password-file',
    'HEADGATE_SQL_PASSWORD_FILE',
    'FILE',
    null,
    text,
    'the same, read from the first line of a file',
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

/** A password from a file, held to what one from the environment must be. Throws SettingsError. */
export function passwordOfFile(path: string, content: string): string {
  try {
    return password(content.replace(/\r?\n[\s\S]*$/, ''));
  } catch (error) {
    throw new SettingsError(`the password in ${path} ${(error as Error).message}`);
  }
}
