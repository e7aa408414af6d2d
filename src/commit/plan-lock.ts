/**
 * Whether the table is the one that its rows were made for, asked in the statement that stores them: PostgreSQL locks the table before it trusts a plan,
 * and evaluates the question when it plans, again after any change of the table. Pure: takes a target, returns SQL. Where a statement cannot ask by
 * itself, lock-table.ts has what comes before it.
 */
import { rememberedOf } from '../kit/memoize.ts';
import { namesAsParsed, quoteLiteral, relationName, stillNames } from '../kit/sql-text.ts';
import type { Target } from '../types/target.ts';
import { fixed, stepOf } from './statement-step.ts';
import { toStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';

/** Storing its rows runs no code. */
export function runsNoCode({ code }: Pick<Target, 'code'>): boolean {
  return code.as === 'writer';
}

/** The number of the transaction, in case the answer to its commit is lost. */
export const numberSql = `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id())`;

/** What `confirm` asks, for a statement that names the relation in another way, too. */
export function staysSql({ schema, table, oid, shape, code }: Target): string {
  const relation = quoteLiteral(relationName({ schema, table }));
  return `${code.functionsIn ?? 'headgate'}.stays(${relation}, ${oid}, ${quoteLiteral(shape.version)}, ${code.owner})`;
}

/**
 * For a statement that writes into the target: true, or the statement fails with 22P02; never fewer rows. Servers of Citus know its rows by other oids: there isMeantFirst comes before the statement, unless it stores the rows
 * of a query of no table (`isQuery`), which Citus evaluates at the coordinator.
 */
export function isMeant(target: Target, isQuery = false): string {
  const { shape, code, oid } = target;
  if (shape.distributedByCitus === true && !isQuery) return 'true';
  const relation = relationName(target);
  // In a session of the owner, who may not use the gateway's functions, whatever runs has the owner's rights.
  const isOutOfReach = code.functionsIn === 'headgate_functions' && code.as === 'owner';
  return code.functionsIn === null || isOutOfReach
    ? stillNames(relation, oid)
    : namesAsParsed(code.functionsIn, relation, oid);
}

/**
 * Right before a statement that writes into the target and cannot have the condition itself; none: it has it. PostgreSQL learns of renamings when it takes a
 * lock that it does not hold yet: after these two it takes none until it has read the name again.
 */
export function isMeantFirst(target: Target): readonly string[] {
  if (target.shape.distributedByCitus !== true) return [];
  const name = relationName(target);
  return [`lock table only ${name} in row exclusive mode`, `select where ${stillNames(name, target.oid)}`];
}

/**
 * The question as the beginning of a statement that stores rows `from asked`. PostgreSQL locks the table that it stores into, plans this
 * query, and then the rest, with the defaults that a new owner may have given to a column.
 */
export function askedFirstSql(target: Target): string {
  return `with asked as materialized (select where ${staysSql(target)})`;
}

/** Whether an INSERT may begin with the question (askedFirstSql). Citus takes no such INSERT into a table that it distributes. */
export function confirmsInInsert(target: Target): boolean {
  return runsNoCode(target) && target.code.functionsIn !== null && target.shape.distributedByCitus !== true;
}

/**
 * The first statement of a transaction for a table that runs no code: locks it, asks what `confirm` asks, and returns the number of the
 * transaction. The INSERT stores nothing. PostgreSQL locks its table before it trusts the plan, plans again when anything about that table
 * has changed, and evaluates the question when it plans: otherwise this costs only the round through the executor. The question is about the
 * relation of the target, and `isMeant` about the one that was locked: the name may mean another one for just so long. Its tag is SELECT 1.
 */
export const lockAndConfirmStep = rememberedOf((target: Target): StatementStep => {
  const nothing = `held as (insert into ${relationName(target)} select from asked where ${isMeant(target)} and false)`;
  const statement = toStatement(`${askedFirstSql(target)}, ${nothing} select ${numberSql}`, []);
  return { ...fixed(stepOf(statement, [])), checks: true };
});
