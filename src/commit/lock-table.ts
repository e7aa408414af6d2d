/**
 * What comes before rows of a table if the statement that stores them cannot ask by itself (plan-lock.ts): a lock, which runs no code, and under it
 * the question whether the table is the one that the rows were made for. Pure: takes a target, returns statements.
 */
import { holdCodeBlock } from '../relations/lock-code.ts';
import type { LockedFor } from '../relations/lock-code.ts';
import { typeOids } from '../relations/shape.ts';
import { quoteLiteral, relationName } from '../kit/sql-text.ts';
import type { Target } from '../types/target.ts';
import { runsNoCode, numberSql } from './plan-lock.ts';
import { namelessStep, stepOf } from './statement-step.ts';
import { toStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';
import { executeMessages, parseMessage, textOf } from './wire-message.ts';

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
  if (!runsNoCode(target)) {
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
