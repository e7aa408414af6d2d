/**
 * Connections for commits, per database and apart from every other use of the engine. Opened when needed, kept
 * while used, bounded by `commitConnectionsMax`; waiting for one is bounded by the commit's deadline.
 *
 * A server, a database or a role that has no connection left (53300) says how many there are to be had: the pool takes what it
 * has for its size, and whoever asks waits for one of those. After a while it tries to have more again.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import type { ClientBase, PoolClient } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { refusesParameters, sqlstateOf } from '../engine/sqlstate.ts';
import { backoffMs } from '../kit/backoff.ts';
import { limits as allLimits } from '../tables/limits.ts';
import type { Limits } from '../tables/limits.ts';
import type { Observe } from '../tables/observations.ts';
import { KeptSessions } from './kept-sessions.ts';
import { preparedForMany } from './prepared.ts';
import type { PreparedStatements } from './prepared.ts';
import { LentSession, lookAtSession, prepareSession, renewSession, stained } from './session-facts.ts';

interface Open {
  readonly pool: Pool;
  readonly shared: boolean;
  /** When the engine last had no connection left for it. */
  limitedAtMs: number | null;
  /** Whether the log has been told. */
  said: boolean;
  readonly kept: KeptSessions;
  /** Given back in this turn of the event loop. */
  readonly warm: PoolClient[];
  /** Nothing is kept of it any more. */
  isOver: boolean;
  /** Those that keep a statement for each of very many tables. */
  readonly learned: Set<ClientBase>;
  /** Asked once of each database; null: not yet. */
  isPgpool: Promise<boolean> | null;
}

export class CommitPools {
  readonly #engine: Pick<Engine, 'clientConfig' | 'doubt'>;
  readonly #limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
  readonly #applicationName: string;
  readonly #observe: Observe;
  readonly #statementTimeoutMs: number;
  readonly #pools = new Map<string, Open>();

  /** `statementTimeoutMs`: what the engine gives a statement, where that is more than a connection is waited for. */
  constructor(
    engine: Pick<Engine, 'clientConfig' | 'doubt'>,
    limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>,
    applicationName = 'headgate commit',
    observe: Observe = () => undefined,
    statementTimeoutMs = limits.commitStatementTimeoutMs,
  ) {
    this.#statementTimeoutMs = statementTimeoutMs;
    this.#observe = observe;
    this.#applicationName = applicationName;
    this.#engine = engine;
    this.#limits = limits;
  }

  /**
   * A connection to commit on, for rows of `table` perhaps one in which only code of that table has run; throws when none can
   * be had in time. Give it back with `release`, or giveBack, or giveBackStained.
   */
  async connect(database: string, table: number | null = null): Promise<PoolClient> {
    const latest = performance.now() + this.#limits.commitStatementTimeoutMs;
    for (let attempt = 1; ; attempt++) {
      const open = this.#pools.get(database) ?? this.#open(database, false);
      this.#growAgain(open);
      const own = (table === null ? null : open.kept.take(table)) ?? open.warm.pop() ?? null;
      if (own !== null) return own;
      try {
        return (await this.#lastOf(open)) ?? (await open.pool.connect());
      } catch (error) {
        if (!open.shared && (refusesParameters(error) || error instanceof LentSession))
          this.#share(database, open);
        else if (sqlstateOf(error) !== '53300' || performance.now() >= latest) throw error;
        else await this.#takeAsSize(database, open, error as Error, attempt);
      }
    }
  }

  /** Where all connections are lent: one that is kept for another table, as new; null: there are others, or none is. */
  async #lastOf({ pool, kept }: Open): Promise<PoolClient | null> {
    const isFull = pool.idleCount === 0 && pool.totalCount >= pool.options.max;
    const client = isFull ? kept.takeAny() : null;
    if (client === null) return null;
    try {
      await renewSession(client, this.#limits.commitStatementTimeoutMs);
      return client;
    } catch {
      client.release(true);
      return null;
    }
  }

  #share(database: string, open: Open): void {
    const next = this.#pools.get(database);
    // Another request of the same moment may have found out already.
    if (next === undefined || next === open) this.#open(database, true);
    if (next === open) void this.#end(open);
  }

  #end(open: Open): Promise<void> {
    open.isOver = true;
    open.kept.close();
    return open.pool.end();
  }

  /** The engine has no more connections than these. */
  async #takeAsSize(
    database: string,
    open: Open,
    { message: reason }: Error,
    attempt: number,
  ): Promise<void> {
    const connections = open.pool.totalCount;
    open.limitedAtMs = performance.now();
    open.pool.options.max = Math.max(1, connections);
    if (!open.said) this.#observe({ kind: 'commit.connections_limited', database, connections, reason });
    open.said = true;
    // Without one of its own there is none that could be given back.
    if (connections === 0)
      await sleep(backoffMs(attempt, allLimits.fateRetryMinMs, allLimits.fateRetryMs, Math.random));
  }

  #growAgain(open: Open): void {
    if (open.limitedAtMs === null) return;
    if (performance.now() - open.limitedAtMs < allLimits.commitConnectionsAgainMs) return;
    open.limitedAtMs = null;
    open.pool.options.max = this.#limits.commitConnectionsMax;
  }

  /**
   * Whether a pooler stands between, which lends the same session to others: nothing may be set for longer than a
   * transaction.
   */
  isShared(database: string): boolean {
    return this.#pools.get(database)?.shared === true;
  }

  /** As `connect`, for a shared transaction: one that keeps statements for it, where enough others do and it is idle. */
  async connectForMany(database: string): Promise<PoolClient> {
    const first = await this.connect(database);
    const open = this.#pools.get(database);
    return open === undefined ? first : ownOf(open, first);
  }

  /** Where this connection keeps its statements for shared transactions; null: enough others of its database do. */
  statementsForMany(database: string, client: ClientBase): PreparedStatements | null {
    const open = this.#pools.get(database);
    if (open === undefined || isStranger(open, client)) return null;
    open.learned.add(client);
    return preparedForMany(client);
  }

  /** Takes back a connection for the group that goes next: one of this turn of the event loop goes on with it at once. */
  giveBack(client: PoolClient): void {
    const open = opens.get(client);
    if (open === undefined || open.isOver || open.pool.waitingCount > 0) return client.release();
    if (open.warm.push(client) > 1) return;
    setImmediate(() => {
      for (const it of open.warm.splice(0)) it.release();
    });
  }

  /**
   * Takes back a connection in whose session code has run: of `table` alone, for which it is kept a while, or of any. It is
   * lent to others when the session is as new. Behind the answers; nobody waits for it but who wants the last connection.
   */
  giveBackStained(database: string, client: PoolClient, table: number | null = null): void {
    const open = this.#pools.get(database);
    // What a shared session has to be cleaned of went with the transaction.
    if (open?.shared === true) return client.release();
    // Who waits for a connection is not left waiting for one that is kept.
    if (open === undefined || table === null || open.pool.waitingCount > 0) return this.#renew(client, false);
    stained.add(client);
    open.kept.keep(table, client);
  }

  #renew(client: PoolClient, broken: boolean): void {
    if (broken) return client.release(true);
    renewSession(client, this.#limits.commitStatementTimeoutMs).then(
      () => client.release(),
      () => client.release(true),
    );
  }

  /** A server that took rows does not take them any more. */
  readOnly(): void {
    this.#engine.doubt?.();
  }

  /** Lets go of a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const open = this.#pools.get(database);
    this.#pools.delete(database);
    if (open !== undefined) await this.#end(open);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.keys()].map((database) => this.release(database)));
  }

  #open(database: string, shared: boolean): Open {
    const session = {
      statement_timeout: this.#statementTimeoutMs,
      // pg-pool awaits what onConnect gives; its types do not say so.
      onConnect: ((client) => prepareSession(client, () => askOnce(open, client))) as (
        client: ClientBase,
      ) => void,
    };
    const pool = new Pool({
      ...this.#engine.clientConfig(database),
      max: this.#limits.commitConnectionsMax,
      connectionTimeoutMillis: this.#limits.commitStatementTimeoutMs,
      idleTimeoutMillis: 60_000,
      application_name: this.#applicationName,
      ...(shared ? { onConnect: lookAtSession as (client: ClientBase) => void } : session),
    });
    // An idle connection that the engine closes is simply not there any more; the next commit opens another. One that
    // breaks while it commits tells its group; as an event the error is nobody's.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      opens.set(client, open);
      client.on('error', () => {});
    });
    const learned = new Set<ClientBase>();
    pool.on('remove', (client) => learned.delete(client));
    const letGo = (client: PoolClient, broken: boolean) => this.#renew(client, broken);
    const kept = new KeptSessions({ limits: allLimits, letGo });
    const atFirst = { warm: [], isOver: false, limitedAtMs: null, said: false, isPgpool: null };
    const open: Open = { pool, shared, kept, learned, ...atFirst };
    this.#pools.set(database, open);
    return open;
  }
}

const opens = new WeakMap<ClientBase, Open>();

/** Others keep statements for shared transactions, and as many as there are of those. */
function isStranger({ learned }: Open, client: ClientBase): boolean {
  return learned.size >= allLimits.sharedTransactionsMax && !learned.has(client);
}

/** One that is no stranger, while there are idle ones. */
async function ownOf(open: Open, client: PoolClient): Promise<PoolClient> {
  if (!isStranger(open, client) || open.pool.idleCount === 0) return client;
  try {
    return await ownOf(open, await open.pool.connect());
  } finally {
    client.release();
  }
}

/**
 * pgpool hangs when the rows of a prepared COPY come before it has read the engine's answer to it; as through any other pooler, they go by
 * simple queries then. What is connected to the very port that the engine sees is not asked, because PostgreSQL logs the question.
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

function askOnce(open: Open, client: ClientBase): Promise<boolean> {
  open.isPgpool ??= isPgpool(client).catch((error: unknown) => {
    open.isPgpool = null;
    throw error;
  });
  return open.isPgpool;
}
