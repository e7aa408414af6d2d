/**
 * A connection string in the form that the `pg` package and the relay need. Takes text, returns the servers that it names,
 * each as a ClientConfig and an Endpoint; refuses with EngineError a text that can never work, without showing it, because it
 * contains a password. Reads the certificate files that the text names. Defaults are those of libpq, including sslmode=prefer.
 */
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { createSecureContext } from 'node:tls';
import type { ClientConfig } from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';
import { type Endpoint, EngineError } from './engine.ts';

export interface Dsn {
  readonly database: string;
  /** In the order of the text; at least one. */
  readonly servers: readonly Server[];
  /** Which of them may be used: any that answers, one that accepts writes, one that is not a standby. */
  readonly sessions: 'any' | 'read-write' | 'primary';
  /** Texts that must not be shown: the password, as written and decoded. */
  readonly secrets: readonly string[];
}

export interface Server {
  /** `host:port`, for people. */
  readonly name: string;
  readonly config: ClientConfig;
  readonly endpoint: Endpoint;
  /** The same server without TLS, if that is acceptable when the server has none (sslmode=prefer). */
  readonly plain: Server | null;
}

const sslmodes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
const sessionKinds = ['any', 'read-write', 'primary'] as const;
const serversMax = 16;

/** Where systems keep the authorities that they trust: Debian and Alpine, Red Hat, macOS and BSD. */
const systemStores = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
];

/** `stores`: files, of which the first one that exists is used for sslrootcert=system. */
export function parseDsn(databaseUrl: string, stores: readonly string[] = systemStores): Dsn {
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) fail('it must begin with postgresql://');
  const bySystem = /[?&]sslrootcert=system(?![^&#])/.test(databaseUrl);
  const sslmode = /[?&]sslmode=([^&#]*)/.exec(databaseUrl)?.[1] ?? modeUnsaid(databaseUrl, bySystem);
  if (sslmode !== undefined && !sslmodes.includes(sslmode))
    fail(`sslmode must be one of ${sslmodes.join(', ')}`);
  if (bySystem && sslmode !== 'verify-full')
    fail(
      'sslrootcert=system is for sslmode=verify-full: anybody can have a certificate of those authorities',
    );
  const texts = splitHosts(bySystem ? databaseUrl.replace('sslrootcert=system', '') : databaseUrl);
  if (texts === null) return fail('its hosts and ports do not belong together');
  if (texts.length > serversMax) fail(`it names more than ${serversMax} hosts`);
  const wanted = /[?&]target_session_attrs=([^&#]*)/.exec(databaseUrl)?.[1];
  const sessions = sessionKinds.find((kind) => kind === wanted);
  if (wanted !== undefined && sessions === undefined)
    fail(`target_session_attrs must be one of ${sessionKinds.join(', ')}, because Headgate writes`);
  const authorities = bySystem ? systemAuthorities(stores) : undefined;
  const servers = texts.map((text) => parseServer(text, sslmode, authorities));
  const { database = '', password } = servers[0]?.config ?? {};
  return {
    database,
    servers,
    // libpq would take any; of several servers, one that cannot be written to is of no use here.
    sessions: sessions ?? (servers.length > 1 ? 'read-write' : 'any'),
    secrets: typeof password === 'string' ? [password, encodeURIComponent(password)] : [],
  };
}

/** undefined: other parameters determine it, as node-postgres reads them. */
function modeUnsaid(databaseUrl: string, bySystem: boolean): string | undefined {
  if (bySystem) return 'verify-full';
  return /[?&](ssl|uselibpqcompat)[a-z]*=/.test(databaseUrl) ? undefined : 'prefer';
}

/** null: the system's authorities are not found, and Node's own are as good. */
function systemAuthorities(stores: readonly string[]): string | null {
  const store = stores.find((path) => existsSync(path));
  return store === undefined ? null : readFileSync(store, 'utf8');
}

function parseServer(text: string, sslmode: string | undefined, authorities?: string | null): Server {
  const config = readConfig(text, sslmode);
  // Parsed once, because there are over a hundred of them.
  if (typeof authorities === 'string' && typeof config.ssl === 'object')
    config.ssl.secureContext = createSecureContext({ ...config.ssl, ca: authorities });
  const host = config.host === undefined || config.host === '' ? 'localhost' : config.host;
  const port = config.port ?? 5432;
  if (/\s/.test(host)) fail('the host contains a space');
  if (port < 1 || port > 65_535) fail('the port must be from 1 to 65535');
  const user = config.user === undefined || config.user === '' ? systemUser() : config.user;
  const database = config.database === undefined || config.database === '' ? user : config.database;
  const local = host.startsWith('/');
  const ssl = local ? false : (config.ssl ?? false);
  const server = (tls: ClientConfig['ssl'], plain: Server | null): Server => ({
    name: `${host}:${port}`,
    config: { ...config, host, port, user, database, ssl: tls ?? false },
    endpoint: local
      ? { kind: 'unix', path: `${host.replace(/\/+$/, '')}/.s.PGSQL.${port}` }
      : {
          kind: 'tcp',
          host,
          port,
          tls: tls !== undefined && tls !== false,
          ...(typeof tls === 'object' ? { tlsOptions: tls } : {}),
        },
    plain,
  });
  return server(ssl, sslmode === 'prefer' && ssl !== false ? server(false, null) : null);
}

function readConfig(text: string, sslmode: string | undefined): ClientConfig {
  try {
    // With libpq's meaning of the words, so that the text means the same as to psql: `require` encrypts without
    // verifying the server; verify-full verifies it.
    const libpq = sslmode !== 'no-verify' && !/[?&]uselibpqcompat=/.test(text);
    const said = sslmode === undefined || text.includes('sslmode=');
    const whole = said ? text : `${text}${text.includes('?') ? '&' : '?'}sslmode=${sslmode}`;
    return { ...toClientConfig(parse(whole, libpq ? { useLibpqCompat: true } : {})) };
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    // The parser's own messages quote parts of its input; those about files do not.
    if (code === 'ENOENT' || code === 'EACCES')
      return fail(`${path ?? 'a certificate file'} cannot be read (${code})`);
    if ((error as Error).message.startsWith('SECURITY WARNING: Using sslmode=verify-ca')) {
      return fail('sslmode=verify-ca needs sslrootcert');
    }
    return fail('it is not of the form postgresql://user:password@host:port/database?option=value');
  }
}

function fail(why: string): never {
  throw new EngineError(`the database URL cannot be used: ${why}`);
}

/** libpq's default for the user; a uid without a name has none. */
function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return 'postgres';
  }
}

/**
 * Several hosts in one connection string, as libpq reads them: `postgresql://user@h1:5432,h2/db`, or
 * `?host=h1,h2&port=5432,5433`. Returns one text for each host, in order; null: the lists of hosts and ports do not match. Pure.
 */
export function splitHosts(databaseUrl: string): readonly string[] | null {
  const [, scheme = '', authority = '', rest = ''] = /^([a-z]+:\/\/)([^/?#]*)(.*)$/s.exec(databaseUrl) ?? [];
  if (scheme === '') return [databaseUrl];
  const at = authority.lastIndexOf('@') + 1;
  const named = authority.slice(at).split(',');
  const hosts = parameter(rest, 'host');
  const ports = parameter(rest, 'port');
  const count = hosts?.length ?? named.length;
  if (hosts !== null && named.length > 1) return null;
  // One port for all, or one for each.
  if (ports !== null && ports.length > 1 && ports.length !== count) return null;
  return Array.from({ length: count }, (_, i) => {
    let options = rest;
    if (hosts !== null) options = withParameter(options, 'host', hosts[i] ?? '');
    if (ports !== null) options = withParameter(options, 'port', ports[i] ?? ports[0] ?? '');
    return `${scheme}${authority.slice(0, at)}${named[i] ?? named[0] ?? ''}${options}`;
  });
}

/** The comma-separated texts, still percent-encoded; null: there is no such parameter. */
function parameter(rest: string, name: string): string[] | null {
  const value = new RegExp(`[?&]${name}=([^&#]*)`).exec(rest)?.[1];
  return value === undefined ? null : value.replaceAll(/%2c/gi, ',').split(',');
}

function withParameter(rest: string, name: string, value: string): string {
  return rest.replace(new RegExp(`([?&]${name}=)[^&#]*`), (_, before: string) => before + value);
}
