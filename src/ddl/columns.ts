/**
 * The column list of a webhook table. Takes tokens, gives columns and the places where a type has another name in
 * PostgreSQL; constraints stay PostgreSQL's own. Refuses (0A000) what a webhook table cannot have. Pure.
 */
import { StatementError, type Cursor } from './cursor.ts';
import type { Token } from './scanner.ts';

export interface Column {
  readonly name: string;
  readonly at: number;
  /** The type's name in lower case, e.g. `jsonb`, with [] where it is an array. */
  readonly type: string;
  readonly typeAt: number;
  /** Type names to be replaced on the way to PostgreSQL. */
  readonly renames: readonly Rename[];
  /** Where PRIMARY KEY or GENERATED stands among its constraints. */
  readonly primaryKeyAt: number | null;
  readonly generatedAt: number | null;
}

export interface Rename {
  readonly start: number;
  readonly end: number;
  readonly to: string;
}

export interface ColumnList {
  readonly columns: readonly Column[];
  /** Where a PRIMARY KEY (…) stands by itself. */
  readonly primaryKeyAt: number | null;
  readonly start: number;
  readonly end: number;
}

const constraintWords = new Set(['constraint', 'check', 'unique', 'primary', 'foreign']);

/** ( element [, …] ): of each element only the beginning is read, the rest is PostgreSQL's. */
export function parseColumns(cursor: Cursor): ColumnList {
  const start = cursor.offset;
  const columns: Column[] = [];
  let primaryKeyAt: number | null = null;
  cursor.expect('(');
  if (cursor.peek() !== ')') {
    do {
      if (cursor.peek() === 'like') {
        throw new StatementError('0A000', 'LIKE is not supported in a webhook table', cursor.offset);
      }
      if (isConstraint(cursor)) primaryKeyAt ??= findWords(cursor, takeElement(cursor), 'primary', 'key');
      else columns.push(parseColumn(cursor));
    } while (cursor.accept(','));
  }
  cursor.expect(')');
  return { columns, primaryKeyAt, start, end: cursor.behind };
}

/** EXCLUDE, unlike the others, may also be a column's name; `exclude using` and `exclude (` begin a constraint. */
function isConstraint(cursor: Cursor): boolean {
  const word = cursor.peek();
  return constraintWords.has(word) || (word === 'exclude' && ['using', '('].includes(cursor.peek(1)));
}

function parseColumn(cursor: Cursor): Column {
  const at = cursor.offset;
  const name = cursor.identifier();
  const typeAt = cursor.offset;
  const renames: Rename[] = [];
  if (cursor.peek() === 'string' && cursor.peek(1) !== '.') {
    renames.push({ start: typeAt, end: typeAt + 'string'.length, to: 'text' });
  }
  const typeName = cursor.qualifiedName(2);
  const array = cursor.peek() === '[' || cursor.peek() === 'array';
  const plain = typeName.schema === null || typeName.schema === 'pg_catalog';
  const rest = takeElement(cursor);
  return {
    name,
    at,
    type: `${plain ? '' : `${typeName.schema}.`}${typeName.name}${array ? '[]' : ''}`,
    typeAt,
    renames,
    primaryKeyAt: findWords(cursor, rest, 'primary', 'key'),
    generatedAt: findWords(cursor, rest, 'generated'),
  };
}

/** The tokens up to the comma or parenthesis that ends the element, without those in parentheses of its own. */
function takeElement(cursor: Cursor): Token[] {
  const outer: Token[] = [];
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

/** Where these keywords stand one after another; null: nowhere. */
function findWords(cursor: Cursor, tokens: readonly Token[], ...words: readonly string[]): number | null {
  const found = tokens.find((_token, index) =>
    words.every((word, ahead) => {
      const token = tokens[index + ahead];
      return token?.kind === 'word' && cursor.raw(token).toLowerCase() === word;
    }),
  );
  return found?.start ?? null;
}
