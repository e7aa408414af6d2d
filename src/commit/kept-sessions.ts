/**
 * Connections in whose session code of one table has run, kept for that table: its next group need not wait until the
 * session is reset and the engine has planned everything again. Takes and returns connections that a pool has lent; bounded in number
 * and in time; a connection that is kept no longer is passed to `letGo`. Touches no engine itself.
 */
import type { PoolClient } from 'pg';
import type { Limits } from '../config/limits.ts';

export interface KeptOptions {
  readonly limits: Pick<Limits, 'keptSessionsMax' | 'keptSessionMs'>;
  /** Takes a connection that is no longer kept; `broken`: it has ended. */
  readonly letGo: (client: PoolClient, broken: boolean) => void;
}

interface Kept {
  readonly client: PoolClient;
  readonly forget: () => void;
}

export class KeptSessions {
  readonly #options: KeptOptions;
  /** By table, in the order in which they were kept. */
  readonly #kept = new Map<number, Kept>();

  constructor(options: KeptOptions) {
    this.#options = options;
  }

  /** The connection of this table, or null. */
  take(table: number): PoolClient | null {
    const kept = this.#kept.get(table);
    if (kept === undefined) return null;
    this.#kept.delete(table);
    kept.forget();
    return kept.client;
  }

  /** The one that was kept longest, of any table; null: there is none. */
  takeAny(): PoolClient | null {
    const [oldest] = this.#kept.keys();
    return oldest === undefined ? null : this.take(oldest);
  }

  keep(table: number, client: PoolClient): void {
    const { limits, letGo } = this.#options;
    const before = this.take(table) ?? (this.#kept.size >= limits.keptSessionsMax ? this.takeAny() : null);
    if (before !== null) letGo(before, false);
    const leave = (broken: boolean) => {
      if (this.#kept.get(table)?.client === client) letGo(this.take(table) ?? client, broken);
    };
    const ended = () => leave(true);
    const timer = setTimeout(() => leave(false), limits.keptSessionMs);
    timer.unref();
    client.once('end', ended);
    client.once('error', ended);
    const forget = () => {
      clearTimeout(timer);
      client.off('end', ended);
      client.off('error', ended);
    };
    this.#kept.set(table, { client, forget });
  }

  /** Lets go of all. */
  close(): void {
    for (let client = this.takeAny(); client !== null; client = this.takeAny())
      this.#options.letGo(client, true);
  }
}
