/**
 * `headgate move`: moves one database of Headgate, with everything in it, to another PostgreSQL. Takes Settings (which Headgate)
 * and a connection string (the target); reports what it does; throws MoveError, one line, and can then be run again.
 *
 *   look      what cannot be moved is listed; nothing has been touched
 *   make      schemas, types, functions, tables, and the marks of the move: one transaction
 *   copy      table by table, while Headgate accepts requests; then indexes
 *   drain     Headgate keeps no more requests of the source on its disk, and hands over what is there
 *   close     the source accepts no more writes: its webhooks answer 503
 *   complete  rows written meanwhile, then views, foreign keys, triggers, rights, and Headgate's own rows: one transaction,
 *             which makes the tables webhook tables in the target
 *
 * After an interruption at any point, a new run continues from the marks in schema headgate_move.
 */
import { openPostgresEngine } from '../../engine/postgres.ts';
import { openCommandEngine } from '../../engine/command-engine.ts';
import { Client } from 'pg';
import { setTimeout as delay } from 'node:timers/promises';
import { hangUp } from '../../engine/close-client.ts';
import type { Engine } from '../../engine/engine.ts';
import { masterKeys } from '../../secrets/key-ring.ts';
import { createSealing } from '../../secrets/sealing.ts';
import { plainSession } from '../../kit/plain-settings.ts';
import { limits } from '../../config/limits.ts';
import type { Settings } from '../../config/settings.ts';
import { readOnlyReason } from '../../engine/writability.ts';
import { spoolFolder } from '../../spool/spool-folder.ts';
import {
  copyHeadgate,
  deliveriesOf,
  forgetTables,
  markMoved,
  prepareHeadgate,
  unopened,
  waitingIn,
} from './headgate-rows.ts';
import { copyAdded, copyNew, copyOld, inTransaction } from './rows.ts';
import type { MovedTable, Sides } from './rows.ts';
import { afterRows, beforeRows, keysAndIndexes, leftOut, sequenceValues, tables } from './source-sql.ts';
import { MoveError, runStatements } from './statements.ts';
import { targetLacks } from './target-check.ts';
import type { MoveStatement } from './statements.ts';
import { quoteIdentifier } from '../../kit/sql-text.ts';

interface MoveReport {
  say(line: string): void;
  warn(line: string): void;
}

/**
 * `to`: postgresql://…; `of`: which database of the source, null: the default one; `leavesOut`: continue although something cannot be moved.
 */
export async function move(
  settings: Settings,
  to: string,
  of: string | null,
  leavesOut: boolean,
  report: MoveReport,
): Promise<void> {
  const ring = masterKeys(settings);
  const sealing = createSealing(ring);
  const engine = await openCommandEngine(settings);
  const open: Client[] = [];
  let there: Engine | null = null;
  try {
    there = await openPostgresEngine({ databaseUrl: to, observe: () => {} }).catch((error: Error) => {
      throw new MoveError(`--to: ${error.message}`);
    });
    if (there.unavailable !== null)
      throw new MoveError(`the server of --to cannot be used: ${there.unavailable}`);
    const database = of ?? engine.defaultDatabase ?? 'dev';
    const source = await connected(engine.clientConfig(database), 'the source', open);
    const target = await connected(there.clientConfig(there.defaultDatabase), 'the server of --to', open);
    const sides = { source, target };
    await sameDatabase(sides);
    const closed = await unopened(sides, sealing).catch(() => []);
    if (closed.length > 0) throw new MoveError(`the master key does not open: ${closed.join(', ')}`);
    await look(sides, leavesOut, report);
    const folder = spoolFolder(settings);
    const waiting = () => waitingIn(folder, source, ring);
    await moveAll(sides, report, waiting);
    report.say(
      `done: start Headgate with --database-url naming the target and the same master key, and send the webhooks to it. The source stays
read-only; to reopen it: SET default_transaction_read_only = off; ALTER DATABASE ${JSON.stringify(database)} RESET default_transaction_read_only;
UPDATE headgate.webhook_table SET options = options - 'moved'`,
    );
    await forgetTables(folder, database, source, sealing);
    const left = await waiting();
    if (left > 0)
      report.warn(
        `${left} requests are only in ${folder}: stop the Headgate of the source, and run headgate spool drain ${folder} with the settings of the target`,
      );
  } finally {
    for (const client of open) await hangUp(client);
    await there?.close();
    await engine.close();
  }
}

async function connected(
  config: ConstructorParameters<typeof Client>[0],
  what: string,
  open: Client[],
): Promise<Client> {
  const client = new Client({
    ...(config as object),
    application_name: 'headgate move',
    connectionTimeoutMillis: limits.engineAnswerMs,
  });
  // A broken connection is reported by the pending query.
  client.on('error', () => {});
  open.push(client);
  try {
    await client.connect();
    // Both sides must print and read values in the same form, with every name qualified.
    await client.query(
      `${plainSession}; SET search_path = pg_catalog; SET check_function_bodies = off; SET statement_timeout = 0;
       SET default_transaction_isolation = 'read committed'; SET row_security = off; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET client_min_messages = warning`,
    );
  } catch (error) {
    throw new MoveError(`${what} cannot be reached: ${(error as Error).message}`);
  }
  return client;
}

/** Catches mistakes that would copy a database onto itself, or lose characters. */
async function sameDatabase({ source, target }: Sides): Promise<void> {
  const ask = `SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || d.oid AS id, pg_encoding_to_char(d.encoding) AS encoding
    FROM pg_database d WHERE d.datname = current_database()`;
  const [here, there] = await Promise.all(
    [source, target].map(
      async (side) => (await side.query<{ id: string; encoding: string }>(ask).catch(() => null))?.rows[0],
    ),
  );
  if (here !== undefined && here.id === there?.id) throw new MoveError('--to names the source itself');
  if (there !== undefined && there.encoding !== here?.encoding && there.encoding !== 'UTF8')
    throw new MoveError(`the database of --to has the encoding ${there.encoding}: it must be UTF8`);
}

async function look({ source, target }: Sides, leaveOut: boolean, report: MoveReport): Promise<void> {
  const why = await whyNotClosed(source);
  if (why.length > 0) throw new MoveError(why.join('\n'));
  const { rows } = await source.query<{ what: string }>(leftOut);
  for (const { what } of rows) report.warn(`not moved: ${what}`);
  const { left } = await rolesThere({ source, target });
  for (const { name, role } of left) report.warn(`not moved: ${name}, because there is no role ${role}`);
  if (rows.length > 0 && !leaveOut)
    throw new MoveError('nothing was changed: move these by hand, and run it again with --leave-out');
  const lacks = await targetLacks({ source, target });
  if (lacks.length > 0)
    throw new MoveError(['nothing was changed, because of the target:', ...lacks].join('\n'));
}

/** The last statements, divided by whether their role exists in the target. */
async function rolesThere({
  source,
  target,
}: Sides): Promise<{ done: MoveStatement[]; left: MoveStatement[] }> {
  const { rows } = await source.query<MoveStatement>(afterRows);
  const { rows: roles } = await target.query<{ name: string }>('SELECT rolname AS name FROM pg_roles');
  const known = new Set(roles.map(({ name }) => name));
  const fits = ({ role }: MoveStatement) => role === null || role === undefined || known.has(role);
  return { done: rows.filter(fits), left: rows.filter((it) => !fits(it)) };
}

async function moveAll(sides: Sides, report: MoveReport, waiting: () => Promise<number>): Promise<void> {
  const { source, target } = sides;
  const steps = await marks(sides, report);
  const { rows: all } = await source.query<MovedTable>(tables);
  for (const table of all) {
    if (steps.has(table.name)) continue;
    report.say(`${table.name}: ${await copyOld(sides, table)} rows`);
  }
  const deliveries = deliveriesOf(all);
  if (!steps.has(deliveries.name)) report.say(`ids of deliveries: ${await copyOld(sides, deliveries)}`);
  if (!steps.has('indexes')) {
    await inTransaction(target, async () => {
      await runStatements(target, (await source.query<MoveStatement>(keysAndIndexes)).rows);
      await target.query("INSERT INTO headgate_move.table_state (name, boundary) VALUES ('indexes', 0)");
    });
    report.say('indexes');
  }
  await drainSource(source, report, waiting);
  await closeSource(source);
  report.say('the source accepts no more writes: its webhooks answer 503');
  for (const table of all) {
    const rows = await copyNew(sides, table);
    if (rows > 0) report.say(`${table.name}: ${rows} more rows`);
  }
  await copyAdded(sides, deliveries);
  const { done } = await rolesThere(sides);
  const { rows: sequences } = await source.query<{ name: string; there: string }>(sequenceValues);
  await inTransaction(target, async () => {
    for (const { name, there } of sequences) {
      const { rows } = await source.query<{ value: string; called: boolean }>(
        `SELECT last_value::text AS value, is_called AS called FROM ${name}`,
      );
      await target.query(`SELECT setval(${there}, $1, $2)`, [rows[0]?.value, rows[0]?.called]);
    }
    await runStatements(target, done);
    await copyHeadgate(sides);
    await target.query('DROP SCHEMA headgate_move CASCADE');
  });
  report.say(`${all.length} tables have as many rows in the target as in the source`);
}

/** Returns the steps that are done; if there are no marks yet, creates them and everything that rows need. */
async function marks(sides: Sides, report: MoveReport): Promise<ReadonlySet<string>> {
  const { source, target } = sides;
  const { rows: id } = await source.query<{ id: string }>(
    `SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || oid AS id FROM pg_database WHERE datname = current_database()`,
  );
  const { rows: there } = await target.query<{ there: boolean }>(
    `SELECT to_regclass('headgate_move.source') IS NOT NULL AS there`,
  );
  if (there[0]?.there === true) {
    const { rows } = await target.query<{ id: string }>('SELECT id FROM headgate_move.source');
    if (rows[0]?.id !== id[0]?.id)
      throw new MoveError(
        'a move of another database to the target was interrupted: there, DROP SCHEMA headgate_move CASCADE and drop the tables, and run it again',
      );
    report.say('an interrupted move continues');
    const { rows: names } = await target.query<{ name: string }>(
      'SELECT name FROM headgate_move.table_state',
    );
    return new Set(names.map(({ name }) => name));
  }
  await prepareHeadgate(sides);
  await inTransaction(target, async () => {
    await target.query(`
      CREATE SCHEMA headgate_move;
      CREATE TABLE headgate_move.source (id text NOT NULL);
      CREATE TABLE headgate_move.table_state (name text PRIMARY KEY, boundary text NOT NULL)`);
    await target.query('INSERT INTO headgate_move.source (id) VALUES ($1)', [id[0]?.id]);
    await runStatements(target, (await source.query<MoveStatement>(beforeRows)).rows);
  });
  report.say('schemas, types, functions and tables are created');
  return new Set();
}

/** What would go on writing or could not be ended; checked before anything is moved. */
async function whyNotClosed(source: Client): Promise<string[]> {
  const { rows } = await source.query<{ why: string }>(`
    SELECT 'this role does not own the database, and cannot close it for writing' AS why FROM pg_database d
    WHERE d.datname = current_database() AND NOT pg_has_role(d.datdba, 'USAGE')
    UNION ALL
    SELECT format('the prepared transaction %L is open', p.gid) FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL
    SELECT format('role %I has a default_transaction_read_only of its own', r.rolname)
    FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) c
    WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
      AND c LIKE 'default_transaction_read_only=%'`);
  return rows.map(({ why }) => why);
}

/** Until the Headgates of the source have seen that they keep no more requests, and this machine's spool is empty; not for long: what is left is told. */
async function drainSource(
  source: Client,
  report: MoveReport,
  waiting: () => Promise<number>,
): Promise<void> {
  // An interrupted move has closed it.
  if ((await readOnlyReason(source)) !== null) return;
  await markMoved(source, true);
  await delay(limits.moveMarkedMs);
  const deadline = performance.now() + limits.moveDrainMs;
  for (let told = false; performance.now() < deadline; told = true) {
    const requests = await waiting();
    if (requests === 0) return;
    if (!told) report.say(`the spool hands over ${requests} requests`);
    await delay(limits.moveMarkedMs);
  }
}

/**
 * Closes a database for writing, permanently and for everybody: its default becomes read-only, and every older session is ended. From
 * then on Headgate answers 503 with Retry-After for its tables, and reading still works. Takes a connection, which stays open; throws
 * MoveError if a session cannot be ended; the database is then open again.
 */
async function closeSource(source: Client): Promise<void> {
  await setReadOnly(source, true);
  try {
    await endOthers(source);
    // Tables that have been made meanwhile.
    await markMoved(source, true);
  } catch (error) {
    await reopenSource(source);
    throw error;
  }
}

async function reopenSource(source: Client): Promise<void> {
  await setReadOnly(source, false);
  await markMoved(source, false);
}

async function setReadOnly(source: Client, on: boolean): Promise<void> {
  const { rows } = await source.query<{ name: string }>('SELECT current_database() AS name');
  const database = quoteIdentifier(rows[0]?.name ?? '');
  await source.query('SET default_transaction_read_only = off');
  const what = on ? 'SET default_transaction_read_only = on' : 'RESET default_transaction_read_only';
  await source.query(`ALTER DATABASE ${database} ${what}`);
}

/**
 * Sessions that started before the default changed may still write: only once all of them have ended is it certain that nobody does.
 */
async function endOthers(source: Client): Promise<void> {
  const { rows } = await source.query<{ at: string }>('SELECT clock_timestamp()::text AS at');
  const at = rows[0]?.at ?? '';
  const deadline = performance.now() + limits.moveCloseMs;
  for (;;) {
    const { rows: others } = await source.query<{ pid: number; name: string; ended: boolean }>(
      `SELECT a.pid, coalesce(nullif(a.application_name, ''), a.usename, '?') AS name, pg_terminate_backend(a.pid) AS ended
       FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
         AND a.backend_start <= $1::timestamptz AND a.backend_type IN ('client backend', 'parallel worker')`,
      [at],
    );
    if (others.length === 0) return;
    if (performance.now() > deadline) {
      const names = others.map(({ pid, name }) => `${name} (${pid})`).join(', ');
      throw new MoveError(`these sessions of the source do not end: ${names}`);
    }
    await delay(limits.moveLookMs);
  }
}
