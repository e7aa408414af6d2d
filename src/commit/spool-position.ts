/**
 * The position of a spool in the database, table by table: the last of its requests that has arrived. Takes connections of Headgate's own; rejects with
 * the engine's error. What stores rows together with it is hand-over.ts.
 */
import type { Target } from '../types/target.ts';
import type { CommitPools } from './commit-pools.ts';
import { lent, runDurably } from './durable.ts';

/** Requests of one table that arrive together. */
export interface HandOverBatch {
  /** 32 hexadecimal digits. */
  readonly spool: string;
  readonly first: bigint;
  readonly last: bigint;
}

export interface HandOverPosition {
  /** headgate.home(): which database has answered. */
  readonly home: string;
  /** The last request that has arrived, by the table's oid. */
  readonly positions: ReadonlyMap<number, bigint>;
}

/** For one spool. Rejects when the engine cannot be asked. */
export async function readArrived(
  pools: CommitPools,
  database: string,
  spool: string,
  timeoutMs: number,
): Promise<HandOverPosition> {
  return lent(pools, database, async (client) => {
    const text = `select headgate.home() as home, p.relation::pg_catalog.text as relation, p.position::pg_catalog.text as position
      from (values (1)) as one left join headgate.spool_position p on p.spool operator(pg_catalog.=) $1::pg_catalog.uuid`;
    const query = { text, values: [spool], query_timeout: timeoutMs };
    const { rows } = await client.query<ArrivedRow>(query);
    const positions = new Map<number, bigint>();
    for (const { relation, position } of rows)
      if (relation !== null && position !== null) positions.set(Number(relation), BigInt(position));
    return { home: rows[0]?.home ?? '', positions };
  });
}

interface ArrivedRow {
  readonly home: string;
  readonly relation: string | null;
  readonly position: string | null;
}

/** Marks requests as arrived, together with another statement. Rejects with the engine's error. */
export async function passWith(
  pools: CommitPools,
  { database, oid }: Pick<Target, 'database' | 'oid'>,
  { spool, first, last }: HandOverBatch,
  statement: { readonly text: string; readonly values: unknown[] } | null,
  timeoutMs: number,
): Promise<void> {
  const advance = {
    text: 'select headgate.advance($1::pg_catalog.uuid, $2::pg_catalog.oid, $3::pg_catalog.int8, $4::pg_catalog.int8)',
    values: [spool, oid, String(first), String(last)],
  };
  const statements = statement === null ? [advance] : [advance, statement];
  await runDurably(pools, database, statements, timeoutMs);
}
