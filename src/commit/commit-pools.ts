/**
 * Connections for commits, per database and apart from every other use of the engine. Opened when needed, kept
 * while used, bounded by `commitConnectionsMax`; waiting for one is bounded by the commit's deadline.
 */
import { Pool } from 'pg';
import type { ClientBase, PoolClient } from 'pg';
import type { Engine } from '../engine/engine.ts';
import type { Limits } from '../limits.ts';

interface Open {
  readonly pool: Pool;
  readonly shared: boolean;
}

export class CommitPools {
  readonly #engine: Pick<Engine, 'clientConfig'>;
  readonly #limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
  readonly #pools = new Map<string, Open>();

  constructor(
    engine: Pick<Engine, 'clientConfig'>,
    limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>,
  ) {
    this.#engine = engine;
    this.#limits = limits;
  }

  /** A connection to commit on; throws when none can be had in time. Give it back with `release`. */
  async connect(database: string): Promise<PoolClient> {
    const open = this.#pools.get(database) ?? this.#open(database, false);
    try {
      return await open.pool.connect();
    } catch (error) {
      if (open.shared || !refusesParameters(error)) throw error;
      const next = this.#pools.get(database);
      // Another request of the same moment may have found out already.
      if (next === undefined || next === open) this.#open(database, true);
      if (next === open) void open.pool.end();
      return this.connect(database);
    }
  }

  /**
   * Whether a pooler stands between, which lends the same session to others: nothing may be set for longer than a
   * transaction.
   */
  isShared(database: string): boolean {
    return this.#pools.get(database)?.shared === true;
  }

  /** Lets go of a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const open = this.#pools.get(database);
    this.#pools.delete(database);
    await open?.pool.end();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.keys()].map((database) => this.release(database)));
  }

  #open(database: string, shared: boolean): Open {
    const session = {
      statement_timeout: this.#limits.commitStatementTimeoutMs,
      // pg-pool awaits what onConnect gives; its types do not say so.
      onConnect: prepareSession as (client: ClientBase) => void,
    };
    const pool = new Pool({
      ...this.#engine.clientConfig(database),
      max: this.#limits.commitConnectionsMax,
      connectionTimeoutMillis: this.#limits.commitStatementTimeoutMs,
      idleTimeoutMillis: 60_000,
      application_name: 'headgate commit',
      ...(shared ? {} : session),
    });
    // An idle connection that the engine closes is simply not there any more; the next commit opens another. One that
    // breaks while it commits tells its group; as an event the error is nobody's.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    const open = { pool, shared };
    this.#pools.set(database, open);
    return open;
  }
}

/** PgBouncer takes only the few parameters that it can keep apart for each of its clients. */
function refusesParameters(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('unsupported startup parameter');
}

/**
 * A 200 promises a durable row: a server configured for less still waits for its own disk here. And what ends a
 * transaction must see a table that was changed while its first statement waited for a lock: a server whose default
 * is one picture of the data per transaction is asked for one per statement.
 */
async function prepareSession(client: ClientBase): Promise<void> {
  await client.query(
    `select set_config('default_transaction_isolation', 'read committed', false), set_config('synchronous_commit',
       case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end,
       false)`,
  );
}
