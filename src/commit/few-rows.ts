/**
 * How a few documents are stored: by one prepared INSERT in one round trip, which costs the engine less than a COPY with the statements
 * around it. Keeps what the COPY of a group keeps: the table is locked and checked before anything of it runs, and the number of
 * the transaction is sent before anything is locked. Pure: takes target and rows, returns messages.
 *
 * If it fails, the COPY is tried, so that a row is judged in the same words however many come with it; the INSERT's own
 * failure is told only if that of the COPY does not name a row (document-group.ts).
 */
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { arrayTypes, documentsOf } from './array-parameter.ts';
import { askedFirstSql, numberSql } from './lock-table.ts';
import type { TableLock } from './lock-table.ts';
import { toStatement } from './prepared.ts';
import type { PreparedRows, PreparedStatement } from './prepared.ts';
import { executeMessages, flushMessage } from './wire-message.ts';

/** From some thirty rows on a COPY is cheaper; below that the INSERT wins less and less (decision 0226). */
const rowsMax = 12;
const bytesMax = 32 * 1024;

/** Whether these are few, and small enough to be copied into one parameter. */
export function areFew(members: readonly Rows[]): boolean {
  let rows = 0;
  let bytes = 0;
  for (const member of members) {
    rows += member.count;
    bytes += member.bytes;
    if (rows > rowsMax || bytes > bytesMax) return false;
  }
  return true;
}

/** Stores `$1` in a table of plain rows, in order. Its plan is made again, and the table checked, when the table changes. */
export function fewRowsStatement(target: Target): PreparedStatement {
  const column = quoteIdentifier(target.shape.columns[0]?.name ?? '');
  const id = `${target.oid}::pg_catalog.oid`;
  // The name could still mean another table, if a schema was renamed in spite of the lock. COPY knows no rules and no
  // policies: here rules are an error anyway, and policies are made one.
  const sql =
    `${askedFirstSql(target)} insert into ${relationName(target)} (${column}) select pg_catalog.unnest($1) from asked returning ` +
    `(case when tableoid operator(pg_catalog.<>) ${id} then 'elsewhere' ` +
    `when pg_catalog.row_security_active(${id}) then 'policies' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [arrayTypes.jsonb.array]);
}

export function fewRows(statement: PreparedStatement, members: readonly Rows[]): PreparedRows {
  const messages = executeMessages(statement.name, [documentsOf(members)]);
  return { statement, messages, count: 1, checks: [] };
}

const openingStatement = toStatement(`select ${numberSql}`, []);

/** Precedes the statement, which locks the table and checks it by itself: the number, which is sent at once. */
export const fewRowsOpening: TableLock = {
  statements: [openingStatement],
  messages: [...executeMessages(openingStatement.name, []), flushMessage],
  count: 1,
  checks: [],
};
