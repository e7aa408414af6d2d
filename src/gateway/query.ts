/**
 * The parameters of the gateway's requests. Takes a request target, returns its query parameters; refuses with
 * `malformed_query` any that are unknown, missing, given twice, or not one of the allowed values. The OpenAPI document
 * prints the same table. Pure.
 */
import { Refused } from '../errors/refusals.ts';
import { conflicts } from './event-store.ts';
import type { EventRequest } from './event-store.ts';

export interface QueryParameter {
  readonly description: string;
  readonly required?: true;
  /** The first is the default. */
  readonly values?: readonly string[];
}

const database = { description: 'which database; the default one when absent' };

export const eventParameters = {
  name: { description: 'table or schema.table, quoted as in SQL', required: true },
  database,
  on_error: { description: 'skip: commit the good lines and list the bad ones', values: ['fail', 'skip'] },
  on_conflict: {
    description:
      'for a row whose primary key already exists: error refuses it, ignore keeps the old row, update replaces it (a column that the event does not have becomes NULL)',
    values: conflicts,
  },
  flush: { description: 'true: answer when the rows can be read', values: ['false', 'true'] },
} as const satisfies Record<string, QueryParameter>;

export const streamParameters = {
  name: eventParameters.name,
  database,
  after: {
    description: 'the id of the last event that was read; 0: from the beginning; absent: from now on',
  },
  batch: {
    description:
      'an event has an id at least every so many rows, 1 to 10000; absent: the last one of each batch',
  },
  token: {
    description:
      'a token of CREATE TOKEN … FOR SELECT, for clients that cannot send Authorization, such as EventSource',
  },
} as const satisfies Record<string, QueryParameter>;

export const sqlParameters = { database } as const satisfies Record<string, QueryParameter>;

export type QueryValues<Table> = { readonly [name in keyof Table]?: string };

export function readQuery<Table extends Readonly<Record<string, QueryParameter>>>(
  target: string,
  table: Table,
): QueryValues<Table> {
  const given = new Map<string, string>();
  for (const [name, value] of pairsOf(target)) {
    if (!Object.hasOwn(table, name)) {
      throw refuse(`unknown parameter ${shown(name)}: there are ${Object.keys(table).join(', ')}`);
    }
    if (given.has(name)) throw refuse(`the parameter ${name} is given more than once`);
    const { values } = table[name] ?? {};
    if (values !== undefined && !values.includes(value)) {
      throw refuse(`the parameter ${name} is one of ${values.join(', ')}, not ${shown(value)}`);
    }
    given.set(name, value);
  }
  for (const [name, { required, description: what }] of Object.entries(table)) {
    if (required !== true) continue;
    const value = given.get(name);
    if (value === undefined) throw refuse(`the parameter ${name} is missing: it is ${what}`);
    if (value === '') throw refuse(`the parameter ${name} is empty: it is ${what}`);
  }
  return Object.fromEntries(given) as QueryValues<Table>;
}

/** What POST /v1/events is asked for. `database`: see GatewayDatabases (gateway-options.ts). Throws Refused. */
export function readEvent(target: string, database: (name: string | undefined) => string): EventRequest {
  const given = readQuery(target, eventParameters);
  const { name = '', on_error: onError, on_conflict: onConflict, flush } = given;
  return {
    database: database(given.database),
    name,
    onConflict: conflicts.find((it) => it === onConflict) ?? null,
    skips: onError === 'skip',
    flush: flush === 'true',
  };
}

/** The values of a parameter, before the others are read. */
export function valuesOf(target: string, wanted: string): readonly string[] {
  return [...pairsOf(target)].filter(([name]) => name === wanted).map(([, value]) => value);
}

function* pairsOf(target: string): Iterable<readonly [string, string]> {
  const start = target.indexOf('?');
  if (start < 0) return;
  for (const pair of target.slice(start + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = equals < 0 ? pair : pair.slice(0, equals);
    yield [decoded(name), equals < 0 ? '' : decoded(pair.slice(equals + 1))];
  }
}

/** Text that is not percent-encoded UTF-8 stays as it is. */
function decoded(text: string): string {
  const plain = text.replaceAll('+', ' ');
  if (!plain.includes('%')) return plain;
  try {
    return decodeURIComponent(plain);
  } catch {
    return plain;
  }
}

/** A stranger's text, made short and harmless for a message. */
function shown(text: string): string {
  return `"${text.slice(0, 60).replaceAll(/[^\x20-\x7e]/g, '?')}"`;
}

const refuse = (why: string): Refused => new Refused('malformed_query', why);
