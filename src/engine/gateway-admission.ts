/**
 * How the gateway's role is let into one database. Takes a client of the superuser there, and says whether all is done; refuses with
 * `database_closed` where a schema of Headgate's names is a stranger's. Touches privileges.
 *
 * A grant on what there is, and default privileges for what comes, leave out what others make at that moment: their transactions see
 * no default privileges yet, and nobody sees their tables. So it is done again when those transactions have ended.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { limits } from '../tables/limits.ts';
import { Refused } from '../tables/refusals.ts';
import { dropTrigger, readForeign } from './gateway-role-sql.ts';
import type { LetInSql } from './gateway-role-sql.ts';

/** How often they are looked for, in ms. */
const pauseMs = 20;

export class GatewayAdmission {
  readonly #sql: LetInSql;
  /** Under way, or done. */
  #admitted: Promise<boolean> | null = null;
  /** Transactions that had begun before; null: they were not asked for yet. */
  #unfinished: readonly string[] | null = null;

  constructor(sql: LetInSql) {
    this.#sql = sql;
  }

  /** Once for all who wait for it. What is left to do is done when it is called the next time; so is what has failed. */
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

  /** What is made by now is granted with each look, also while there is somebody left who may be making more. */
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
