/**
 * A connection string as the `pg` package and the relay need it. Takes text, gives a ClientConfig and an
 * Endpoint; refuses with EngineError a text that can never work, without showing it: it holds a password. Reads
 * the certificate files that the text names.
 */
import { userInfo } from 'node:os';
import type { ClientConfig } from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';
import { type Endpoint, EngineError } from './engine.ts';

export interface Dsn {
  readonly config: ClientConfig;
  readonly database: string;
  readonly endpoint: Endpoint;
  /** Texts that must not be shown: the password, as written and as meant. */
  readonly secrets: readonly string[];
}

const sslmodes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

export function parseDsn(databaseUrl: string): Dsn {
  const fail = (why: string): never => {
    throw new EngineError(`the database URL cannot be used: ${why}`);
  };
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) fail('it must begin with postgresql://');
  const sslmode = /[?&]sslmode=([^&]*)/.exec(databaseUrl)?.[1];
  if (sslmode !== undefined && !sslmodes.includes(sslmode))
    fail(`sslmode must be one of ${sslmodes.join(', ')}`);
  let config: ClientConfig;
  try {
    // The words of libpq, so that the text means what it means to psql: `require` encrypts and does not ask
    // who answers; verify-full does.
    const libpq = sslmode !== 'no-verify' && !/[?&]uselibpqcompat=/.test(databaseUrl);
    config = { ...toClientConfig(parse(databaseUrl, libpq ? { useLibpqCompat: true } : {})) };
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    // The parser's own texts quote parts of its input; those about files do not.
    if (code === 'ENOENT' || code === 'EACCES')
      return fail(`${path ?? 'a certificate file'} cannot be read (${code})`);
    if ((error as Error).message.startsWith('SECURITY WARNING: Using sslmode=verify-ca')) {
      return fail('sslmode=verify-ca needs sslrootcert');
    }
    return fail('it is not of the form postgresql://user:password@host:port/database?option=value');
  }
  const host = config.host === undefined || config.host === '' ? 'localhost' : config.host;
  const port = config.port ?? 5432;
  if (host.includes(',')) fail('several hosts are not possible; name one');
  if (/\s/.test(host)) fail('the host holds a blank');
  if (port < 1 || port > 65_535) fail('the port must be from 1 to 65535');
  const user = config.user === undefined || config.user === '' ? systemUser() : config.user;
  const database = config.database === undefined || config.database === '' ? user : config.database;
  return {
    config: { ...config, host, port, user, database, ssl: config.ssl ?? false },
    database,
    endpoint: host.startsWith('/')
      ? { kind: 'unix', path: `${host.replace(/\/+$/, '')}/.s.PGSQL.${port}` }
      : { kind: 'tcp', host, port, tls: config.ssl !== undefined && config.ssl !== false },
    secrets:
      typeof config.password === 'string' ? [config.password, encodeURIComponent(config.password)] : [],
  };
}

/** libpq's default for the user; an uid without a name has none. */
function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return 'postgres';
  }
}
