/**
 * What is around the rows of a transaction, whatever table they are for: what is set for it, what it waits for, whether the table is still the one that
 * the rows were made for, and what is cleaned up. Pure: returns SQL, and steps.
 */
import { versionSql } from '../relations/owner-code.ts';
import { typeOids } from '../relations/shape.ts';
import { quoteLiteral, relationName } from '../kit/sql-text.ts';
import type { Target } from '../types/target.ts';
import { executeMessages, parseMessage, textOf } from './wire-message.ts';
import { fixed, stepOf } from './statement-step.ts';
import { toStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import { runsNoCode } from './plan-lock.ts';

const { int8, oid, text } = typeOids;

/** The search_path for Headgate's own SQL: nothing that others have made takes precedence over PostgreSQL's. */
export const safePath = 'pg_catalog, pg_temp';

/**
 * Settings for Citus; elsewhere they are settings that nobody reads. Rows go to each server over one connection, so that servers and
 * not shards take part in a commit (decision 0188). And LOCK TABLE stays here: on all servers it would take as many round trips, and
 * after it Citus commits rows on several of them without two-phase commit (decision 0188). `local`: until the end of the transaction.
 */
export function forCitus(local: boolean): string {
  const set = (name: string, to: string) => `pg_catalog.set_config('citus.${name}', '${to}', ${local})`;
  return `${set('max_adaptive_executor_pool_size', '1')}, ${set('enable_ddl_propagation', 'off')}`;
}

/**
 * Ends every transaction: is the table still the one that the rows were made for? Its name still means the same relation, its
 * owner is the same, and no column and no code was added, changed or dropped. Fails if not. The statements before it hold a
 * lock on the table, so the answer stays true until COMMIT. Works without the schema `headgate`. Returns the
 * number of the transaction, in case the answer to its commit is lost.
 */
export const confirmStatement =
  `select (case when pg_catalog.to_regclass($1) operator(pg_catalog.=) $2 and exists (` +
  `select from pg_catalog.pg_class c where c.oid operator(pg_catalog.=) $2 and c.relowner operator(pg_catalog.=) $4 and ` +
  `${versionSql('c')} operator(pg_catalog.=) $3) then 'true' else 'table_changed' end)::pg_catalog.bool, ` +
  `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id_if_assigned())`;

/** The same if there is the schema `headgate`: the engine has planned the query. Fails with HG001. */
const confirmCataloguedStatement =
  `select headgate.confirm($1, $2, $3, $4), ` +
  `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id_if_assigned())`;

const confirm = toStatement(confirmStatement, [text, oid, text, oid]);
const confirmCatalogued = toStatement(confirmCataloguedStatement, [text, oid, text, oid]);

/** Checks whether the table is still the one of the target. */
export function confirmStep({ schema, table, oid: place, shape, code }: Target): StatementStep {
  const parameters = [relationName({ schema, table }), String(place), shape.version, String(code.owner)];
  const ask = code.functionsIn === 'headgate' ? confirmCatalogued : confirm;
  return { ...fixed(stepOf(ask, parameters.map(textOf))), checks: true };
}

/**
 * Run first in every transaction that replaces or deletes rows by their key, or takes deliveries, with the oid of the table as `$1`.
 * Transactions of one statement run at the same time, because they take rows in the order of their keys, and ids in theirs. One of
 * several statements returns to smaller keys, and runs alone. So no two transactions of Headgates wait for each other in a
 * circle, which PostgreSQL would notice only after a second, as it does if the database has no schema `headgate`. The lock
 * is on one of a number of empty tables that nobody else may lock; tables that share one wait for each other's transactions, for a moment. In a session of an
 * owner none is taken, because its code might hold it: there a circle ends so after all.
 */
const lockShared = toStatement('select headgate.lock_keys($1, false)', [int8]);
const lockAlone = toStatement('select headgate.lock_keys($1, true)', [int8]);

export interface KeyLocks {
  /** For a transaction of one statement. */
  readonly shared: StatementStep;
  readonly alone: StatementStep;
}

export function keyLocks(target: Target): KeyLocks {
  const table = [textOf(String(target.oid))];
  return { shared: fixed(stepOf(lockShared, table)), alone: fixed(stepOf(lockAlone, table)) };
}

/** Settings for one transaction only. */
export const settingStatements = {
  asynchronous: `select pg_catalog.set_config('synchronous_commit', 'off', true)`,
  durable:
    `select pg_catalog.set_config('synchronous_commit', case when pg_catalog.current_setting('synchronous_commit') ` +
    `operator(pg_catalog.=) 'off' then 'on' else pg_catalog.current_setting('synchronous_commit') end, true)`,
  timeout: `select pg_catalog.set_config('statement_timeout', $1, true)`,
  path: `select pg_catalog.set_config('search_path', $1, true)`,
  /** Settings that code may have changed and the transaction depends on: the path, and whether COMMIT waits for the disk. */
  pins:
    `select pg_catalog.set_config('search_path', '${safePath}', true), ` +
    `pg_catalog.set_config('synchronous_commit', $1, true), ` +
    `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id_if_assigned())`,
} as const;

const setAsynchronous = toStatement(settingStatements.asynchronous, []);
const setDurable = toStatement(settingStatements.durable, []);
const setTimeoutTo = toStatement(settingStatements.timeout, [text]);
const path = toStatement(settingStatements.path, [text]);
const pins = toStatement(settingStatements.pins, [text]);

/** TransactionSettings for one transaction only. */
export interface TransactionSettings {
  /** Whether COMMIT waits for the disk: never, as the session is set, or whatever the session is set to. */
  readonly commit: 'off' | 'as it is' | 'at least on';
  /** Bound on one statement; null: as the session is set. */
  readonly timeoutMs: number | null;
}

/** As a rule none: the table waits for the disk, and its senders wait as long as the session is set for. */
export function settingSteps({ commit, timeoutMs }: TransactionSettings): StatementStep[] {
  const steps: StatementStep[] = [];
  if (commit === 'off') steps.push(stepOf(setAsynchronous, []));
  if (commit === 'at least on') steps.push(stepOf(setDurable, []));
  if (timeoutMs !== null) steps.push(stepOf(setTimeoutTo, [textOf(String(Math.ceil(timeoutMs)))]));
  return steps;
}

/** Code that runs next sees the path of any client. */
export function pathStep(to: string): StatementStep {
  return stepOf(path, [textOf(to)]);
}

/** After code has run: see `pins`. */
export function pinsStep(commit: string): StatementStep {
  return { ...stepOf(pins, [textOf(commit)]), between: true };
}

/**
 * Ends a transaction that ran code in a session that others use next: removes what it may have left there. `commit`: see
 * settingStatements.pins.
 */
export function cleanUpStatements(commit: string): string[] {
  return [
    'reset session authorization',
    'reset all',
    'unlisten *',
    'close all',
    'discard temp',
    `select pg_catalog.pg_advisory_unlock_all(), pg_catalog.set_config('synchronous_commit', ${quoteLiteral(commit)}, true)`,
  ];
}

/** Messages that are always the same, and the number of their statements. */
interface ResetSettings {
  readonly messages: readonly Buffer[];
  readonly count: number;
}

const nothing: ResetSettings = { messages: [], count: 0 };

function inOrder(...statements: readonly string[]): ResetSettings {
  const messages = statements.flatMap((sql) => [parseMessage('', sql, []), ...executeMessages('', [])]);
  return { messages, count: statements.length };
}

const pathIsSafe = inOrder(
  `select pg_catalog.set_config('search_path', '${safePath}', true), ${forCitus(true)}`,
);

/** What comes after all steps, only behind a pooler: others use the session next, so what code has left in it is removed in its own transaction. */
export function resetAfter(shared: boolean, target: Target, commit: string): ResetSettings {
  return shared && !runsNoCode(target) ? inOrder(...cleanUpStatements(commit)) : nothing;
}

/** What comes before all steps, only behind a pooler: the settings of a session that others use are not known, so the path is set before anything is parsed. */
export function resetBefore(shared: boolean): ResetSettings {
  return shared ? pathIsSafe : nothing;
}
