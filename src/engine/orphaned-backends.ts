/**
 * Ends server processes that are still in a transaction after Headgate has cut their connection off. Neither a statement timeout nor a cancellation ends
 * code that catches it, and a server notices that its client is gone only when it writes to it: such a process would keep its locks and its
 * place among the server's connections forever. Takes pools, or connections that were cut off; asks the server over a connection of its own
 * as the same role, one at a time for each database. Never rejects.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase, ClientConfig, Pool } from 'pg';
import { limits } from '../config/limits.ts';
import { withClient, wasCutOff } from './close-client.ts';

/**
 * A process of another connection that was given the same number has begun its transaction since, or belongs to another role. One that waits for a
 * synchronous standby has committed: ended now, its rows would be taken for stored before the standby has them.
 */
const endSql = `select pg_catalog.count(pg_catalog.pg_terminate_backend(a.pid)) from pg_catalog.pg_stat_activity a
  join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) a.usesysid
  where a.pid operator(pg_catalog.=) any ($1::pg_catalog.int4[]) and r.rolname operator(pg_catalog.=) session_user
    and a.datname operator(pg_catalog.=) pg_catalog.current_database() and a.xact_start operator(pg_catalog.<)
      (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.make_interval(secs => $2))
    and (a.wait_event is null or a.wait_event operator(pg_catalog.<>) 'SyncRep'::pg_catalog.text)`;

interface BackendClient {
  readonly processID: number | null;
  readonly readyForQuery: boolean;
}

/** The process of a connection that was cut off while it worked; null: it is not that. */
function orphanOf(client: ClientBase): number | null {
  const { processID, readyForQuery } = client as unknown as BackendClient;
  return !readyForQuery && wasCutOff(client) ? processID : null;
}

export class OrphanedBackends {
  readonly #clientConfig: (database: string) => ClientConfig;
  /** By database; one that has an entry is being asked about. */
  readonly #waiting = new Map<string, { readonly pids: Set<number>; readonly ended: Promise<void> }>();

  /** As the connections that are given up were opened. */
  constructor(clientConfig: (database: string) => ClientConfig) {
    this.#clientConfig = clientConfig;
  }

  /** Looks after the connections of a pool: one that comes back while its server works on something was given up. */
  watch(database: string, pool: Pool): void {
    pool.on('release', (_, client) => {
      if (orphanOf(client) !== null) void this.left(database, client);
    });
  }

  /** A connection was given up. Resolves when its process has been asked to end, if it was there, or the server could not be asked. */
  async left(database: string, client: ClientBase): Promise<void> {
    const pid = orphanOf(client);
    if (pid === null) return;
    const known = this.#waiting.get(database);
    if (known !== undefined) {
      known.pids.add(pid);
      return known.ended;
    }
    const pids = new Set([pid]);
    const ended = this.#endAll(database, pids);
    this.#waiting.set(database, { pids, ended });
    await ended;
  }

  async #endAll(database: string, waiting: Set<number>): Promise<void> {
    for (let failures = 0; waiting.size > 0 && failures < limits.leftBehindAttemptsMax;) {
      await sleep(limits.leftBehindMs, undefined, { ref: false });
      const pids = [...waiting];
      try {
        await this.#end(database, pids);
        for (const pid of pids) waiting.delete(pid);
      } catch {
        failures += 1;
      }
    }
    this.#waiting.delete(database);
  }

  async #end(database: string, pids: readonly number[]): Promise<void> {
    const config = { ...this.#clientConfig(database), application_name: 'headgate left behind' };
    await withClient(config, limits.engineAnswerMs, (client) =>
      client.query(endSql, [pids, limits.leftBehindMs / 2_000]),
    );
  }
}
