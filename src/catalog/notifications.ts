/**
 * What a database says without being asked by a request: that its webhook tables have changed, and that a retry of a refused request was requested.
 * On the embedded engine these are notifications; elsewhere polls find the one (watcher.ts), and `WaitingRetries` the other. Takes connected clients;
 * returns nothing; throws the engine's error. Whoever is told comes in a later room than this one.
 */
import type { ClientBase } from 'pg';
import { limits } from '../config/limits.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { pinned } from './queries.ts';

/** Who is told of a database; app/wire-listener.ts passes these methods. */
export interface CatalogListeners {
  /** `Rejects.retryAsked` (reject/rejected-requests.ts): headgate.retry_rejected() was called (functions/rejected.sql). */
  readonly onRetryAsked?: (database: string) => void;
  /** `Spools.confirmed` (spool/spools.ts): the engine has confirmed the snapshot, with no table in doubt. */
  readonly onConfirmed?: (database: string) => void;
  /** `serve` of `Rejects`, `Retention` (keep/) and `Reconciliation` (reconcile/): the catalog exists and has been read. */
  readonly onServed?: (database: string) => void;
}

/**
 * LISTEN on Headgate's channels, only in sessions that are certainly its own: those of the embedded engine. A pooler would lend such a session to
 * others, who would get the notifications, with the channel's secret name. Strangers may send any number of them: they only hasten the next poll.
 */
export async function listen(
  client: ClientBase,
  database: string,
  told: CatalogListeners,
  onCatalog: () => void,
): Promise<void> {
  const channels = await pinned<{ purpose: string; name: string }>(
    client,
    'select c.purpose, c.name from headgate.channel c',
  );
  client.on('notification', ({ channel }) => {
    const purpose = channels.find(({ name }) => name === channel)?.purpose;
    if (purpose === 'rejected') told.onRetryAsked?.(database);
    if (purpose === 'catalog') onCatalog();
  });
  for (const { name } of channels) await client.query(`listen ${quote(name)}`);
}

/** Finds out whether retries wait, on engines that send no notifications. */
export class WaitingRetries {
  readonly #database: string;
  readonly #told: CatalogListeners;
  #isAsking = false;

  constructor(database: string, told: CatalogListeners) {
    this.#database = database;
    this.#told = told;
  }

  /**
   * To be called after each poll; `seen.hasChanged`: one has seen a change since this was last answered. Never rejects: what could not be asked is asked
   * after the next poll.
   */
  async askIfChanged(client: ClientBase, seen: { hasChanged: boolean }): Promise<void> {
    if (this.#isAsking || !seen.hasChanged) return;
    this.#isAsking = true;
    seen.hasChanged = false;
    try {
      if (await isRetryWaiting(client)) this.#told.onRetryAsked?.(this.#database);
    } catch {
      seen.hasChanged = true;
    } finally {
      this.#isAsking = false;
    }
  }
}

/** Fails if somebody locks that table: a poll must not wait for it. */
async function isRetryWaiting(client: ClientBase): Promise<boolean> {
  const [row] = await pinned<{ waits: boolean }>(
    client,
    `select set_config('lock_timeout', '${limits.catalogRetryLockMs}', true)`,
    `select exists (select from headgate.rejected_requests r where r.retry_outcome = 'waiting') as waits`,
  );
  return row?.waits === true;
}
