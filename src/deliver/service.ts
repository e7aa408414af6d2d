/**
 * The deliveries of `headgate start`: each table of its plans, for as long as it runs. Takes plans, the engine and how owners log in; gives observations.
 * Refuses nothing: what stands in the way of a table is told, and tried again. Several Headgates may have the same plans: the lease divides the rows.
 *
 * A row that is done is an UPDATE, which may run code of the table: it runs in a session of the table's owner, as `keep` does. Each statement has a
 * transaction, which first holds the table and compares its owner, and is parsed only if the name still means that table.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { boundAnswers, cutOff, hangUp } from '../engine/close-client.ts';
import type { Engine } from '../engine/engine.ts';
import { OrphanedBackends } from '../engine/orphaned-backends.ts';
import type { OwnerLogin, OwnerLogins } from '../engine/owner-logins.ts';
import { limits } from '../config/limits.ts';
import { backoffMs } from '../kit/backoff.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { plainTransaction } from '../kit/plain-settings.ts';
import { namesAsParsed, quoteIdentifier as quote, quoteLiteral } from '../kit/sql-text.ts';
import type { Observe, TableName } from '../observe/observations.ts';
import { Delivering } from './deliveries.ts';
import type { RunStatement } from './deliveries.ts';
import { refuseUnreachable } from './plan.ts';
import type { ServicePlan } from './plan.ts';

interface DeliveriesOptions {
  readonly plans: readonly ServicePlan[];
  readonly engine: Pick<Engine, 'clientConfig' | 'defaultDatabase' | 'unavailable'>;
  readonly logins: Pick<OwnerLogins, 'owner'>;
  readonly observe: Observe;
  /** A statement that fails unless the name means the table and its owner is the same, and keeps both so until the transaction ends. */
  readonly hold: (table: HeldTable, of: { readonly owner: string; readonly own: boolean }) => string;
}

interface HeldTable {
  readonly oid: string;
  readonly name: string;
}

/**
 * `arrival`: the column with the time of arrival, if the table has one. `foreign_type`: one of the columns $2 whose type has no comparison of its
 * own, so that whoever may create
 * operators could have code of his run in the owner's session.
 */
const lookUp = `SELECT c.oid::pg_catalog.text AS oid, c.relowner::pg_catalog.text AS owner,
  (pg_catalog.pg_get_userbyid(c.relowner) = current_user)::pg_catalog.text AS own,
  (SELECT headgate.placed(w.relation, i.value)::pg_catalog.text FROM headgate.webhook_table w CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(w.includes) i
    WHERE w.relation = c.oid AND i.value ->> 'what' = 'timestamp' LIMIT 1) AS arrival,
  (SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = ANY ($2::pg_catalog.text[]) AND (
    SELECT count(*) FROM pg_catalog.pg_operator o WHERE o.oprnamespace = 'pg_catalog'::pg_catalog.regnamespace AND o.oprname IN ('=', '<')
      AND o.oprleft = a.atttypid AND o.oprright = a.atttypid) < 2 LIMIT 1) AS foreign_type
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $3 AND c.relkind IN ('r', 'p')`;

/** $1: attempts at most. */
const count = (
  from: string,
  since: string,
  meant: string,
): string => `SELECT count(*) FILTER (WHERE NOT dead)::pg_catalog.text AS open,
  count(*) FILTER (WHERE dead)::pg_catalog.text AS dead,
  coalesce(extract(epoch FROM pg_catalog.now() - min(since) FILTER (WHERE NOT dead)), 0)::pg_catalog.text AS oldest
FROM (SELECT attempts >= $1 AND run_after <= pg_catalog.now() AS dead, ${quote(since)} AS since FROM ${from} WHERE done_at IS NULL AND ${meant}) rows`;

interface FoundTable {
  readonly oid: string;
  readonly owner: string;
  readonly own: boolean;
  readonly arrival: string | null;
}

export class Deliveries {
  readonly #options: DeliveriesOptions;
  readonly #closing = new AbortController();
  /** Aborted when deliveries that are on their way are given up. */
  readonly #cut = new AbortController();
  readonly #hosts = new Map<string, Semaphore>();
  readonly #sessions = new Map<AbortController, string>();
  readonly #ended: readonly Promise<void>[];

  constructor(options: DeliveriesOptions) {
    this.#options = options;
    this.#ended = options.plans.map((plan) => this.#run(plan));
  }

  /** Ends the connections to a database, so that it can be dropped or renamed; after a while they are tried again. */
  release(database: string): void {
    for (const [session, of] of this.#sessions) if (of === database) session.abort();
  }

  /** What is on its way may arrive; what takes longer is tried again by whoever runs next. */
  async close(): Promise<void> {
    this.#closing.abort();
    const late = setTimeout(() => this.#cut.abort(), limits.deliverCloseMs);
    await Promise.all(this.#ended);
    clearTimeout(late);
  }

  async #run(plan: ServicePlan): Promise<void> {
    const { signal } = this.#closing;
    const { engine, observe } = this.#options;
    const database = plan.database ?? engine.defaultDatabase;
    const table: TableName = { database, ...plan.name };
    const from = `${quote(table.schema)}.${quote(table.table)}`;
    const delivering = this.#delivering(plan, table, from);
    for (let failures = 0; !signal.aborted;) {
      try {
        await refuseUnreachable(plan);
        const found = await this.#look(database, plan);
        const login = await this.#login(database, found);
        await this.#inSession(database, login, async (query, ended) => {
          const { statement, meant } = await this.#held(query, from, found);
          const counting = count(from, found.arrival ?? 'run_after', meant);
          const both = [
            delivering.work(statement, ended.signal, () => (failures = 0), meant),
            this.#count(plan, table, counting, statement, ended.signal),
          ].map((it) => it.finally(() => ended.abort()));
          const failed = (await Promise.allSettled(both)).find((it) => it.status === 'rejected');
          if (failed !== undefined) throw failed.reason;
        });
        if (delivering.gone) return;
      } catch (error) {
        if (signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        observe({ kind: 'delivery.failed', table, reason });
        failures += 1;
      }
      const { deliverPauseMs, deliverRetryMs } = limits;
      const restMs =
        failures === 0 ? deliverRetryMs : backoffMs(failures, deliverPauseMs, deliverRetryMs, Math.random);
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /**
   * Statements of a session of the table's owner: names mean PostgreSQL's own until they are parsed, and then the table's code sees the path that the server
   * gives the session. `meant`: their condition.
   */
  async #held(
    query: RunStatement,
    from: string,
    found: FoundTable,
  ): Promise<{ readonly statement: RunStatement; readonly meant: string }> {
    const [row] = await query(`SELECT pg_catalog.current_setting('search_path') AS path`, []);
    const path = `pg_catalog.set_config('search_path', ${quoteLiteral(row?.['path'] ?? '')}, true)`;
    const hold = this.#options.hold({ oid: found.oid, name: from }, found);
    const begin = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp; ${hold}`;
    const turns = new Semaphore(1);
    const statement: RunStatement = async (text, values) => {
      const done = await turns.turn();
      try {
        await query(begin, []);
        const rows = await query(text, values);
        await query('COMMIT', []);
        return rows;
      } catch (error) {
        await query('ROLLBACK', []).catch(() => undefined);
        throw error;
      } finally {
        done();
      }
    };
    return {
      statement,
      meant: `${namesAsParsed('headgate', from, found.oid)} AND (SELECT ${path}) IS NOT NULL`,
    };
  }

  #delivering(plan: ServicePlan, table: TableName, from: string): Delivering {
    const { observe } = this.#options;
    const { host } = plan.to;
    const slots = this.#hosts.get(host) ?? new Semaphore(limits.deliverHostMax);
    this.#hosts.set(host, slots);
    const delivering: Delivering = new Delivering(
      plan,
      {
        slots,
        cut: this.#cut.signal,
        told: ({ id, outcome, why }) =>
          observe({ kind: 'delivery.attempted', table, row: id, outcome, reason: why }),
        down: (reason) =>
          observe(
            reason === null
              ? { kind: 'delivery.resumed', table, host }
              : { kind: 'delivery.down', table, host, ended: delivering.gone, reason },
          ),
      },
      from,
    );
    return delivering;
  }

  async #look(database: string, { name, key }: ServicePlan): Promise<FoundTable> {
    const { engine } = this.#options;
    const config = engine.clientConfig(database);
    return this.#inSession(database, { config, ending: config }, async (statement) => {
      await statement(`BEGIN READ ONLY; ${plainTransaction}`, []);
      const [row] = await statement(lookUp, [name.schema, key === null ? ['id'] : ['id', key], name.table]);
      if (row === undefined) throw new Error('the table does not exist');
      const { foreign_type: foreign = null } = row;
      if (foreign !== null)
        throw new Error(`the type of column "${foreign}" has no operators of PostgreSQL's own`);
      const { oid, owner, own, arrival = null } = row;
      return { oid: oid ?? '0', owner: owner ?? '0', own: own === 'true', arrival };
    });
  }

  async #login(database: string, { own, owner }: FoundTable): Promise<Pick<OwnerLogin, 'config' | 'ending'>> {
    const { engine, logins } = this.#options;
    if (!own) return logins.owner(database, Number(owner));
    const config = engine.clientConfig(database);
    return { config, ending: config };
  }

  /** Code of an owner that does not answer is cut off, and what is left of it at the server is ended. */
  async #inSession<T>(
    database: string,
    { config, ending }: Pick<OwnerLogin, 'config' | 'ending'>,
    work: (statement: RunStatement, ended: AbortController) => Promise<T>,
  ): Promise<T> {
    const types = { getTypeParser: () => (value: string) => value };
    const client = new Client({ ...config, application_name: 'headgate deliver', types });
    // An error of the connection is reported by the query that was waiting.
    client.on('error', () => {});
    const ended = new AbortController();
    const end = (): void => ended.abort();
    const cut = (): void => cutOff(client);
    this.#closing.signal.addEventListener('abort', end, { once: true });
    this.#cut.signal.addEventListener('abort', cut, { once: true });
    this.#sessions.set(ended, database);
    try {
      await client.connect();
      boundAnswers(client, limits.deliverReceivedBytesMax);
      if (this.#closing.signal.aborted) end();
      return await work(async (text, values) => {
        const late = setTimeout(cut, limits.deliverStatementMs);
        try {
          return (await client.query(text, values.length === 0 ? undefined : [...values])).rows as Awaited<
            ReturnType<RunStatement>
          >;
        } finally {
          clearTimeout(late);
        }
      }, ended);
    } finally {
      this.#sessions.delete(ended);
      this.#closing.signal.removeEventListener('abort', end);
      this.#cut.signal.removeEventListener('abort', cut);
      const left = new OrphanedBackends(() => ending).left(database, client);
      await hangUp(client);
      if (!this.#closing.signal.aborted) await left;
    }
  }

  /** Until the session has ended. */
  async #count(
    { attempts }: ServicePlan,
    table: TableName,
    sql: string,
    statement: RunStatement,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      const began = performance.now();
      const [row] = await statement(sql, [attempts]);
      const [open, dead, oldestS] = [row?.['open'], row?.['dead'], row?.['oldest']].map(Number);
      this.#options.observe({
        kind: 'delivery.counted',
        table,
        open: open ?? 0,
        dead: dead ?? 0,
        oldestS: oldestS ?? 0,
      });
      const tookMs = performance.now() - began;
      const restMs = Math.max(limits.deliverCountMs, tookMs * limits.deliverCountRestTimes);
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
