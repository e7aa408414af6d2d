/**
 * How the gateway's role is granted access to one database. Takes a client of the superuser there, and returns whether all is done;
 * refuses with `database_closed` if a schema with one of Headgate's names belongs to somebody else. Changes privileges.
 *
 * Grants on existing objects, and default privileges for future ones, miss what others are creating at that moment: their transactions do
 * not see the default privileges yet, and their tables are not visible yet. So the grants are repeated once those transactions have ended.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { dropTrigger, readForeign } from './gateway-role-sql.ts';
import type { LetInSql } from './gateway-role-sql.ts';

/** How often those transactions are looked for, in ms. */
const pauseMs = 20;

export class GatewayAdmission {
  readonly #sql: LetInSql;
  /** In progress, or done. */
  #admitted: Promise<boolean> | null = null;
  /** Transactions that had begun before; null: they have not been queried yet. */
  #unfinished: readonly string[] | null = null;

  constructor(sql: LetInSql) {
    this.#sql = sql;
  }

  /** Runs once for all callers that wait for it. The next call does what is left to do, and repeats what has failed. */
  admit(connect: () => Promise<Client>): Promise<boolean> {
    if (this.#admitted !== null) return this.#admitted;
    const admitted = this.#admit(connect);
    this.#admitted = admitted;
    const again = (): void => void (this.#admitted = null);
    admitted.then((done) => (done ? undefined : again()), again);
    return admitted;
  }

  async #admit(connect: () => Promise<Client>): Promise<boolean> {
    const client = await connect();
    try {
      await refuseForeign(client);
      const isFirst = this.#unfinished === null;
      if (isFirst) {
        if (await this.#isKnown(client)) return true;
        await client.query(this.#sql.letIn);
        if (await this.#isKnown(client)) return true;
      }
      return await this.#admitMissed(client, isFirst ? limits.gatewayRoleWaitMs : 0);
    } finally {
      await client.end();
    }
  }

  async #isKnown(client: Client): Promise<boolean> {
    const { rows } = await client.query<{ known: boolean }>(this.#sql.readKnown);
    return rows[0]?.known === true;
  }

  /** Each pass grants on what has been created by now, even while there are transactions left that may be creating more. */
  async #admitMissed(client: Client, waitMs: number): Promise<boolean> {
    for (let leftMs = waitMs; ; leftMs -= pauseMs) {
      const { rows } = await client.query<{ transaction: string }>(this.#sql.readUnfinished, [
        this.#unfinished,
      ]);
      const unfinished = rows.map(({ transaction }) => transaction);
      await client.query(this.#sql.letInMissed);
      this.#unfinished = unfinished;
      if (unfinished.length === 0) break;
      if (leftMs <= 0) return false;
      await delay(pauseMs);
    }
    await client.query(this.#sql.mark);
    this.#unfinished = null;
    return true;
  }
}

async function refuseForeign(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(readForeign);
  const [foreign] = rows;
  if (foreign === undefined) return;
  await client.query(dropTrigger);
  throw new Refused(
    'database_closed',
    `the database has a schema ${foreign.name} that is not Headgate's: drop it`,
  );
}
