/**
 * What comes before anything of a table runs in Headgate's own session: a lock, which takes no code, and under it the
 * question whether the table's owner is still the one that the catalog knew, and still one that could do all that
 * Headgate's role can. Without the lock the owner could change between question and row. Pure: a target in, steps out.
 */
import { ownersSql, trustedSql } from '../catalog/owner-code.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { Target } from '../tables/flow.ts';
import { toStatement } from './prepared.ts';
import type { Statement } from './prepared.ts';
import { relationName, typeOids } from './statements.ts';
import { executeMessages, flushMessage, parseMessage } from './wire-message.ts';
import type { Parameter } from './wire-message.ts';

/**
 * Conflicts with every change of the table's owner, triggers, rules and columns. `ONLY`: of a partitioned table with very
 * many partitions the engine has no room for a lock on each.
 */
export function lockSql(target: Target): string {
  return `lock table only ${relationName(target)} in row exclusive mode`;
}

/**
 * As lockSql, for the extended protocol, whose transactions are no blocks to LOCK TABLE. Of one use: what a connection may
 * remember is kept for statements that take longer to parse.
 */
export function lockMessages(target: Target): Buffer[] {
  const block = `begin ${lockSql(target)}; end`;
  return [parseMessage('', `do language plpgsql ${quoteLiteral(block)}`, []), ...executeMessages('', [])];
}

/** 22P02 with `table_changed` where the name means another table, or the owner is another one or no longer trusted. */
export function heldSql(inert: boolean, name: string, oid: string, owner: string): string {
  const same =
    `pg_catalog.to_regclass(${name}) operator(pg_catalog.=) ${oid} and ` +
    `exists (select from pg_catalog.pg_class c where c.oid operator(pg_catalog.=) ${oid} ` +
    `and c.relowner operator(pg_catalog.=) ${owner})`;
  // What takes part in a plain table that runs no code is the table alone.
  const trusted = inert
    ? trustedSql(owner)
    : `not exists (select from (${ownersSql(oid)}) as o where not ${trustedSql('o.relowner')})`;
  return `(case when ${same} and ${trusted} then 'true' else 'table_changed' end)::pg_catalog.bool`;
}

/** The number of the transaction, for when the answer to its commit is lost. */
const numberSql = `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id())`;

export const numberStatement = toStatement(`select ${numberSql}`, []);
export const numberMessages = [...executeMessages(numberStatement.name, []), flushMessage];

const { text, oid: oidType } = typeOids;
const held = (inert: boolean) =>
  toStatement(`select ${heldSql(inert, '$1', '$2', '$3')}`, [text, oidType, oidType]);
const ofInert = held(true);
const ofOthers = held(false);

export function heldStatement({ code }: Target): Statement {
  return code.inert ? ofInert : ofOthers;
}

/** Lock, question and number in one, where the database has the schema `headgate`; HG001 as above. */
export const holdStatement = toStatement('select headgate.hold($1, $2, $3, $4)', [
  text,
  oidType,
  oidType,
  text,
]);

/** `nowait`: 55P03 where somebody holds the table. */
export function holdMessages(target: Target, patience: 'nowait' | ''): Buffer[] {
  return executeMessages(holdStatement.name, [...names(target), textOf(patience)]);
}

/** The execution of heldStatement. */
export function heldMessages({ name }: Statement, target: Target): Buffer[] {
  return executeMessages(name, names(target));
}

function names(target: Target): Parameter[] {
  return [relationName(target), String(target.oid), String(target.code.owner)].map(textOf);
}

/** heldSql as text of a group's simple query. */
export function heldTextSql(target: Target): string {
  const of = (id: number) => `${id}::pg_catalog.oid`;
  const name = quoteLiteral(relationName(target));
  return `select ${heldSql(target.code.inert, name, of(target.oid), of(target.code.owner))}`;
}

export function textOf(value: string): Parameter {
  return { format: 0, value: Buffer.from(value) };
}
