/**
 * Connections for commits, per database and apart from every other use of the engine. Opened when needed, kept
 * while used, bounded by `commitConnectionsMax`; waiting for one is bounded by the commit's deadline.
 *
 * If a server, a database or a role has no connection left (53300), the pool takes the number that it has as its
 * size, and callers wait for one of those. After a while it tries to have more again.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import type { ClientBase, PoolClient } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { LeftBehind } from '../engine/orphaned-backends.ts';
import { refusesParameters, sqlstateOf } from '../engine/sqlstate.ts';
import { backoffMs } from '../kit/backoff.ts';
import { limits as allLimits } from '../config/limits.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { KeptSessions } from './kept-sessions.ts';
import { preparedForMany } from './prepared.ts';
import type { PreparedStatements } from './prepared.ts';
import { LentSession, lookAtSession, prepareSession, renewSession, stained } from './session-facts.ts';

interface Open {
  readonly pool: Pool;
  readonly shared: boolean;
  /** When the engine last had no connection left for it. */
  limitedAtMs: number | null;
  /** Whether it was logged. */
  said: boolean;
  readonly kept: KeptSessions;
  /** Given back in this turn of the event loop. */
  readonly warm: PoolClient[];
  /** Nothing of it is kept any more. */
  isOver: boolean;
  /** Connections that keep a statement for each of very many tables. */
  readonly learned: Set<ClientBase>;
  /** Asked once per database; null: not yet. */
  isPgpool: Promise<boolean> | null;
}

export class CommitPools {
  readonly #engine: Pick<Engine, 'clientConfig' | 'doubt'>;
  readonly #limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
  readonly #applicationName: string;
  readonly #observe: Observe;
  readonly #statementTimeoutMs: number;
  readonly #pools = new Map<string, Open>();
  readonly #left: LeftBehind;

  /** `statementTimeoutMs`: the engine's bound on a statement, if that is more than the wait for a connection. */
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
    this.#left = new LeftBehind((database) => engine.clientConfig(database));
  }

  /**
   * A connection to commit on, for rows of `table` perhaps one in which only code of that table has run; throws if none is
   * available in time. Give it back with `release`, giveBack or giveBackStained.
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

  /** If all connections are lent: one that is kept for another table, reset; null: there are others, or none is kept. */
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
    // A concurrent request may have found this out already.
    if (next === undefined || next === open) this.#open(database, true);
    if (next === open) void this.#end(open);
  }

  #end(open: Open): Promise<void> {
    open.isOver = true;
    open.kept.close();
    return open.pool.end();
  }

  /** The engine has no more connections: those that there are become the pool's size. */
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
    // Without a connection of its own, none could be given back.
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
   * Whether a pooler in between lends the same session to others: nothing may be set for longer than a
   * transaction.
   */
  isShared(database: string): boolean {
    return this.#pools.get(database)?.shared === true;
  }

  /** How many connections there may be to this database now. */
  sizeOf(database: string): number {
    return this.#pools.get(database)?.pool.options.max ?? this.#limits.commitConnectionsMax;
  }

  /** As `connect`, for a shared transaction: one that keeps statements for it, if enough others do and one of them is idle. */
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

  /** Takes back a connection for the next group: one of this turn of the event loop continues with it at once. */
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
   * lent to others once the session is reset, after the answers; only a caller that wants the last connection waits for that.
   */
  giveBackStained(database: string, client: PoolClient, table: number | null = null): void {
    const open = this.#pools.get(database);
    // What had to be cleaned up in a shared session was removed by the transaction.
    if (open?.shared === true) return client.release();
    // A caller that waits for a connection must not wait for one that is kept.
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

  /** A server that accepted rows no longer does. */
  readOnly(): void {
    this.#engine.doubt?.();
  }

  /** Closes the connections to a database, so that it can be dropped or renamed. */
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
      // pg-pool awaits what onConnect returns; its types do not say so.
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
    // An idle connection that the engine closes is dropped from the pool; the next commit opens another. One that
    // breaks while it commits reports to its group; nobody needs the event.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      opens.set(client, open);
      client.on('error', () => {});
    });
    const learned = new Set<ClientBase>();
    pool.on('remove', (client) => learned.delete(client));
    // Behind a pooler the process is that of others, too.
    if (!shared) this.#left.watch(database, pool);
    const letGo = (client: PoolClient, broken: boolean) => this.#renew(client, broken);
    const kept = new KeptSessions({ limits: allLimits, letGo });
    const atFirst = { warm: [], isOver: false, limitedAtMs: null, said: false, isPgpool: null };
    const open: Open = { pool, shared, kept, learned, ...atFirst };
    this.#pools.set(database, open);
    return open;
  }
}

const opens = new WeakMap<ClientBase, Open>();

/** Enough others keep statements for shared transactions: as many as there may be of those. */
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

function askOnce(open: Open, client: ClientBase): Promise<boolean> {
  open.isPgpool ??= isPgpool(client).catch((error: unknown) => {
    open.isPgpool = null;
    throw error;
  });
  return open.isPgpool;
}
