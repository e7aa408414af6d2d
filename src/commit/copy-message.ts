/**
 * The bytes of one group on the PostgreSQL wire, pure. Statement, rows and end go out in one write: the
 * protocol lets a client send CopyData before it has seen CopyInResponse (after an error the backend throws
 * stray CopyData and CopyDone away), so a group costs one round trip.
 */
import type { Group, Target } from '../flow.ts';
import { quoteIdentifier, quoteLiteral } from '../kit/sql-text.ts';
import { mergedBytes, Pieces } from './pieces.ts';
import { relationName, settingStatements } from './statements.ts';
import type { Settings } from './table-statements.ts';
import { documentCount, documentLength } from './wire-message.ts';

/** COPY's binary signature, flags and extension length: https://www.postgresql.org/docs/current/sql-copy.html */
const copyHeader = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)]);
const copyTrailer = Buffer.from([0xff, 0xff]);
const copyDone = Buffer.from([0x63, 0, 0, 0, 4]);
/** int16 field count, int32 field length, and jsonb's version byte. */
const rowHeaderBytes = 7;
const jsonbVersion = 1;

/** The statements of a group's transaction, and how many they are. */
export function groupStatement(
  target: Target,
  { commit, timeoutMs }: Settings,
): { readonly sql: string; readonly count: number } {
  const relation = relationName(target);
  const column = quoteIdentifier(target.shape.columns[0]?.name ?? '');
  // A simple query of several statements is one transaction: it commits after the last of them. `confirm` comes
  // after COPY has locked the table, so that no row commits into a table that was replaced under the same name.
  const statements = [
    ...(commit === 'off' ? ['set local synchronous_commit = off'] : []),
    ...(commit === 'at least on' ? [settingStatements.durable] : []),
    ...(timeoutMs === null ? [] : [`set local statement_timeout = ${Math.ceil(timeoutMs)}`]),
    // Comes with CopyInResponse, thus before the commit: the number to ask for when the answer to that is lost.
    `select pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id())`,
    `copy ${relation} (${column}) from stdin (format binary)`,
    `select headgate.confirm(${quoteLiteral(relation)}, ${target.oid}, ${quoteLiteral(target.shape.mark)})`,
  ];
  return { sql: statements.join('; '), count: statements.length };
}

/** CopyData with all rows of the group, then CopyDone, as buffers to be written one after the other. */
export function copyMessages(members: Group['members']): Buffer[] {
  let bytes = copyHeader.length + copyTrailer.length;
  let merged = 5 + bytes + copyDone.length;
  for (const { documents } of members) {
    for (let i = 0; i < documentCount(documents); i++) {
      const length = documentLength(documents, i);
      bytes += rowHeaderBytes + length;
      merged += rowHeaderBytes + mergedBytes(length);
    }
  }
  const out = new Pieces(merged);
  out.byte(0x64);
  out.int32(bytes + 4);
  out.copy(copyHeader);
  for (const { documents } of members) {
    for (let i = 0; i < documentCount(documents); i++) {
      const start = documents.spans?.[2 * i] ?? 0;
      const length = documentLength(documents, i);
      out.byte(0);
      out.byte(1);
      out.int32(length + 1);
      out.byte(jsonbVersion);
      out.document(documents.bytes, start, start + length);
    }
  }
  out.copy(copyTrailer);
  out.copy(copyDone);
  return out.end();
}
