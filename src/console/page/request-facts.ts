/**
 * What is known of one request, wherever it is kept: refused ones and handshakes in the database, the others in the memory of a process. Read
 * again from time to time if it may change (a retry).
 */
import type { HeldRequest } from '../../observe/tail.ts';
import type { ListedRequest } from '../api.ts';
import { isKept } from '../request-filter.ts';
import { readHandshake } from '../request-statements.ts';
import { readOwned, readRefused } from '../statements.ts';
import type { TableRef } from '../statements.ts';
import { useLoaded } from './load.ts';
import type { Loaded } from './load.ts';
import { rowsOf } from './load.ts';
import type { ResultRow } from './load.ts';
import { handshakeRow, rejectedRow, timeOf } from '../request-rows.ts';
import type { RequestLocation } from './request.tsx';
import { call, Failure, look } from './server.ts';
import type { CallOptions } from './server.ts';

export interface Facts {
  readonly row: ListedRequest;
  /** null: nothing but its line is kept. */
  readonly came: RequestLocation | null;
  /** What PostgreSQL itself said of its row; null: it was not asked, or has not refused it. */
  readonly engineError: string | null;
  /** What is said of its retry; null: none was asked for. */
  readonly retry: { readonly outcome: string; readonly reason: string; readonly atMs: number } | null;
  /** The role owns its table; otherwise it may only look. */
  readonly owned: boolean;
  /** The statement that reads it; null: it is in the memory of a process. */
  readonly sql: string | null;
}

/** `gone`: there is no such request any more, or it is not of a table of the role's. */
export function useFacts(id: string): Loaded<Facts | 'gone'> {
  const refresh = isKept(id) ? 2_000 : 0;
  return useLoaded(`facts ${id}`, (options) => read(id, options), refresh);
}

async function read(id: string, options: CallOptions): Promise<Facts | 'gone'> {
  const [, kind, number = ''] = /^([rh])(\d+)$/.exec(id) ?? [];
  if (kind === 'r') {
    const sql = readRefused(number);
    const [row] = rowsOf((await look(sql, options)).tables.at(-1));
    return row === undefined ? 'gone' : refusedFacts(row, sql);
  }
  if (kind === 'h') {
    const sql = readHandshake(number);
    const [row] = rowsOf((await look(sql, options)).tables.at(-1));
    return row === undefined ? 'gone' : askedFacts(row, sql);
  }
  try {
    return await rememberedFacts(id, options);
  } catch (error) {
    if (error instanceof Failure && error.info.code === 'not_found') return 'gone';
    throw error;
  }
}

async function rememberedFacts(id: string, options: CallOptions): Promise<Facts | 'gone'> {
  const row = await call<ListedRequest>('request', { ...options, body: { id } });
  // It was kept meanwhile.
  if (row.id !== id) return read(row.id, options);
  const { held, schema, table } = row;
  const rest = { row, engineError: null, retry: null, owned: true, sql: null };
  if (held === undefined)
    return { ...rest, came: null, owned: row.table === '' || (await isOwned(row, options)) };
  const came = await call<HeldRequest>('held', { ...options, body: { held, schema, table } }).catch(
    () => null,
  );
  // What it held is told to the owner only.
  if (came === null) return { ...rest, came, owned: await isOwned(row, options) };
  return { ...rest, came: cameOfHeld(came) };
}

/** Of a database that does not answer nothing is known, and it refuses what others ask for. */
async function isOwned(of: TableRef, options: CallOptions): Promise<boolean> {
  const [row] = await look(readOwned(of), options).then(
    ({ tables }) => rowsOf(tables.at(-1)),
    () => [],
  );
  return row?.['owned'] !== 'f';
}

function cameOfHeld({ schema, table, atMs, headers, ...rest }: HeldRequest): RequestLocation {
  return {
    ...rest,
    table: { schema, table },
    headers: Object.entries(headers),
    at: (atMs / 1_000).toFixed(3),
  };
}

function refusedFacts(row: ResultRow, sql: string): Facts {
  const text = (name: string): string => row[name] ?? '';
  const came = cameOfRefused(row);
  return {
    row: rejectedRow(row),
    came,
    engineError: row['engine_error'] ?? null,
    retry:
      (row['retry_outcome'] ?? null) === null
        ? null
        : {
            outcome: text('retry_outcome'),
            reason: text('retry_reason'),
            atMs: timeOf(row['retried_at'] ?? null),
          },
    owned: row['owned'] !== 'f',
    sql,
  };
}

function askedFacts(row: ResultRow, sql: string): Facts {
  return {
    row: handshakeRow(row),
    came: null,
    engineError: null,
    retry: null,
    owned: true,
    sql,
  };
}

function cameOfRefused(row: ResultRow): RequestLocation {
  const headers = Object.entries(JSON.parse(row['headers'] ?? '{}') as Record<string, string | string[]>);
  return {
    table: { schema: row['schema_name'] ?? '', table: row['table_name'] ?? '' },
    method: row['method'] ?? 'POST',
    target: row['target'] ?? '',
    headers: headers.flatMap(([name, value]) =>
      [value].flat().map((it): readonly [string, string] => [name, it]),
    ),
    leftOut: JSON.parse(row['headers_left_out'] ?? '[]') as string[],
    masked: JSON.parse(row['headers_masked'] ?? '{}') as Record<string, unknown>,
    body: row['body_base64'] ?? null,
    bodyBytes: Number(row['body_bytes'] ?? 0),
    at: row['at'] ?? '',
  };
}
