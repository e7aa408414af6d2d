/**
 * What comes before rows of a table in a transaction: a lock, which runs no code, and under it the question whether the table is the one
 * that the rows were made for. Pure: takes a target, returns statements.
 */
import { rememberedOf } from '../kit/memoize.ts';
import { holdCodeBlock } from '../relations/lock-code.ts';
import type { LockedFor } from '../relations/lock-code.ts';
import { typeOids } from '../relations/shape.ts';
import { namesAsParsed, quoteLiteral, relationName, stillNames } from '../kit/sql-text.ts';
import type { Target } from '../types/target.ts';
import { isPlain } from './commit-connection.ts';
import { fixed, namelessStep, stepOf, toStatement } from './prepared-statements.ts';
import type { StatementStep } from './prepared-statements.ts';
import { executeMessages, parseMessage } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';

/**
 * Conflicts with every change of the table's owner, triggers, rules and columns. `ONLY`: for a partitioned table with very
 * many partitions the engine has no room for a lock on each.
 */
export function lockSql(target: Target, mode: LockMode = 'row exclusive'): string {
  return `lock table only ${relationName(target)} in ${mode} mode`;
}

/**
 * `share update exclusive` also conflicts with CREATE STATISTICS; and with VACUUM, so it is for few. `share row exclusive` conflicts with
 * everything that writes, too.
 */
export type LockMode = 'row exclusive' | 'share update exclusive' | 'share row exclusive';

/** 22P02 if planning a statement that reads the table would run expressions of its owner. */
function noStatisticsSql({ oid: id }: Target): string {
  return (
    `select (case when exists (select from pg_catalog.pg_statistic_ext s where s.stxrelid operator(pg_catalog.=) ${id}::pg_catalog.oid ` +
    `and s.stxexprs is not null) then 'table_changed' else 'true' end)::pg_catalog.bool`
  );
}

/**
 * As lockSql, for the extended protocol, in whose implicit transactions LOCK TABLE is not allowed. It is not prepared: a
 * connection's prepared statements are kept for those that take longer to parse.
 */
export function lockMessages(target: Target, mode: LockMode = 'row exclusive'): Buffer[] {
  const block = `begin ${lockSql(target, mode)}; end`;
  return [parseMessage('', `do language plpgsql ${quoteLiteral(block)}`, []), ...executeMessages('', [])];
}

/** The number of the transaction, in case the answer to its commit is lost. */
export const numberSql = `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id())`;

/** What the role `writer` needs for rows of a table. */
export type Privilege = LockedFor['needs'][number];

/** The questions about a table that runs code (relations/lock-code.ts). */
function lockedFor({ code, shape, oid, schema, table }: Target, needs: readonly Privilege[]): LockedFor {
  return {
    relation_name: relationName({ schema, table }),
    relation: oid,
    mark: shape.version,
    owner: code.owner,
    writer: code.writer,
    needs,
    columns: shape.columns.map(({ name }) => name),
  };
}

const holdCode = toStatement('select headgate.hold_code($1)', [typeOids.jsonb]);

/** The step that puts these questions. Without a statement it is a block, which returns no number. */
function holdCodeStep(target: Target, needs: readonly Privilege[]): StatementStep {
  if (target.code.functionsIn !== 'headgate') {
    const messages = [parseMessage('', holdCodeSql(target, needs), []), ...executeMessages('', [])];
    return { statement: null, messages: () => messages, checks: true };
  }
  const asked = [textOf(JSON.stringify(lockedFor(target, needs)))];
  return { ...stepOf(holdCode, asked), checks: true };
}

/** The same as text. */
export function holdCodeSql(target: Target, needs: readonly Privilege[]): string {
  const asked = lockedFor(target, needs);
  if (target.code.functionsIn !== 'headgate') return holdCodeBlock(asked);
  return `select headgate.hold_code(${quoteLiteral(JSON.stringify(asked))})`;
}

/** What `confirm` asks, for a statement that names the relation in another way, too. */
export function staysSql({ schema, table, oid, shape, code }: Target): string {
  const relation = quoteLiteral(relationName({ schema, table }));
  return `${code.functionsIn ?? 'headgate'}.stays(${relation}, ${oid}, ${quoteLiteral(shape.version)}, ${code.owner})`;
}

/**
 * For a statement that writes into the target. Servers of Citus know its rows by other oids: there isMeantFirst comes before the statement, unless it stores the rows
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
export function isHeldByPlan(target: Target): boolean {
  return isPlain(target) && target.code.functionsIn !== null && target.shape.distributedByCitus !== true;
}

/**
 * The first statement of a transaction for a table that runs no code: locks it, asks what `confirm` asks, and returns the number of the
 * transaction. The INSERT stores nothing. PostgreSQL locks its table before it trusts the plan, plans again when anything about that table
 * has changed, and evaluates the question when it plans: otherwise this costs only the round through the executor. The question is about the
 * relation of the target, and `isMeant` about the one that was locked: the name may mean another one for just so long.
 */
export const holdPlainStep = rememberedOf((target: Target): StatementStep => {
  const nothing = `held as (insert into ${relationName(target)} select from asked where ${isMeant(target)} and false)`;
  const statement = toStatement(`${askedFirstSql(target)}, ${nothing} select ${numberSql}`, []);
  return { ...fixed(stepOf(statement, [])), checks: true };
});

const number = namelessStep(`select ${numberSql}`);

/**
 * The first steps of every other transaction. `confirm`: the question. `isNewest`: rows replace only older ones (newest-statements.ts).
 */
export function holdSteps(
  target: Target,
  confirm: StatementStep,
  deletes: boolean,
  isNewest: boolean,
): readonly StatementStep[] {
  const lock = (mode?: LockMode): StatementStep => ({
    statement: null,
    messages: () => lockMessages(target, mode),
  });
  // No row that is older passes the tombstone of a deletion that is not committed yet.
  const passesNobody = deletes && isNewest;
  if (!isPlain(target)) {
    const needs: Privilege[] = ['INSERT'];
    if (target.shape.writeMode === 'upsert') needs.push('UPDATE');
    if (deletes) needs.push('DELETE');
    const hold = holdCodeStep(target, needs);
    const first = passesNobody ? [lock('share row exclusive')] : [];
    return [...first, hold, ...(hold.statement === null ? [number] : [])];
  }
  // Nobody may act for the owner, and planning a statement that reads the table would run the expressions of its statistics: there are
  // none, and none are made meanwhile.
  if (deletes)
    return [
      lock(passesNobody ? 'share row exclusive' : 'share update exclusive'),
      { ...namelessStep(noStatisticsSql(target)), checks: true },
      confirm,
    ];
  return [lock(), confirm];
}

export function textOf(value: string): WireParameter {
  return { format: 0, value: Buffer.from(value) };
}
