/**
 * Bodies of requests to the console, and the members of those that ask about tables and requests. Takes a request, returns its JSON; refuses with
 * `body_too_large`, `request_aborted` and `malformed_request`. The bodies are small and the console's own: no payload of a webhook passes here.
 */
import { endpointsPage } from './endpoint-list.ts';
import type { IncomingMessage } from 'node:http';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { ListCall, RetryCall, SqlCall } from './api.ts';
import type { HeldQuestion } from '../observe/tail.ts';
import { anyKept } from './request-filter.ts';
import type { KeptFilter } from './request-filter.ts';

export type BodyMembers = Readonly<Record<string, unknown>>;

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

export function readSqlCall({ sql, write, own = false, zone = '' }: BodyMembers): SqlCall {
  if (!isText(sql) || typeof write !== 'boolean' || typeof own !== 'boolean')
    throw malformed('a statement has sql and write, and own if it is one of the console');
  if (sql.includes('\0')) throw malformed('the SQL holds a zero byte');
  if (typeof zone !== 'string' || !/^[\w+/-]{0,64}$/.test(zone))
    throw malformed('zone is the name of a time zone');
  return { sql, write, own, zone };
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

export const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
export const malformed = (message: string): Refused => new Refused('malformed_request', message);
const tooLarge = (bytesMax: number): Refused =>
  new Refused('body_too_large', `this request to the console is at most ${bytesMax / 1024} KiB`);
