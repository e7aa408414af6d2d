/** Statements of Headgate's own on a commit connection. Takes them as text; rejects with the engine's error. */
import type { PoolClient } from 'pg';
import type { CommitPools } from './commit-pools.ts';
import { safePath, settingStatements } from './transaction-statements.ts';

export interface BoundStatement {
  readonly text: string;
  readonly values: unknown[];
}

/** Runs them in one transaction, whose commit waits for the disk; returns the first row of the last one. `timeoutMs`: for each. */
export function runDurably(
  pools: Pick<CommitPools, 'connect'>,
  database: string,
  statements: readonly BoundStatement[],
  timeoutMs: number,
): Promise<object | null> {
  return lent(pools, database, async (client) => {
    const query = async (text: string, values: unknown[] = []) => {
      const bounded = { text, values, query_timeout: timeoutMs };
      return (await client.query<object>(bounded)).rows;
    };
    await query('begin isolation level read committed');
    await query(`select pg_catalog.set_config('search_path', '${safePath}', true)`);
    await query(settingStatements.durable);
    let found: object[] = [];
    for (const { text, values } of statements) found = await query(text, values);
    await query('commit');
    return found[0] ?? null;
  });
}

/** A connection that has failed in any way is not lent again. */
export async function lent<T>(
  pools: Pick<CommitPools, 'connect'>,
  database: string,
  use: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const client = await pools.connect(database);
  let usable = false;
  try {
    const result = await use(client);
    usable = true;
    return result;
  } finally {
    client.release(!usable);
  }
}
