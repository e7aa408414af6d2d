/**
 * Documents as the tuples of `INSERT … VALUES`. Takes Rows, returns one tuple per row, all with the same columns, or the refusal of the first
 * row that cannot be one; refuses with `payload_undecodable` and `row_refused`. Pure.
 *
 * In RisingWave VALUES does not support DEFAULT, and a NULL is not a default: columns that have one are named only if the rows contain them.
 * Rows of one request that differ in this would need two statements, one of which may be stored without the other.
 */
import { objectMembers } from '../kit/json-values.ts';
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import type { Rows } from '../types/rows.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { columnsOf } from './relations.ts';
import type { RwColumn } from './relations.ts';
import { printType } from './types.ts';
import { expression, ValueError } from './values.ts';

/** Rows of one request, ready to be sent. */
export interface Encoded {
  readonly columns: readonly RwColumn[];
  /** One per row, in order; `(…)`. */
  readonly tuples: readonly string[];
}

/** A refused row, counted from 0. */
export interface BadRow {
  readonly row: number;
  readonly refusal: Refusal;
}

/** `skip`: called for rows that cannot be tuples, which are left out; null: the first such row is returned. */
export function encodeRows(rows: Rows, skip: ((bad: BadRow) => void) | null): Encoded | BadRow {
  const all = columnsOf(rows.target);
  const tuples: string[] = [];
  let columns: readonly RwColumn[] | null = null;
  for (let row = 0; row < rows.count; row++) {
    const members = objectMembers(documentOf(rows, row));
    const own = all.filter((column) => !column.hasDefault || members.has(column.name));
    columns ??= own;
    const encoded =
      own.length === columns.length && own.every((column, i) => column === columns?.[i])
        ? tupleOf(own, members, rows.target.shape.document)
        : refusal('row_refused', otherDefaults);
    if (typeof encoded === 'string') tuples.push(encoded);
    else if (skip === null) return { row, refusal: encoded };
    else skip({ row, refusal: encoded });
  }
  return { columns: columns ?? all, tuples };
}

const otherDefaults =
  'the rows of one request name the same columns that have a DEFAULT: RisingWave fills those that a whole statement leaves out';

/** `INSERT INTO … VALUES (…), (…)` */
export function insertSql(
  { target }: Pick<Rows, 'target'>,
  columns: readonly RwColumn[],
  tuples: readonly string[],
): string {
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(',');
  return `insert into ${relationName(target)} (${names}) values ${tuples.join(',')}`;
}

/** The values of a document, each with its column's type; throws ValueError. */
export function typedValues(rows: Rows, row: number, columns: readonly RwColumn[]): string[] {
  const members = objectMembers(documentOf(rows, row));
  const { document } = rows.target.shape;
  return columns.map((column) => expressionOf(column, members.get(column.name) ?? 'null', document, true));
}

/** `null` as a whole document is a document. */
function expressionOf(
  { name, type }: RwColumn,
  raw: string,
  document: string | null,
  typed: boolean,
): string {
  if (raw !== 'null' || name !== document) return expression(type, raw, typed);
  return typed ? `'null'::${printType(type)}` : `'null'`;
}

function tupleOf(
  columns: readonly RwColumn[],
  members: ReadonlyMap<string, string>,
  document: string | null,
): string | Refusal {
  let tuple = '(';
  for (const column of columns) {
    const raw = members.get(column.name) ?? 'null';
    if (raw === 'null' && !column.nullable && column.name !== document)
      return refusal('row_refused', `column "${column.name}" must not be null`);
    try {
      tuple += (tuple === '(' ? '' : ',') + expressionOf(column, raw, document, false);
    } catch (error) {
      if (error instanceof ValueError) return misfitOf(column, error.message);
      throw error;
    }
  }
  return `${tuple})`;
}

/** The refusal as the sender of a value gets it. */
export function misfitOf({ name }: RwColumn, reason: string): Refusal {
  return refusal(
    'payload_undecodable',
    `${refusals.payload_undecodable.message}: column "${name}": ${reason}`,
  );
}

function documentOf({ documents: { bytes, spans } }: Rows, row: number): string {
  return spans === null ? bytes.toString('utf8') : bytes.toString('utf8', spans[2 * row], spans[2 * row + 1]);
}
