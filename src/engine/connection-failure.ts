/**
 * Why there is no connection to a server, in one line: the server's own words with their SQLSTATE, or the system's, and then what to change, if
 * that can be told. Takes the error of an attempt and how it was made; without credentials. Pure.
 */
import { sqlstateOf } from './sqlstate.ts';
import { Refused } from '../errors/refusals.ts';

/** What was attempted. */
interface ConnectionAttempt {
  readonly user: string;
  readonly database: string;
  /** `host:port`. */
  readonly at: string;
  /** Also with SSL, if this attempt was without. */
  readonly triedSsl: boolean;
}

/** What `pg` says when a server answers `N` to its request for TLS; the error has no code (lib/connection.js of version 8). */
const noTls = 'The server does not support SSL connections';

/** What `pg` says when a server asks for a password and there is none (lib/crypto/sasl.js of version 8). */
const noPassword = /client password must be a(?: non-empty)? string/;

/** The server has no TLS, or none for this client: its pg_hba.conf has no line for encrypted connections (28000). */
export function wantsPlain(error: unknown): boolean {
  return error instanceof Error && (error.message === noTls || sqlstateOf(error) === '28000');
}

/** The server has no TLS at all. */
export function hasNoTls(error: unknown): boolean {
  return error instanceof Error && error.message === noTls;
}

/** A password is missing or wrong, so that another one may do. */
export function wantsPassword(error: unknown): boolean {
  return error instanceof Error && (noPassword.test(error.message) || sqlstateOf(error) === '28P01');
}

export function connectionFailure(error: unknown, attempt: ConnectionAttempt): string {
  if (error instanceof Error && noPassword.test(error.message))
    return `the server asks for the password of "${attempt.user}", and the connection string has none`;
  const todo = error instanceof Error ? adviceFor(error, attempt) : null;
  return todo === null ? wordsOf(error) : `${wordsOf(error)}: ${todo}`;
}

/** The words of the server or of the system, without advice. */
export function wordsOf(error: unknown): string {
  const sqlstate = sqlstateOf(error);
  return sqlstate === null ? saidBy(error) : `${saidBy(error)} (SQLSTATE ${sqlstate})`;
}

/** Node tries several addresses of a name and then throws an AggregateError with an empty message. */
function saidBy(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(saidBy))].join('; ');
  return error instanceof Error ? error.message : String(error);
}

const firstOf = (error: Error): Error =>
  error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error;

function adviceFor(error: Error, attempt: ConnectionAttempt): string | null {
  const { user, database, triedSsl } = attempt;
  switch (sqlstateOf(error)) {
    case '28P01':
      return 'check the user and the password in the connection string, in which characters such as @ : / ? # % are percent-encoded';
    case '28000':
      return adviceForRefusal(error as Error & { routine?: string }, triedSsl);
    case '3D000':
      return `create it (CREATE DATABASE "${database}"), or name another one in the connection string`;
    case '42501':
      return `let the owner of the database run GRANT CONNECT ON DATABASE "${database}" TO "${user}"`;
    case null:
      return adviceWithoutAnswer(firstOf(error), attempt);
    default:
      return null;
  }
}

/** 28000 has several causes; servers translate the words, but not the names of their functions. */
function adviceForRefusal({ routine = '' }: { routine?: string }, triedSsl: boolean): string | null {
  if (routine === 'InitializeSessionUserId') return 'the role has to exist and to have LOGIN';
  if (!triedSsl)
    return 'the connection was not encrypted; if the server wants SSL, write sslmode=require into the connection string';
  if (routine === 'ClientAuthentication')
    return 'pg_hba.conf of the server has to let this user in from this machine';
  return null;
}

const systemAdvice: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there; is the server running, and is that its port?',
  ENOTFOUND: 'there is no host of that name',
  EAI_AGAIN: 'the name of the host cannot be looked up at the moment',
  ENOENT: 'there is no such socket; is the server running?',
  EACCES: 'this user may not open the socket',
  ETIMEDOUT: 'no answer; a firewall may be in between',
  EHOSTUNREACH: 'there is no way to that host',
  ENETUNREACH: 'there is no way to that host',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'sslmode=verify-full wants a certificate with the name of the host in the connection string',
  CERT_HAS_EXPIRED: 'the certificate of the server has to be renewed',
};

/** Of OpenSSL, as Node names them: the authority of the certificate is not among those that are trusted. */
const untrusted =
  /^(?:DEPTH_ZERO_)?SELF_SIGNED_CERT|^UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT)|^CERT_UNTRUSTED/;

function adviceWithoutAnswer(error: Error, { at }: ConnectionAttempt): string | null {
  const { message } = error;
  const { code = '' } = error as NodeJS.ErrnoException;
  if (message === noTls)
    return 'sslmode in the connection string wants SSL; turn SSL on in the server, or write sslmode=prefer';
  if (message.startsWith('timeout expired'))
    return `${at} has not answered in time; a firewall may be in between`;
  if (message.startsWith('Connection terminated'))
    return `${at} has closed the connection without an answer; is that the port of a PostgreSQL?`;
  if (untrusted.test(code))
    return 'sslrootcert=FILE names the authority that has signed it, in the connection string';
  return systemAdvice[code] ?? null;
}

/** Whether `pg` gave up waiting for the answer to a statement: it gives that error no code. */
export const isUnanswered = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Query read timeout';

/** Of a connection whose first statement got no answer for so many ms. */
export const unservedReason = (ms: number): string =>
  `a connection was accepted and not served in ${ms} ms: the server is overloaded, or a pooler in front of it has fewer server connections (PgBouncer: default_pool_size) than Headgate opens (HEADGATE_COMMIT_CONNECTIONS, and some 8 others)`;

/**
 * The refusal for a client that has named that database: a condition that lasts until somebody changes the database or its privileges is not reported as
 * temporary.
 */
export function notConnected(error: unknown): Refused {
  switch (sqlstateOf(error)) {
    case '3D000':
      return new Refused('database_unknown');
    // ALTER DATABASE … ALLOW_CONNECTIONS false, as for template0; a role without CONNECT.
    case '55000':
    case '42501':
      return new Refused('database_closed');
    default:
      // The engine's message names roles and hosts; the log of the engine's watch has it.
      return new Refused('engine_unavailable');
  }
}
