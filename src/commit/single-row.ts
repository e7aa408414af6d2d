/**
 * How one document that waits alone is stored: by prepared statements, which PostgreSQL neither parses nor plans again, in one
 * round trip. Keeps what the COPY of a group keeps: the table is locked, and its owner and its columns are checked before anything
 * of it runs, and the number of the transaction is sent before the commit begins. Pure: takes target and document, returns messages.
 *
 * If it fails, the COPY is tried, so that a row is judged in the same words whether it came alone or among others; its own
 * failure is told only if that of the COPY does not name a row (copy-group.ts).
 */
import type { Rows, Target } from '../tables/flow.ts';
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import { toStatement } from './prepared.ts';
import type { PreparedRows, Statement } from './prepared.ts';
import { typeOids } from './statements.ts';
import { executeMessages } from './wire-message.ts';

/** Stores `$1` in a table of plain rows that is held. Its plan is made again when the table changes. */
export function singleRowStatement(target: Target): Statement {
  const relation = relationName(target);
  const column = quoteIdentifier(target.shape.columns[0]?.name ?? '');
  const id = `${target.oid}::pg_catalog.oid`;
  // The name could still mean another table, if a schema was renamed in spite of the lock. COPY knows no rules and no
  // policies: here rules are an error anyway, and policies are made one.
  const sql =
    `insert into ${relation} (${column}) values ($1) returning ` +
    `(case when tableoid operator(pg_catalog.<>) ${id} then 'elsewhere' ` +
    `when pg_catalog.row_security_active(${id}) then 'policies' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [typeOids.jsonb]);
}

/** The document of a group of one row; null: there are more, or it is too large to be copied. */
export function singleDocument(members: readonly Rows[]): Buffer | null {
  const only = members.length === 1 ? members[0] : undefined;
  if (only === undefined || only.count !== 1 || only.bytes > singleBytesMax) return null;
  const { bytes, spans } = only.documents;
  return spans === null ? bytes : bytes.subarray(spans[0], spans[1]);
}

const singleBytesMax = 32 * 1024;

export function singleRow(statement: Statement, document: Buffer): PreparedRows {
  // jsonb's binary form is a version byte and the text.
  const value = Buffer.allocUnsafe(1 + document.length);
  value[0] = 1;
  value.set(document, 1);
  const messages = executeMessages(statement.name, [{ format: 1, value }]);
  return { statement, messages, count: 1, checks: [] };
}
