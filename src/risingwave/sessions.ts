/**
 * Connections for rows that go to RisingWave, per database. Takes SQL, returns the result: `failed` if RisingWave answered with an
 * error, `lost` if the result is not known, `away` if there is no connection. Refuses nothing; bounded by `risingwaveConnectionsMax`.
 *
 * Each session waits in its INSERTs until they are in a checkpoint (`dml_wait_persistence` or, in a version without that setting,
 * `rw_implicit_flush`, which waits longer). A session that accepts neither is not used: its 200 would promise nothing.
 */
import { Pool } from 'pg';
import type { ClientBase, PoolClient, PoolConfig, QueryResult } from 'pg';
import { cutOff } from '../engine/close-client.ts';
import { sqlstateOf } from '../engine/sqlstate.ts';
import { limits } from '../config/limits.ts';
import { GuardedClient, refuseUnasked } from './client.ts';

type RwAnswer =
  | { readonly kind: 'done'; readonly result: QueryResult<object> }
  | { readonly kind: 'failed' | 'lost' | 'away'; readonly error: Error };

/** node-postgres accepts more than its types say. */
type PoolQuery = { readonly text: string };

export class RwSessions {
  readonly #poolConfig: (database: string) => PoolConfig;
  readonly #pools = new Map<string, Pool>();
  readonly #lent = new Set<PoolClient>();
  #stopped = false;

  /** The configuration function throws Refused if there is no such database. */
  constructor(poolConfig: (database: string) => PoolConfig) {
    this.#poolConfig = poolConfig;
  }

  /** Runs on a session of its own; never rejects. */
  async run(database: string, sql: string, timeoutMs: number): Promise<RwAnswer> {
    let client: PoolClient;
    if (this.#stopped) return { kind: 'away', error: new Error('nothing is stored any more') };
    try {
      client = await this.#pool(database).connect();
    } catch (error) {
      return { kind: 'away', error: asError(error) };
    }
    this.#lent.add(client);
    try {
      // Without parameters: the simple protocol, which does not limit how many values a statement contains.
      const result = await client.query<object>({ text: sql, query_timeout: timeoutMs } as PoolQuery);
      client.release();
      return { kind: 'done', result };
    } catch (error) {
      const answered = sqlstateOf(error) !== null && (error as { severity?: unknown }).severity === 'ERROR';
      client.release(!answered);
      return { kind: answered ? 'failed' : 'lost', error: asError(error) };
    } finally {
      this.#lent.delete(client);
    }
  }

  /** Cuts off in-flight work, and accepts nothing more. */
  stop(): void {
    this.#stopped = true;
    for (const client of this.#lent) cutOff(client);
  }

  /** Closes the connections to a database. */
  async release(database: string): Promise<void> {
    const pool = this.#pools.get(database);
    this.#pools.delete(database);
    await pool?.end();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.keys()].map((database) => this.release(database)));
  }

  #pool(database: string): Pool {
    const known = this.#pools.get(database);
    if (known !== undefined) return known;
    const pool = new Pool({
      application_name: 'headgate gateway',
      Client: GuardedClient,
      ...this.#poolConfig(database),
      max: limits.risingwaveConnectionsMax,
      connectionTimeoutMillis: limits.commitStatementTimeoutMs,
      idleTimeoutMillis: 60_000,
      // pg-pool awaits the result of onConnect, which its types do not say.
      onConnect: waitForPersistence as (client: ClientBase) => void,
    });
    // A client that breaks while it is lent reports it to its user; as an event the error has no recipient.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    this.#pools.set(database, pool);
    return pool;
  }
}

async function waitForPersistence(client: ClientBase): Promise<void> {
  try {
    refuseUnasked(client);
    try {
      await set(client, 'dml_wait_persistence');
    } catch (error) {
      if (sqlstateOf(error) === null) throw error;
      await set(client, 'rw_implicit_flush');
    }
  } catch (error) {
    cutOff(client);
    throw error;
  }
}

async function set(client: ClientBase, name: string): Promise<void> {
  await client.query({
    text: `set ${name} = true`,
    query_timeout: limits.commitStatementTimeoutMs,
  } as PoolQuery);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
