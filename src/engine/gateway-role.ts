/**
 * The role of the events gateway on the embedded engine: which role it is, and which databases it may work in. Takes an engine
 * on which Headgate is superuser and the name of the role, null for the one that Headgate creates; returns configurations for
 * clients that log in as it; refuses with `database_unknown` and `database_closed`. Changes roles and privileges, on its own
 * connections: one for queries, and one briefly in each database that the role is granted access to.
 *
 * The role that Headgate creates is granted access to a database once, when the first request asks for it (gateway-role-sql.ts);
 * what the owner grants or revokes afterwards stays. A role that the owner names has what the owner has granted.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Pool } from 'pg';
import type { ClientConfig } from 'pg';
import type { Closable } from '../kit/closer.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { EngineError } from './engine.ts';
import type { Engine } from './engine.ts';
import {
  letInSql,
  makeRole,
  readDatabase,
  readRole,
  roleName,
  dropTrigger,
  readForeign,
} from './gateway-role-sql.ts';
import type { LetInSql } from './gateway-role-sql.ts';
import { notConnected } from './connection-failure.ts';
import { isConnectionLost, sqlstateOf } from './sqlstate.ts';

interface FoundDatabase {
  readonly oid: string;
  /** It accepts connections, and is not a template: a session in a template keeps everybody from creating databases from it. */
  readonly open: boolean;
  /** The role has CONNECT. */
  readonly permitted: boolean;
  /** The database in which Headgate itself works. */
  readonly system: boolean;
}

export class GatewayRole implements Closable {
  readonly name: string;
  /** Headgate manages the role and its privileges. */
  readonly #own: boolean;
  readonly #engine: Engine;
  readonly #clock: () => number;
  readonly #questions: Pool;
  readonly #letInSql: LetInSql;
  #made: Promise<void> | null = null;
  /** By name, for a short time: a database that is asked about repeatedly is checked now and then. */
  readonly #databases = new Map<string, { readonly ready: Promise<void>; readonly until: number }>();
  /** By oid: access is granted once and stays. */
  readonly #admissions = new Map<string, GatewayAdmission>();

  /** `functions`: SQL that creates what the role may call. `clock`: monotonic, ms. */
  constructor(engine: Engine, name: string | null, functions: string, clock: () => number) {
    this.#letInSql = letInSql(functions);
    this.#clock = clock;
    this.name = name ?? roleName;
    this.#own = this.name === roleName;
    this.#engine = engine;
    this.#questions = new Pool({
      // Not the default database: its owner may want to drop or rename it.
      ...asHeadgate(engine, 'postgres'),
      max: limits.gatewayRoleConnectionsMax,
      idleTimeoutMillis: 10_000,
    });
    this.#questions.on('error', () => {});
  }

  /** Throws EngineError if the owner has named a role that cannot log in. An unreachable engine is asked later. */
  async open(): Promise<void> {
    try {
      await this.#make();
      await this.ready(this.#engine.defaultDatabase);
    } catch (error) {
      if (!(error instanceof Refused) && !isConnectionLost(error) && sqlstateOf(error) === null) throw error;
    }
  }

  clientConfig(database: string): ClientConfig {
    const config = this.#engine.clientConfigAs?.(database, this.name);
    if (config === undefined) throw new EngineError('this engine lets in nobody but the role of its DSN');
    return config;
  }

  /** Resolves when the role can work in the database. Refuses with nothing that was asked before the call. Throws Refused, or the engine's error. */
  async ready(database: string): Promise<void> {
    const known = this.#databases.get(database);
    if (known === undefined || known.until <= this.#clock()) return this.#ask(database);
    return known.ready.catch(() => {
      const now = this.#databases.get(database);
      return now === undefined || now === known ? this.#ask(database) : now.ready;
    });
  }

  #ask(database: string): Promise<void> {
    const ready = this.#ready(database);
    this.#databases.delete(database);
    for (const [oldest] of this.#databases) {
      if (this.#databases.size >= limits.databasesMax) this.#databases.delete(oldest);
    }
    this.#databases.set(database, { ready, until: this.#clock() + limits.relationAgeMs });
    ready.catch(() => {
      if (this.#databases.get(database)?.ready === ready) this.#databases.delete(database);
    });
    return ready;
  }

  /** Called when the database may have been replaced or dropped. */
  forget(database: string): void {
    this.#databases.delete(database);
  }

  close(): Promise<void> {
    return this.#questions.end();
  }

  async #ready(database: string): Promise<void> {
    // In PostgreSQL's protocol a zero byte ends a name.
    if (database.includes('\0')) throw new Refused('database_unknown');
    try {
      await this.#make();
      const { rows } = await this.#questions.query<FoundDatabase>(readDatabase, [database, this.name]);
      const [found] = rows;
      if (found === undefined) throw new Refused('database_unknown');
      if (!found.open || !found.permitted) throw new Refused('database_closed');
      if (this.#own && !found.system) await this.#admissionTo(found.oid).admit(() => this.#connect(database));
    } catch (error) {
      if (error instanceof Refused) throw error;
      throw error instanceof EngineError || isConnectionLost(error) || sqlstateOf(error) !== null
        ? notConnected(error)
        : error;
    }
  }

  #make(): Promise<void> {
    if (this.#made !== null) return this.#made;
    const making = this.#own ? this.#makeOwn() : this.#look();
    this.#made = making;
    making.catch(() => (this.#made = null));
    return making;
  }

  async #makeOwn(): Promise<void> {
    await this.#questions.query(makeRole);
  }

  async #look(): Promise<void> {
    const { rows } = await this.#questions.query<{ login: boolean }>(readRole, [this.name]);
    const [role] = rows;
    const problem =
      role === undefined ? 'there is no such role' : role.login ? null : 'the role cannot log in';
    if (problem === null) return;
    throw new EngineError(`HEADGATE_EVENTS_ROLE=${this.name}: ${problem}; CREATE ROLE … LOGIN makes one`);
  }

  #admissionTo(oid: string): GatewayAdmission {
    const known = this.#admissions.get(oid);
    if (known !== undefined) return known;
    for (const [oldest] of this.#admissions) {
      if (this.#admissions.size >= limits.databasesMax) this.#admissions.delete(oldest);
    }
    const admission = new GatewayAdmission(this.#letInSql);
    this.#admissions.set(oid, admission);
    return admission;
  }

  async #connect(database: string): Promise<Client> {
    const client = new Client(asHeadgate(this.#engine, database));
    client.on('error', () => {});
    try {
      await client.connect();
    } catch (error) {
      await client.end();
      throw error;
    }
    return client;
  }
}

/** Names refer to PostgreSQL's own objects, so nothing that a role has created in the database is used by accident. */
function asHeadgate(engine: Engine, database: string): ClientConfig {
  return {
    ...engine.clientConfig(database),
    options: '-c search_path=pg_catalog,pg_temp',
    application_name: 'headgate gateway role',
    connectionTimeoutMillis: limits.engineAnswerMs,
    query_timeout: limits.gatewayRoleAnswerMs,
  };
}

/** How often those transactions are looked for, in ms. */
const pauseMs = 20;

/**
 * How the role is granted access to one database. Takes a client of the superuser there, and returns whether all is done; refuses with
 * `database_closed` if a schema with one of Headgate's names belongs to somebody else.
 *
 * Grants on existing objects, and default privileges for future ones, miss what others are creating at that moment: their transactions do
 * not see the default privileges yet, and their tables are not visible yet. So the grants are repeated once those transactions have ended.
 */
class GatewayAdmission {
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
