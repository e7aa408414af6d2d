/**
 * The columns of a webhook table, and what INCLUDE takes for them from the request other than from its body's keys. Takes tokens, returns columns and the
 * places where a type has another name in PostgreSQL (everything after a type is left to PostgreSQL), and the definitions of columns that INCLUDE fills and
 * the list does not declare. Refuses types that have no equivalent in PostgreSQL (0A000), generated columns that INCLUDE would fill (428C9), a column or a
 * body that is given twice (42701), and what is no name of a header (22023). Pure.
 *
 *   INCLUDE HEADER 'name' AS column | INCLUDE HEADERS | TIMESTAMP | BODY | METHOD | PATH | QUERY | REMOTE ADDRESS | TRACEPARENT AS column, any number
 */
import { StatementError } from './cursor.ts';
import { encodeText } from './literals.ts';
import type { Cursor } from './cursor.ts';
import type { SqlToken } from './scanner.ts';
import { quoteIdentifier } from '../kit/sql-text.ts';
import type { PlanText } from './plan.ts';

export interface ColumnDefinition {
  readonly name: string;
  readonly at: number;
  /** The type's name in lower case, e.g. `jsonb`, with [] for an array; if it has several words, the first one. */
  readonly type: string;
  readonly typeAt: number;
  /** Type names to replace before PostgreSQL gets the statement. */
  readonly renames: readonly Rename[];
  /** GENERATED ALWAYS …, including AS IDENTITY: no row can fill it. */
  readonly generated: boolean;
}

export interface Rename {
  readonly start: number;
  readonly end: number;
  readonly to: string;
}

export interface ColumnList {
  readonly columns: readonly ColumnDefinition[];
  /** With LIKE: there are columns that only PostgreSQL knows. */
  readonly open: boolean;
  readonly start: number;
  /** The position of its closing parenthesis. */
  readonly closeAt: number;
}

const constraintWords = new Set(['constraint', 'check', 'unique', 'primary', 'foreign']);

/** RisingWave's type names that differ from PostgreSQL's. */
const otherNames: Readonly<Record<string, string>> = {
  string: 'text',
  bytes: 'bytea',
  double: 'double precision',
};

/** ( element [, …] ): only the beginning of each element is read, the rest is left to PostgreSQL. */
export function parseColumns(cursor: Cursor): ColumnList {
  const start = cursor.offset;
  const columns: ColumnDefinition[] = [];
  let open = false;
  cursor.expect('(');
  if (cursor.peek() !== ')') {
    do {
      if (cursor.peek() === 'like') open = true;
      if (cursor.peek() === 'like' || isConstraint(cursor)) takeElement(cursor);
      else columns.push(parseColumn(cursor));
    } while (cursor.accept(','));
  }
  const closeAt = cursor.offset;
  cursor.expect(')');
  return { columns, open, start, closeAt };
}

/** Unlike the others, EXCLUDE may also be a column's name; `exclude using` and `exclude (` begin a constraint. */
function isConstraint(cursor: Cursor): boolean {
  const word = cursor.peek();
  return constraintWords.has(word) || (word === 'exclude' && ['using', '('].includes(cursor.peek(1)));
}

function parseColumn(cursor: Cursor): ColumnDefinition {
  const at = cursor.offset;
  const name = cursor.identifier();
  const typeAt = cursor.offset;
  refuseUnequal(cursor);
  const renames: Rename[] = [];
  const word = cursor.peek();
  const to = Object.hasOwn(otherNames, word) ? otherNames[word] : undefined;
  if (to !== undefined && cursor.peek(1) !== '.' && cursor.peek(1) !== 'precision') {
    renames.push({ start: typeAt, end: typeAt + word.length, to });
  }
  const typeName = cursor.qualifiedName(2);
  const array = cursor.peek() === '[' || cursor.peek() === 'array';
  const plain = typeName.schema === null || typeName.schema === 'pg_catalog';
  const known = renames[0]?.to ?? typeName.name;
  return {
    name,
    at,
    type: `${plain ? '' : `${typeName.schema}.`}${known}${array ? '[]' : ''}`,
    typeAt,
    renames,
    generated: holdsWords(cursor, takeElement(cursor), 'generated', 'always'),
  };
}

function refuseUnequal(cursor: Cursor): void {
  const next = cursor.peek(1);
  const struct = cursor.peek() === 'struct' && next === '<';
  if (!struct && !(cursor.peek() === 'map' && next === '(')) return;
  throw new StatementError(
    '0A000',
    `${struct ? 'STRUCT' : 'MAP'} is not a type of PostgreSQL`,
    cursor.offset,
    { hint: 'Use JSONB, or a type made with CREATE TYPE name AS (...).' },
  );
}

/** The tokens up to the comma or parenthesis that ends the element, without those inside its own parentheses. */
function takeElement(cursor: Cursor): SqlToken[] {
  const outer: SqlToken[] = [];
  for (let depth = 0; !cursor.atEnd;) {
    const sign = cursor.peek();
    if (depth === 0 && (sign === ',' || sign === ')')) break;
    const token = cursor.take();
    if (sign === '(' || sign === '[') depth++;
    else if (sign === ')' || sign === ']') depth--;
    else if (depth === 0) outer.push(token);
  }
  return outer;
}

/** Whether these keywords follow each other in the tokens. */
function holdsWords(cursor: Cursor, tokens: readonly SqlToken[], ...words: readonly string[]): boolean {
  return tokens.some((_token, index) =>
    words.every((word, ahead) => {
      const token = tokens[index + ahead];
      return token?.kind === 'word' && cursor.raw(token).toLowerCase() === word;
    }),
  );
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
