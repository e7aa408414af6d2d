/**
 * INCLUDE HEADER 'name' AS column | INCLUDE HEADERS | TIMESTAMP | BODY | METHOD | PATH | QUERY | REMOTE ADDRESS | TRACEPARENT AS column, any
 * number of them. Takes tokens, returns what each column takes from the request, and the definitions of those columns that the
 * table's list does not declare. Refuses what can never be filled, with its position. Pure.
 */
import { quoteIdentifier } from '../kit/sql-text.ts';
import type { ColumnList } from './columns.ts';
import { StatementError, type Cursor } from './cursor.ts';
import type { PlanText } from './plan.ts';
import { encodeText } from './text.ts';

/** What a column takes from the request other than from its body's keys. */
export interface IncludeClause {
  readonly what: keyof typeof includeTypes;
  /** In lower case, as every header is looked up. */
  readonly header: string | null;
  readonly column: string;
  readonly columnAt: number;
}

/** The column's type if the list does not declare it. */
export const includeTypes = {
  header: 'text',
  headers: 'jsonb',
  timestamp: 'timestamptz',
  body: 'bytea',
  method: 'text',
  path: 'text',
  query: 'text',
  'remote address': 'inet',
  traceparent: 'text',
} as const;

const words = ['headers', 'body', 'method', 'path', 'query', 'traceparent'] as const;

/** A header's name: https://www.rfc-editor.org/rfc/rfc9110#name-tokens */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export function parseIncludes(cursor: Cursor): IncludeClause[] {
  const includes: IncludeClause[] = [];
  const columns = new Set<string>();
  let body = false;
  while (cursor.accept('include')) {
    const at = cursor.offset;
    const what = parseWhat(cursor);
    if (what === 'body' && body)
      throw new StatementError('42701', 'INCLUDE BODY is given more than once', at);
    body ||= what === 'body';
    const header = what === 'header' ? parseHeader(cursor) : null;
    cursor.expect('as');
    const columnAt = cursor.offset;
    const column = cursor.identifier();
    if (columns.size === columns.add(column).size) {
      throw new StatementError('42701', `column "${column}" is filled by INCLUDE more than once`, columnAt);
    }
    includes.push({ what, header, column, columnAt });
  }
  return includes;
}

function parseWhat(cursor: Cursor): IncludeClause['what'] {
  if (cursor.accept('header')) return 'header';
  if (cursor.accept('remote')) {
    cursor.expect('address');
    return 'remote address';
  }
  const word = words.find((it) => cursor.accept(it));
  if (word === undefined) cursor.expect('timestamp');
  return word ?? 'timestamp';
}

function parseHeader(cursor: Cursor): string {
  const at = cursor.offset;
  const header = cursor.literal(false);
  if (header === null) cursor.unexpected();
  if (!headerName.test(header)) {
    throw new StatementError('22023', `"${header}" is not the name of a header`, at);
  }
  return header.toLowerCase();
}

export function refuseGenerated(includes: readonly IncludeClause[], list: ColumnList): void {
  const generated = new Set(list.columns.filter((it) => it.generated).map(({ name }) => name));
  for (const { column, columnAt } of includes) {
    if (generated.has(column)) {
      throw new StatementError('428C9', `column "${column}" is generated: INCLUDE cannot fill it`, columnAt);
    }
  }
}

/** The definitions of columns that are not declared, to be appended to those that are. */
export function undeclared(includes: readonly IncludeClause[], list: ColumnList): PlanText[] {
  const declared = new Set(list.columns.map(({ name }) => name));
  return includes
    .filter(({ column }) => !declared.has(column))
    .map(({ what, column, columnAt }, index) => {
      const comma = index > 0 || list.columns.length > 0 || list.open ? ', ' : '';
      return { text: `${comma}${encodeText(quoteIdentifier(column))} ${includeTypes[what]}`, at: columnAt };
    });
}
