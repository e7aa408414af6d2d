/**
 * Connections for commits, per database and apart from every other use of the engine. Opened when needed, kept
 * while used, bounded by `commitConnectionsMax`; waiting for one is bounded by the commit's deadline.
 */
import { Pool } from 'pg';
import type { ClientBase, PoolClient } from 'pg';
import type { Engine } from '../engine/engine.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import type { Limits } from '../limits.ts';

interface Open {
  readonly pool: Pool;
  readonly shared: boolean;
}

export class CommitPools {
  readonly #engine: Pick<Engine, 'clientConfig' | 'doubt'>;
  readonly #limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>;
  readonly #applicationName: string;
  readonly #pools = new Map<string, Open>();

  constructor(
    engine: Pick<Engine, 'clientConfig' | 'doubt'>,
    limits: Pick<Limits, 'commitConnectionsMax' | 'commitStatementTimeoutMs'>,
    applicationName = 'headgate commit',
  ) {
    this.#applicationName = applicationName;
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

  /** A server that took rows does not take them any more. */
  readOnly(): void {
    this.#engine.doubt?.();
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
      application_name: this.#applicationName,
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
 * is one picture of the data per transaction is asked for one per statement. Warnings are heard: one of them says that
 * a commit is not as durable as it should be.
 */
async function prepareSession(client: ClientBase): Promise<void> {
  await client.query(
    `select set_config('default_transaction_isolation', 'read committed', false), set_config('synchronous_commit',
       case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end,
       false), set_config('client_min_messages', 'warning', false)`,
  );
  incarnations.set(client, await readIncarnation(client));
}

const incarnations = new WeakMap<ClientBase, string | null>();

/** Which life of the server a connection belongs to; null: it does not tell. */
export function incarnationOf(client: ClientBase): string | null {
  return incarnations.get(client) ?? null;
}

/**
 * The numbers of transactions that were not on the disk are given out again after a crash, and by a standby that took
 * over, so that a number means something within one life of one server only. A new process has another start time; a
 * recovery inside the same one, after a backend was killed, begins its statistics anew.
 */
const incarnationSql = `select concat(pg_catalog.pg_postmaster_start_time(), ' ', stats_reset) as life
  from pg_catalog.pg_stat_bgwriter where stats_reset is not null and not pg_catalog.pg_is_in_recovery()`;

async function readIncarnation(client: ClientBase): Promise<string | null> {
  try {
    const { rows } = await client.query<{ life: string }>(incarnationSql);
    return rows[0]?.life ?? null;
  } catch (error) {
    // A server that has no such views; that it is lost would show in the next statement.
    if (sqlstateOf(error) === null) throw error;
    return null;
  }
}
