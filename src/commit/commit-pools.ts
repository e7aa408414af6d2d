/**
 * Connections for commits, per database and apart from every other use of the engine. Opened when needed, kept
 * while used, bounded by `commitConnectionsMax`; waiting for one is bounded by the commit's deadline.
 *
 * Each role of Headgate's has a pool of its own:
 *
 *   own      Headgate's role, for what is Headgate's own: no rows of tables
 *   writer   the role that stores rows of tables without code
 *   code     Headgate's role, for its own tables with code
 *
 * Sessions of other owners are in owner-sessions.ts.
 *
 * If a server, a database or a role has no connection left (53300), the pool takes the number that it has as its
 * size, and callers wait for one of those. After a while it tries to have more again.
 */
import { performance } from 'node:perf_hooks';
import type { ClientBase, ClientConfig, PoolClient } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { refusesParameters, sqlstateOf } from '../engine/sqlstate.ts';
import type { Limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { LoginRefused } from '../engine/owner-logins.ts';
import type { OwnerLogins } from '../engine/owner-logins.ts';
import { OwnerSessions } from './owner-sessions.ts';
import type { Target } from '../types/target.ts';
import { connectionOf } from './commit-connection.ts';
import type { CommitPool, CommitRole } from './commit-connection.ts';
import type { PreparedStatements } from './prepared-statements.ts';
import { growAgain, isStranger, openCommitPool, ownOf, takeAsSize } from './open-pools.ts';
import { BorrowedSession, lendForCode } from './session-settings.ts';

export interface CommitEngine extends Pick<Engine, 'clientConfig' | 'doubt'> {
  /** Absent: there are no sessions of owners. */
  readonly logins?: OwnerLogins;
  /** As the role that stores rows of tables without code; absent: Headgate's own. */
  readonly writerConfig?: (database: string) => ClientConfig;
}

export class CommitPools {
  readonly #engine: CommitEngine;
  readonly #limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
  readonly #applicationName: string;
  readonly #observe: Observe;
  readonly #statementTimeoutMs: number;
  readonly #pools = new Map<string, CommitPool>();
  readonly #owners: OwnerSessions | null;

  /** `statementTimeoutMs`: the engine's bound on a statement, if that is more than the wait for a connection. */
  constructor(
    engine: CommitEngine,
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
    const { logins } = engine;
    const { commitStatementTimeoutMs: connectTimeoutMs } = limits;
    this.#owners =
      logins === undefined
        ? null
        : new OwnerSessions({ logins, applicationName, statementTimeoutMs, connectTimeoutMs });
  }

  /** A connection of Headgate's own role; throws if none is available in time. Give it back with `release`. */
  connect(database: string): Promise<PoolClient> {
    return this.#connect(database, 'own');
  }

  /** A connection for rows of a table, as the role that stores them. Give it back with `release` or giveBack. */
  async connectFor({ database, oid, code }: Pick<Target, 'database' | 'oid' | 'code'>): Promise<PoolClient> {
    if (code.as === 'writer') return this.#connect(database, 'writer');
    const client = await (code.as === 'headgate'
      ? this.#connect(database, 'code')
      : this.#ownersSession(database, code.owner));
    if (!this.isShared(client)) lendForCode(client, oid);
    return client;
  }

  #ownersSession(database: string, owner: number): Promise<PoolClient> {
    if (this.#owners === null) throw new LoginRefused('Headgate cannot log in for the owner of the table');
    return this.#owners.connect(database, owner);
  }

  async #connect(database: string, kind: CommitRole): Promise<PoolClient> {
    const latest = performance.now() + this.#limits.commitStatementTimeoutMs;
    for (let attempt = 1; ; attempt++) {
      const open = this.#pools.get(keyOf(database, kind)) ?? this.#open(database, kind, false);
      growAgain(open, this.#limits.commitConnectionsMax);
      const own = open.warm.pop() ?? null;
      if (own !== null) return own;
      try {
        return await open.pool.connect();
      } catch (error) {
        if (!open.shared && (refusesParameters(error) || error instanceof BorrowedSession)) this.#share(open);
        else if (sqlstateOf(error) !== '53300') throw error;
        else {
          await takeAsSize(open, error as Error, attempt, this.#observe);
          if (performance.now() >= latest) throw error;
        }
      }
    }
  }

  #share(open: CommitPool): void {
    const { database, kind } = open;
    const next = this.#pools.get(keyOf(database, kind));
    // A concurrent request may have found this out already.
    if (next === undefined || next === open) this.#open(database, kind, true);
    if (next === open) void this.#end(open);
  }

  #end(open: CommitPool): Promise<void> {
    open.isOver = true;
    return open.pool.end();
  }

  /**
   * Whether a pooler in between lends the same session to others: nothing may be set for longer than a
   * transaction.
   */
  isShared(client: ClientBase): boolean {
    return connectionOf(client).pool?.shared === true;
  }

  /** The same of the connections for tables without code. */
  hasPooler(database: string): boolean {
    return this.#pools.get(keyOf(database, 'writer'))?.shared === true;
  }

  /** How many connections there may be to this database now. */
  sizeOf(database: string): number {
    const writers = this.#pools.get(keyOf(database, 'writer'));
    return writers?.pool.options.max ?? this.#limits.commitConnectionsMax;
  }

  /** As `connect`, for a shared transaction: one that keeps statements for it, if enough others do and one of them is idle. */
  async connectForMany(database: string): Promise<PoolClient> {
    const first = await this.#connect(database, 'writer');
    const open = connectionOf(first).pool;
    return open === null ? first : ownOf(open, first);
  }

  /** Where this connection keeps its statements for shared transactions; null: enough others of its database do. */
  statementsForMany(client: ClientBase): PreparedStatements | null {
    const connection = connectionOf(client);
    const { pool } = connection;
    if (pool === null || isStranger(pool, client)) return null;
    pool.learned.add(client);
    return connection.preparedForMany;
  }

  /** Takes back a connection for the next group: one of this turn of the event loop continues with it at once. */
  giveBack(client: PoolClient): void {
    const open = connectionOf(client).pool;
    if (open === null || open.isOver || open.pool.waitingCount > 0) return client.release();
    if (open.warm.push(client) > 1) return;
    setImmediate(() => {
      for (const it of open.warm.splice(0)) it.release();
    });
  }

  /** A server that accepted rows no longer does; in a session in which an owner's code runs, that says nothing. */
  readOnly({ code }: Pick<Target, 'code'>): void {
    if (code.as === 'writer') this.#engine.doubt?.();
  }

  /** Closes the connections to a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const found = [...this.#pools.values()].filter((open) => open.database === database);
    for (const { kind } of found) this.#pools.delete(keyOf(database, kind));
    await Promise.all([this.#owners?.release(database), ...found.map((open) => this.#end(open))]);
  }

  async close(): Promise<void> {
    const databases = new Set([...this.#pools.values()].map(({ database }) => database));
    await Promise.all([this.#owners?.close(), ...[...databases].map((database) => this.release(database))]);
  }

  #open(database: string, kind: CommitRole, shared: boolean): CommitPool {
    const { clientConfig, writerConfig = clientConfig } = this.#engine;
    const config = () => (kind === 'writer' ? writerConfig(database) : clientConfig(database));
    const open = openCommitPool(database, kind, shared, {
      config,
      applicationName: this.#applicationName,
      statementTimeoutMs: this.#statementTimeoutMs,
      limits: this.#limits,
    });
    this.#pools.set(keyOf(database, kind), open);
    return open;
  }
}

/** In PostgreSQL's protocol a zero byte ends a name. */
const keyOf = (database: string, kind: CommitRole): string => `${database}\0${kind}`;
