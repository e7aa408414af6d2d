/**
 * The rows of a SELECT, one after the other, until there are enough: neither their number nor their size is known before. Takes a session in a
 * transaction; returns values as PostgreSQL writes them, those that are too long cut, by PostgreSQL itself: one may have a gigabyte.
 */
import type { QueryArrayResult } from 'pg';
import { limits } from '../../config/limits.ts';
import { PlainError } from '../../kit/plain-error.ts';
import { databaseError } from '../session.ts';
import type { CommandSession } from '../session.ts';
import type { ToolResult } from './server.ts';

export async function fetched(session: CommandSession, select: string, rowsMax: number): Promise<ToolResult> {
  await one(session, `DECLARE shape NO SCROLL CURSOR FOR ${select}`);
  const names = (await one(session, 'FETCH 0 FROM shape')).fields.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined)
    throw new PlainError(`two columns have the name ${twice}: give one of them another with AS`);
  if (names.length === 0) throw new PlainError('the query has no columns');
  const columns = names.map((_, at) => `c${at}`);
  // OFFSET: each value is computed once.
  await one(
    session,
    `DECLARE found NO SCROLL CURSOR FOR SELECT ${columns.map(short).join(', ')} FROM (SELECT * FROM (${select}\n) r OFFSET 0) q(${columns.join(', ')})`,
  );
  const rows: Record<string, string | null>[] = [];
  let [chars, truncated] = [0, false];
  for (;;) {
    const [row] = (await one(session, 'FETCH found')).rows;
    if (row === undefined) break;
    if (rows.length === rowsMax || chars > limits.mcpAnswerCharsMax) {
      truncated = true;
      break;
    }
    const shown = row.map((value) => value?.slice(0, limits.mcpValueCharsMax) ?? null);
    truncated ||= shown.some((value, at) => value !== row[at]);
    // Own members, whatever their names are.
    rows.push(Object.fromEntries(names.map((name, at) => [name, shown[at] ?? null])));
    chars += [...names, ...shown].reduce((sum, text) => sum + (text?.length ?? 0), 0);
  }
  return { rows, truncated };
}

/** A composite value IS NULL if its parts are. */
const short = (column: string): string =>
  `CASE WHEN pg_catalog.int4eq(pg_catalog.num_nulls(${column}), 0) THEN pg_catalog.left(pg_catalog.format('%s', ${column}), ${limits.mcpValueCharsMax + 1}) END`;

/** By the extended protocol, which takes one statement and no second one behind it. */
async function one(session: CommandSession, text: string): Promise<QueryArrayResult<(string | null)[]>> {
  const query = { text, queryMode: 'extended', rowMode: 'array' } as const;
  try {
    return await session.client.query<(string | null)[]>(query);
  } catch (error) {
    throw databaseError(error);
  }
}
