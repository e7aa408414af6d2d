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
import { askedFirstSql, numberSql } from './lock-table.ts';
import { toStatement } from './prepared.ts';
import type { PreparedStatement } from './prepared.ts';
import type { StatementStep } from './table-statements.ts';
import { isMeant, typeOids } from './statements.ts';
import { documentCount, documentLength, executeMessages, flushMessage } from './wire-message.ts';
import type { WireParameter } from './wire-message.ts';

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
  // A rule that the table has got would be an error, or lead elsewhere.
  const sql =
    `${askedFirstSql(target)} insert into ${relationName(target)} (${column}) select pg_catalog.unnest($1) from asked where ${isMeant(target)} returning ` +
    `(case when tableoid operator(pg_catalog.<>) ${target.oid}::pg_catalog.oid then 'elsewhere' else 'true' end)::pg_catalog.bool`;
  return toStatement(sql, [jsonbArrayOid]);
}

export function fewRows(statement: PreparedStatement, members: readonly Rows[]): StatementStep {
  return { statement, messages: (name = statement.name) => executeMessages(name, [documentsOf(members)]) };
}

/** pg_type.oid, fixed in every PostgreSQL. */
const jsonbArrayOid = 3807;

/** The documents of all rows of these requests, in order, as an array of jsonb in PostgreSQL's binary form. */
function documentsOf(members: readonly Rows[]): WireParameter {
  const all = members.flatMap(({ documents }) =>
    Array.from({ length: documentCount(documents) }, (_, i) => {
      const start = documents.spans?.[2 * i] ?? 0;
      return documents.bytes.subarray(start, start + documentLength(documents, i));
    }),
  );
  const value = Buffer.allocUnsafe(all.reduce((sum, { length }) => sum + 5 + length, 20));
  let at = 0;
  // Dimensions, whether there are NULLs, the type, the length, the first index.
  for (const head of [1, 0, typeOids.jsonb, all.length, 1]) at = value.writeInt32BE(head, at);
  for (const document of all) {
    at = value.writeInt32BE(1 + document.length, at);
    // jsonb's binary form is a version byte and the text.
    at = value.writeUInt8(1, at);
    at += document.copy(value, at);
  }
  return { format: 1, value };
}

const openingStatement = toStatement(`select ${numberSql}`, []);

const opening = [...executeMessages(openingStatement.name, []), flushMessage];

/** Precedes the statement, which locks the table and checks it by itself: the number, which is sent at once. */
export const fewRowsOpening: readonly StatementStep[] = [
  { statement: openingStatement, messages: () => opening },
];
