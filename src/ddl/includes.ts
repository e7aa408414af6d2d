/**
 * INCLUDE HEADER 'name' AS column | INCLUDE HEADERS | TIMESTAMP | BODY | METHOD | PATH | QUERY | REMOTE ADDRESS | TRACEPARENT AS column, any number of
 * them. Takes tokens, returns what each INCLUDE takes from the request; refuses (42701) a column or a body that is given twice, and (22023) what is no
 * name of a header. Pure.
 */
import { StatementError } from './cursor.ts';
import type { Cursor } from './cursor.ts';

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
