/**
 * The way of small groups of several tables: one statement that locks all tables, asks whether each is what its requests were
 * checked for, and stores their documents (catalog/functions/committing.sql); in one write, one transaction. Keeps what a group alone
 * keeps. It only ever says yes: whatever it fails with, each group is tried alone, and judged there.
 *
 * Who holds a table is not waited for, and who holds a row (of a unique index) for `sharedLockMs` only, so that two such
 * transactions never wait for each other in a circle.
 */
import type { Group } from '../tables/flow.ts';
import { limits } from '../tables/limits.ts';
import type { Limits } from '../tables/limits.ts';
import { quoteIdentifier } from '../kit/sql-text.ts';
import { numberSql, textOf } from './hold.ts';
import type { Hold } from './hold.ts';
import { toStatement } from './prepared.ts';
import type { Session } from './session.ts';
import { relationName, typeOids } from './statements.ts';
import type { Attempt } from './told.ts';
import { documentCount, documentLength, executeMessages, flushMessage } from './wire-message.ts';
import type { Parameter } from './wire-message.ts';

/** What no table's own settings or code can make different: one JSONB column, nothing runs, and COMMIT waits for the disk. */
export function mayShare(group: Group, { ackDeadlineMs }: Pick<Limits, 'ackDeadlineMs'>): boolean {
  const { shape, code, waitsForDisk, dedupe } = group.target;
  const isPlain = shape.way === 'copy' && code.as === 'headgate' && code.inert && code.catalogued;
  return isPlain && waitsForDisk && dedupe === undefined && ackTimeoutOf(group) <= ackDeadlineMs;
}

/** How long its senders wait, in ms. */
export function ackTimeoutOf({ members }: Group): number {
  return members.reduce((most, rows) => Math.max(most, rows.ackTimeoutMs), 0);
}

/** The documents of all groups, in their order; all of them, or none. */
export async function storeTogether(
  session: Session,
  groups: readonly Group[],
  boundMs: number,
): Promise<Attempt | null> {
  const messages = executeMessages(store.name, parametersOf(groups));
  const rows = { statement: store, messages, count: 1, checks: [0] };
  const stored = await session.storePrepared(rows, [boundsOf(boundMs)]);
  return stored === 'not worth it' ? null : stored;
}

const setting = (name: string, to: string) => `pg_catalog.set_config('${name}', ${to}, true)`;
const bounds = toStatement(
  `select ${setting('lock_timeout', `'${limits.sharedLockMs}'`)}, ${setting('statement_timeout', '$1')}, ${numberSql}`,
  [typeOids.text],
);

/** The number goes out before anything is locked. */
function boundsOf(boundMs: number): Hold {
  const messages = [...executeMessages(bounds.name, [textOf(String(Math.ceil(boundMs)))]), flushMessage];
  return { statements: [bounds], messages, count: 1, checks: [] };
}

/** Types of the elements, and of their arrays: pg_type.oid, fixed in every PostgreSQL. */
const arrays = {
  int4: [23, 1007],
  text: [25, 1009],
  oid: [26, 1028],
  jsonb: [typeOids.jsonb, 3807],
} as const;
const { int4, jsonb, oid, text } = arrays;

const store = toStatement(
  'select headgate.store_together($1, $2, $3, $4, $5, $6, $7)',
  [text, text, oid, text, oid, int4, jsonb].map(([, array]) => array),
);

function parametersOf(groups: readonly Group[]): Parameter[] {
  const texts = (of: (group: Group) => string) =>
    arrayOf(text[0], groups.map((group) => Buffer.from(of(group)))); // prettier-ignore
  const numbers = (type: number, of: (group: Group) => number) =>
    arrayOf(type, groups.map((group) => numberOf(of(group)))); // prettier-ignore
  return [
    texts(({ target }) => relationName(target)),
    texts(({ target }) => quoteIdentifier(target.shape.columns[0]?.name ?? '')),
    numbers(oid[0], ({ target }) => target.oid),
    texts(({ target }) => target.shape.mark),
    numbers(oid[0], ({ target }) => target.code.owner),
    numbers(int4[0], ({ rows }) => rows),
    arrayOf(jsonb[0], groups.flatMap(documentsOf), jsonbVersion),
  ];
}

function documentsOf({ members }: Group): Buffer[] {
  return members.flatMap(({ documents }) =>
    Array.from({ length: documentCount(documents) }, (_, i) => {
      const start = documents.spans?.[2 * i] ?? 0;
      return documents.bytes.subarray(start, start + documentLength(documents, i));
    }),
  );
}

function numberOf(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** jsonb's binary form is a version and the text. */
const jsonbVersion = Buffer.from([1]);
const nothing = Buffer.alloc(0);

/** An array of one dimension in PostgreSQL's binary form; each element begins with `prefix`. */
function arrayOf(type: number, elements: readonly Buffer[], prefix = nothing): Parameter {
  const bytes = elements.reduce((sum, element) => sum + 4 + prefix.length + element.length, 20);
  const value = Buffer.allocUnsafe(bytes);
  let at = 0;
  // Dimensions, whether there are NULLs, the type, the length, the first index.
  for (const head of [1, 0, type, elements.length, 1]) at = value.writeInt32BE(head, at);
  for (const element of elements) {
    at = value.writeInt32BE(prefix.length + element.length, at);
    value.set(prefix, at);
    value.set(element, at + prefix.length);
    at += prefix.length + element.length;
  }
  return { format: 1, value };
}
