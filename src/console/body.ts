/**
 * Bodies of requests to the console. Takes a request, returns its JSON; refuses with `body_too_large`,
 * `request_aborted`, `malformed_request` and `replay_impossible`. The bodies are small and the console's own: no payload of a webhook passes
 * here.
 */
import { endpointsPage } from './endpoint-list.ts';
import type { IncomingMessage } from 'node:http';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type {
  SenderCheck,
  HmacTrial,
  ListCall,
  LoginRequest,
  ReplayRequest,
  RetryCall,
  SharedCall,
  SqlCall,
  TestRequest,
} from './api.ts';
import { isHmacForm } from './custom-hmac.ts';
import type { HeldQuestion } from '../observe/tail.ts';
import { anyKept } from './request-statements.ts';
import type { KeptFilter } from './request-statements.ts';

type BodyMembers = Readonly<Record<string, unknown>>;

/** At most `bytesMax`: the limit is low before login. */
export async function readObject(
  request: IncomingMessage,
  bytesMax: number = limits.consoleBodyBytesMax,
): Promise<BodyMembers> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const late = setTimeout(() => request.destroy(), limits.consoleBodyMs);
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      pieces.push(piece);
    }
  } catch (error) {
    throw error instanceof Refused ? error : new Refused('request_aborted');
  } finally {
    clearTimeout(late);
  }
  let value: unknown;
  try {
    value = JSON.parse(Buffer.concat(pieces).toString('utf8'));
  } catch {
    throw malformed('the body is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw malformed('the body is no JSON object');
  return value as BodyMembers;
}

export function readLogin({ link, shared, user, password, database }: BodyMembers): LoginRequest {
  if (typeof link === 'string') return { link };
  if (typeof shared === 'string') return { shared };
  if (!isText(user) || typeof password !== 'string')
    throw malformed('a login has link, or user and password');
  if (user.includes('\0') || password.includes('\0')) throw malformed('a login holds no zero byte');
  return { user, password, ...(isText(database) && !database.includes('\0') ? { database } : {}) };
}

export function readShared({ key, drop = false }: BodyMembers): SharedCall {
  if (typeof key !== 'string' || typeof drop !== 'boolean') throw malformed('a link that logs in has a key');
  return { key, drop };
}

export function readSqlCall({ sql, write, own = false, zone = '' }: BodyMembers): SqlCall {
  if (!isText(sql) || typeof write !== 'boolean' || typeof own !== 'boolean')
    throw malformed('a statement has sql and write, and own if it is one of the console');
  if (sql.includes('\0')) throw malformed('the SQL holds a zero byte');
  if (typeof zone !== 'string' || !/^[\w+/-]{0,64}$/.test(zone))
    throw malformed('zone is the name of a time zone');
  return { sql, write, own, zone };
}

/** The checks of tables, as the catalog has them. */
export function readChecks({ checks }: BodyMembers): readonly SenderCheck[] {
  if (!Array.isArray(checks) || checks.length > limits.consoleChecksMax)
    throw malformed(`checks is a list of at most ${limits.consoleChecksMax}`);
  return (checks as unknown[]).map((it) => {
    const { expression, secrets } = (it ?? {}) as BodyMembers;
    if (
      typeof expression !== 'string' ||
      !Array.isArray(secrets) ||
      secrets.length > limits.consoleCheckSecretsMax
    )
      throw malformed('a check has expression and secrets');
    return { expression, secrets: (secrets as unknown[]).map(String) };
  });
}

export function readTest({ sender, secret, schema, table }: BodyMembers): Omit<TestRequest, 'database'> {
  if (typeof sender !== 'string' || typeof secret !== 'string')
    throw malformed('a test has sender and secret');
  if (!isText(schema) || !isText(table)) throw malformed('a test has schema and table');
  return { sender, secret, schema, table };
}

/** A form of the wizard, and a request to try it on. */
export function readTrial({ form, secret, request }: BodyMembers): HmacTrial {
  if (!isHmacForm(form) || !isText(secret)) throw malformed('a check to try has form and secret');
  const { headers, body } = (request ?? {}) as BodyMembers;
  if (typeof body !== 'string') throw malformed('a request to try has headers and body');
  return { form, secret, request: { headers: readHeaders(headers), body } };
}

/** Tables by oid: as many as a page of them has. */
export function readOids({ oids }: BodyMembers): readonly number[] {
  const isOid = (it: unknown): it is number => Number.isSafeInteger(it) && Number(it) > 0;
  if (!Array.isArray(oids) || oids.length > endpointsPage || !oids.every(isOid))
    throw malformed(`oids are at most ${endpointsPage} numbers`);
  return oids;
}

/** `database`: for sessions that may see all of them. */
export function readHeld({ held, database, schema, table }: BodyMembers): Omit<HeldQuestion, 'oid'> {
  if (!isText(held) || !isText(schema) || !isText(table))
    throw malformed('a request that is held is named by held, schema and table');
  return { held, schema, table, database: isText(database) ? database : '' };
}

export function readRetry({ filter, force }: BodyMembers): RetryCall {
  if (typeof force !== 'boolean') throw malformed('a retry has filter and force');
  return { filter: readFilter(filter), force };
}

export function readList({ filter, from = null, counts = false }: BodyMembers): ListCall {
  if (typeof counts !== 'boolean') throw malformed('a list has filter, and may have from and counts');
  const [ms, id] = Array.isArray(from) ? (from as unknown[]) : [0, 'r0'];
  if (!isMoment(ms) || !isText(id)) throw malformed('from is a time in ms and an id');
  return { filter: readFilter(filter), from: from === null ? null : [ms, id], counts };
}

/** What is missing is no filter. */
function readFilter(filter: unknown): KeptFilter {
  if (typeof filter !== 'object' || filter === null) throw malformed('a filter is an object');
  const given = filter as BodyMembers;
  const read = Object.entries(anyKept).map(([name, none]) => {
    const value = given[name] ?? none;
    const fits =
      typeof none === 'number' ? isMoment(value) : typeof value === 'string' && !value.includes('\0');
    if (!fits) throw malformed(`the filter ${name} is a ${typeof none === 'number' ? 'time in ms' : 'text'}`);
    // A statement holds it many times.
    if (typeof value === 'string' && value.length > limits.consoleFilterCharsMax)
      throw malformed(`the filter ${name} has at most ${limits.consoleFilterCharsMax} characters`);
    return [name, value];
  });
  return Object.fromEntries(read) as KeptFilter;
}

/** Up to the year 9999: a later one would be written in a form that PostgreSQL does not read. */
const isMoment = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < Date.UTC(10_000, 0);

export function readReplay(given: BodyMembers): ReplayRequest {
  const { schema, table, method, query, headers, body, sign, checked, vouched = '' } = given;
  if (!isText(schema) || !isText(table)) throw malformed('a request to send has schema and table');
  if (typeof method !== 'string' || !/^[A-Z]{1,16}$/.test(method)) throw malformed('the method is no method');
  if (typeof query !== 'string' || !/^(\?[\x21-\x7e]*)?$/.test(query) || query.includes('#'))
    throw malformed('the query begins with ? and holds visible ASCII');
  if (typeof body !== 'string' || typeof sign !== 'boolean')
    throw malformed('a request to send has body and sign');
  if (typeof checked !== 'boolean' || typeof vouched !== 'string')
    throw malformed('a request to send has checked');
  // With a signature of its own Headgate would store what anybody may have sent.
  if (sign && !checked && vouched !== table)
    throw new Refused(
      'replay_impossible',
      `no check has accepted this request: to sign it, type the name of the table, ${table}`,
    );
  return { schema, table, method, query, headers: readHeaders(headers), body, sign, checked, vouched };
}

function readHeaders(headers: unknown): ReplayRequest['headers'] {
  if (!Array.isArray(headers) || headers.length > limits.consoleReplayHeadersMax)
    throw malformed(`a request to send has at most ${limits.consoleReplayHeadersMax} headers`);
  return (headers as unknown[]).map((pair) => {
    const [name, value] = Array.isArray(pair) ? (pair as unknown[]) : [];
    if (typeof name !== 'string' || !/^[\w!#$%&'*+.^`|~-]{1,200}$/.test(name) || typeof value !== 'string')
      throw malformed('a header is a name and a value');
    // A header value has one character per byte, and no line break.
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) throw malformed(`header ${name} holds what no header may`);
    return [name, value] as const;
  });
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const malformed = (message: string): Refused => new Refused('malformed_request', message);
const tooLarge = (bytesMax: number): Refused =>
  new Refused('body_too_large', `this request to the console is at most ${bytesMax / 1024} KiB`);
