/**
 * The session of a journal: a connection to one database, on which one statement runs at a time, each in a transaction of its own. Takes statements,
 * returns their rows; throws what ends the connection, and a statement that fails ends it, too.
 */
import { Client } from 'pg';
import type { QueryResult } from 'pg';
import type { Limits } from '../config/limits.ts';
import type { Engine } from '../engine/engine.ts';
import { cutOff, hangUp } from '../engine/close-client.ts';
import { plainTransaction } from '../kit/plain-settings.ts';

/**
 * Rows that refer to a table's own row in the catalog would wait for a transaction in which it is dropped, which its owner may leave open, and
 * with them those of all other tables. `oids`: a parameter.
 */
export const standing = (oids: string): string => `
select w.relation from headgate.webhook_table w where w.relation = any (${oids}::oid[]) for key share skip locked`;

export class JournalSession {
  /** Rejects once the connection is lost. */
  readonly lost: Promise<never>;
  readonly #client: Client;
  readonly #begin: string;

  constructor(
    database: string,
    engine: Pick<Engine, 'clientConfig'>,
    { rejectedStatementMs }: Pick<Limits, 'rejectedStatementMs'>,
  ) {
    this.#begin = `begin isolation level read committed; ${plainTransaction}; set local statement_timeout = ${rejectedStatementMs}`;
    const client = new Client({
      ...engine.clientConfig(database),
      application_name: 'headgate rejected requests',
      connectionTimeoutMillis: rejectedStatementMs,
      query_timeout: rejectedStatementMs,
    });
    this.#client = client;
    this.lost = new Promise<never>((_, reject) => {
      client.on('error', reject);
      client.once('end', () => reject(new Error('the connection to the database was closed')));
    });
    // Whoever waits for it may have ended before.
    this.lost.catch(() => {});
  }

  async connect(): Promise<void> {
    await this.#client.connect();
  }

  /**
   * One statement in a transaction of its own, bounded by the engine, in which names that others have made cannot precede
   * PostgreSQL's, and values are written and read in one form. Nothing is set for longer, or prepared: a pooler may lend the session to others.
   */
  async query<T extends object>(text: string, values: unknown[]): Promise<QueryResult<T>> {
    await this.#client.query(this.#begin);
    // A statement that fails ends the connection, and the transaction with it.
    const result = await this.#client.query<T>(text, values);
    await this.#client.query('commit');
    return result;
  }

  async close(): Promise<void> {
    await hangUp(this.#client);
  }

  /** At once, whatever it does. */
  cutOff(): void {
    cutOff(this.#client);
  }
}
