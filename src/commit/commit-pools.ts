/**
 * Connections for commits, per database and apart from every other use of the engine. Opened when needed, kept
 * while used, bounded by `commitConnectionsMax`; waiting for one is bounded by the commit's deadline.
 */
import { Pool } from 'pg';
import type { ClientBase, PoolClient } from 'pg';
import type { Engine } from '../engine/engine.ts';
import type { Limits } from '../limits.ts';

export class CommitPools {
  readonly #engine: Engine;
  readonly #limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
  readonly #pools = new Map<string, Pool>();

  constructor(engine: Engine, limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>) {
    this.#engine = engine;
    this.#limits = limits;
  }

  /** A connection to commit on; throws when none can be had in time. Give it back with `release`. */
  connect(database: string): Promise<PoolClient> {
    let pool = this.#pools.get(database);
    if (pool === undefined) {
      pool = this.#open(database);
      this.#pools.set(database, pool);
    }
    return pool.connect();
  }

  /** Lets go of a database, so that it can be dropped or renamed. */
  async release(database: string): Promise<void> {
    const pool = this.#pools.get(database);
    this.#pools.delete(database);
    await pool?.end();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.keys()].map((database) => this.release(database)));
  }

  #open(database: string): Pool {
    const pool = new Pool({
      ...this.#engine.clientConfig(database),
      max: this.#limits.commitConnectionsMax,
      connectionTimeoutMillis: this.#limits.commitStatementTimeoutMs,
      idleTimeoutMillis: 60_000,
      statement_timeout: this.#limits.commitStatementTimeoutMs,
      application_name: 'headgate commit',
      // pg-pool awaits what onConnect gives; its types do not say so.
      onConnect: prepareSession as (client: ClientBase) => void,
    });
    // An idle connection that the engine closes is simply not there any more; the next commit opens another. One that
    // breaks while it commits tells its group, which is told by GroupCopy; as an event the error is nobody's.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    return pool;
  }
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
