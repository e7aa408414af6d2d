/**
 * What became of a transaction whose answer was lost, or left it in doubt. Takes its number and the incarnation of the server
 * that gave it out; asks on another connection until it knows or no time is left. Returns `committed`, `aborted`, or null if nobody
 * can know: the server was started or recovered since, another one answers, or rows are kept by further servers, which may
 * have committed what this one has rolled back. Touches the engine; stores nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { backoffMs } from '../kit/backoff.ts';
import { limits } from '../config/limits.ts';
import { connectionOf } from './commit-connection.ts';
import type { CommitPools } from './commit-pools.ts';
import { roundTrip } from './round-trip.ts';
import { queryMessage } from './wire-message.ts';

/** How a transaction has ended. */
export type TransactionEnd = 'committed' | 'aborted';

export interface LostTransaction {
  readonly database: string;
  readonly xid: string;
  /** See CommitConnection.incarnation. */
  readonly incarnation: string | null;
  /** Whether its commit waits for the disk, and for standbys if the server has synchronous ones. */
  readonly waitsForDisk: boolean;
}

interface Clock {
  /** By a monotonic clock, ms. */
  readonly leftMs: () => number;
  readonly random: () => number;
}

interface Status {
  readonly status: string | null;
  readonly replicated: boolean;
  readonly spread: boolean;
}

const statusSql = `select pg_catalog.pg_xact_status($1::text::pg_catalog.xid8) as status,
  pg_catalog.current_setting('synchronous_standby_names') <> '' as replicated,
  exists (select from pg_catalog.pg_extension where extname = 'citus') as spread`;

/** Its commit ends when the standbys have everything written before it. */
const barrier = queryMessage(`select pg_catalog.pg_logical_emit_message(true, 'headgate', '')`);

export async function fateOf(
  lost: LostTransaction,
  pools: CommitPools,
  clock: Clock,
): Promise<TransactionEnd | null> {
  if (lost.incarnation === null) return null;
  for (let attempt = 1; clock.leftMs() > 0; attempt++) {
    const answer = await ask(lost, pools, clock).catch(() => 'ask again' as const);
    if (answer !== 'ask again') return answer;
    const pause = backoffMs(attempt, limits.fateRetryMinMs, limits.fateRetryMs, clock.random);
    await sleep(Math.max(0, Math.min(pause, clock.leftMs())));
  }
  return null;
}

/** Rejects when the connection fails; a retry may help. */
async function ask(
  lost: LostTransaction,
  pools: CommitPools,
  clock: Clock,
): Promise<TransactionEnd | null | 'ask again'> {
  const client = await pools.connect(lost.database);
  // First: another incarnation may never have given out this number, and the query would be an error.
  if (connectionOf(client).incarnation !== lost.incarnation) {
    client.release();
    return null;
  }
  let usable = false;
  try {
    const answer = await askOn(client, lost, clock);
    usable = true;
    return answer;
  } finally {
    client.release(!usable);
  }
}

/** What the server of this connection knows about a transaction that it has numbered. Rejects when the connection fails. */
export async function askOn(
  client: ClientBase,
  { xid, waitsForDisk }: Pick<LostTransaction, 'xid' | 'waitsForDisk'>,
  clock: Pick<Clock, 'leftMs'>,
): Promise<TransactionEnd | null | 'ask again'> {
  const { status, replicated, spread } = await readStatus(client, xid, clock);
  if (status === 'in progress') return 'ask again';
  if (status === 'aborted') return spread ? null : 'aborted';
  if (status !== 'committed') return null;
  if (!replicated || !waitsForDisk) return 'committed';
  // It is committed on this server; its sender was promised that the standby has it, too.
  const [reply] = await roundTrip(client, [barrier], [1], Math.max(1, clock.leftMs()));
  if (reply?.kind === 'lost') throw new Error(reply.reason);
  return reply?.kind === 'done' ? 'committed' : null;
}

async function readStatus(client: ClientBase, xid: string, clock: Pick<Clock, 'leftMs'>): Promise<Status> {
  const query = { text: statusSql, values: [xid], query_timeout: Math.max(1, Math.ceil(clock.leftMs())) };
  const { rows } = await client.query<Status>(query);
  return rows[0] ?? { status: null, replicated: true, spread: true };
}
