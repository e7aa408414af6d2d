/**
 * How a pool of connections for commits is opened, and what each of its connections goes through before it is used: its session is prepared, or, behind
 * a pooler, only looked at; how many connections it has, and which of them shared transactions use. Takes how to connect; returns the pool. A
 * connection fails with 53300 if a pooler does not serve it in time, and with BorrowedSession if a pooler is noticed.
 */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import type { ClientBase, ClientConfig, PoolClient } from 'pg';
import { boundAnswers } from '../engine/close-client.ts';
import { unservedReason } from '../engine/connection-failure.ts';
import { OrphanedBackends } from '../engine/orphaned-backends.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import { backoffMs } from '../kit/backoff.ts';
import { within } from '../kit/promises.ts';
import type { Observe } from '../observe/observations.ts';
import { connectionOf } from './commit-connection.ts';
import type { CommitPool, CommitRole } from './commit-connection.ts';
import { lookAtSession, prepareSession } from './session-settings.ts';

/** What the pools of all databases share, and how this one connects. */
interface ToEngine {
  readonly config: () => ClientConfig;
  readonly applicationName: string;
  readonly statementTimeoutMs: number;
  readonly limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
}

/** `shared`: a pooler lends its sessions to others between transactions. */
export function openCommitPool(
  database: string,
  kind: CommitRole,
  shared: boolean,
  { config, applicationName, statementTimeoutMs, limits: bounds }: ToEngine,
): CommitPool {
  const timeoutMs = bounds.commitStatementTimeoutMs;
  const session = {
    statement_timeout: statementTimeoutMs,
    // pg-pool awaits what onConnect returns; its types do not say so.
    onConnect: ((client) =>
      inTime(
        timeoutMs,
        client,
        prepareSession(client, () => askOnce(open, client)),
      )) as (client: ClientBase) => void,
  };
  const pool = new Pool({
    ...config(),
    max: bounds.commitConnectionsMax,
    connectionTimeoutMillis: timeoutMs,
    idleTimeoutMillis: 60_000,
    application_name: applicationName,
    ...(shared
      ? {
          onConnect: ((client: ClientBase) =>
            inTime(timeoutMs, client, lookAtSession(client))) as unknown as () => void,
        }
      : session),
  });
  // An idle connection that the engine closes is dropped from the pool; the next commit opens another. One that
  // breaks while it commits reports to its group; nobody needs the event.
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    connectionOf(client).pool = open;
    if (kind === 'code') boundAnswers(client);
    client.on('error', () => {});
  });
  const learned = new Set<ClientBase>();
  pool.on('remove', (client) => learned.delete(client));
  // Behind a pooler the process is that of others, too.
  if (!shared) new OrphanedBackends(config).watch(database, pool);
  const atFirst = { warm: [], isOver: false, limitedAtMs: null, said: false, isPgpool: null };
  const open: CommitPool = { database, kind, pool, shared, learned, ...atFirst };
  return open;
}

/**
 * pg-pool's bound ends when the connection is open. A pooler opens it at once, and its first statement waits for a server connection, of which
 * the pooler may have fewer: then there are as many as have been served.
 */
async function inTime(ms: number, client: ClientBase, work: Promise<unknown>): Promise<void> {
  if (
    await within(
      ms,
      work.then(() => true),
      false,
    )
  )
    return;
  const { connection } = client as unknown as { readonly connection: { readonly stream: Socket } };
  connection.stream.destroy();
  throw Object.assign(new Error(unservedReason(ms)), { code: '53300', severity: 'FATAL' });
}

/**
 * pgpool hangs if the rows of a prepared COPY arrive before it has read the engine's answer to it; as through any other pooler, they are
 * then stored by simple queries. A connection from the very port that the engine sees is not asked, because PostgreSQL logs the question.
 */
async function isPgpool(client: ClientBase): Promise<boolean> {
  const { connection } = client as unknown as { readonly connection: { readonly stream: Socket } };
  const { rows } = await client.query<{ port: number | null }>(
    'select pg_catalog.inet_client_port() as port',
  );
  const port = rows[0]?.port ?? null;
  if (port === null || port === connection.stream.localPort) return false;
  try {
    await client.query('show pool_version');
    return true;
  } catch (error) {
    if (sqlstateOf(error) === null) throw error;
    return false;
  }
}

function askOnce(open: CommitPool, client: ClientBase): Promise<boolean> {
  open.isPgpool ??= isPgpool(client).catch((error: unknown) => {
    open.isPgpool = null;
    throw error;
  });
  return open.isPgpool;
}

/** The engine has no more connections: those that there are become the pool's size. */
export async function takeAsSize(
  open: CommitPool,
  { message: reason }: Error,
  attempt: number,
  observe: Observe,
): Promise<void> {
  const { database } = open;
  const connections = open.pool.totalCount;
  open.limitedAtMs = performance.now();
  open.pool.options.max = Math.max(1, connections);
  if (!open.said) observe({ kind: 'commit.connections_limited', database, connections, reason });
  open.said = true;
  // Without a connection of its own, none could be given back.
  if (connections === 0)
    await sleep(backoffMs(attempt, limits.fateRetryMinMs, limits.fateRetryMs, Math.random));
}

/** After a while it tries to have more again. */
export function growAgain(open: CommitPool, connectionsMax: number): void {
  if (open.limitedAtMs === null) return;
  if (performance.now() - open.limitedAtMs < limits.commitConnectionsAgainMs) return;
  open.limitedAtMs = null;
  open.pool.options.max = connectionsMax;
}

/** Enough others keep statements for shared transactions: as many as there may be of those. */
export function isStranger({ learned }: CommitPool, client: ClientBase): boolean {
  return learned.size >= limits.sharedTransactionsMax && !learned.has(client);
}

/** One that is no stranger, while there are idle ones. */
export async function ownOf(open: CommitPool, client: PoolClient): Promise<PoolClient> {
  if (!isStranger(open, client) || open.pool.idleCount === 0) return client;
  try {
    return await ownOf(open, await open.pool.connect());
  } finally {
    client.release();
  }
}
