/**
 * Text to syntax tree, with PostgreSQL's own parser (libpg-query, WASM). Takes the expression's text; returns the tree
 * in the terms of syntax.ts; refuses (ExpressionError) what is not a single expression, what is too long or too deep,
 * and every construct that is not supported here. The parser counts in UTF-8 bytes; all positions returned count in
 * JavaScript string units.
 */
import { createRequire } from 'node:module';
import type * as parser from 'libpg-query';
import type { Node as PgNode, SelectStmt } from 'libpg-query';
import { limits } from '../config/limits.ts';
import { ExpressionError } from './errors.ts';
import { Converter } from './parse-nodes.ts';
import { type Syntax } from './syntax.ts';

// Not by `import`: this is the only CommonJS package that Node still has to load alongside the bundled program, and with
// only one such package Node 20 has returned it without its names (docs/decisions/0116).
const { SqlError, loadModule, parseSync, scanSync } = createRequire(import.meta.url)(
  'libpg-query',
) as typeof parser;

/** Loads the parser once; after that `parseText` is synchronous. */
export function loadParser(): Promise<void> {
  return loadModule();
}

/** The statements of a text as PostgreSQL parses them, once the parser is loaded. Throws the parser's error. */
export const parseStatements = (text: string): unknown => parseSync(text);

const prefix = 'SELECT ';

export function parseText(text: string): Syntax {
  if (text.length > limits.expressionCharsMax) {
    throw new ExpressionError(
      '54000',
      `the expression is longer than ${limits.expressionCharsMax} characters`,
      null,
    );
  }
  // The WASM parser reads a C string: it would see the text only up to the first NUL.
  const nul = text.indexOf('\0');
  if (nul >= 0) throw new ExpressionError('42601', 'the expression contains a NUL character', nul);
  if (text.trim() === '') throw new ExpressionError('42601', 'VALIDATE takes one boolean expression', 0);
  const offsets = new Offsets(text);
  const select = parseSelect(text, offsets);
  return new Converter((location) => offsets.toIndex(location)).convert(select);
}

/** Converts byte offsets of `SELECT text` to indexes of text. */
class Offsets {
  readonly #text: string;
  readonly #bytes: Buffer | null;

  constructor(text: string) {
    this.#text = text;
    const bytes = Buffer.from(text, 'utf8');
    this.#bytes = bytes.length === text.length ? null : bytes;
  }

  isEnd(byteOffset: number): boolean {
    return byteOffset - prefix.length >= (this.#bytes ?? this.#text).length;
  }

  toIndex(byteOffset: number): number {
    const bytes = Math.max(byteOffset - prefix.length, 0);
    const index = this.#bytes === null ? bytes : this.#bytes.toString('utf8', 0, bytes).length;
    return Math.min(index, this.#text.length);
  }
}

function parseSelect(text: string, offsets: Offsets): PgNode {
  const statements = runParser(prefix + text, offsets);
  // Only what is also one expression in parentheses: no `a AS b`, no `ALL a`, no unbalanced parentheses.
  runParser(`SELECT(${text}\n)`, offsets);
  const statement = statements.length === 1 ? statements[0]?.stmt : undefined;
  const select: SelectStmt | undefined =
    statement !== undefined && 'SelectStmt' in statement ? statement.SelectStmt : undefined;
  const target = select?.targetList?.length === 1 ? select.targetList[0] : undefined;
  const value = target !== undefined && 'ResTarget' in target ? target.ResTarget : undefined;
  const extra = Object.keys(select ?? {}).find((key) => !['targetList', 'limitOption', 'op'].includes(key));
  if (value?.val === undefined || value.name !== undefined || extra !== undefined) {
    throw new ExpressionError('42601', 'VALIDATE takes one boolean expression', 0);
  }
  return value.val;
}

function runParser(sql: string, offsets: Offsets): { stmt?: PgNode }[] {
  try {
    return parseSync(sql).stmts ?? [];
  } catch (error) {
    if (error instanceof RangeError) throw tooDeep(null);
    const at = error instanceof SqlError ? error.sqlDetails?.cursorPosition : undefined;
    const message = error instanceof Error ? error.message : 'syntax error';
    if (/memory exhausted|stack depth/.test(message)) throw tooDeep(null);
    // `x AND` is a column named "and" to SELECT; the parenthesis that follows is Headgate's, not the author's.
    const isEnd = at !== undefined && offsets.isEnd(at);
    throw new ExpressionError(
      '42601',
      isEnd ? 'syntax error at end of input' : message,
      at === undefined ? null : offsets.toIndex(at),
    );
  }
}

function tooDeep(at: number | null): ExpressionError {
  return new ExpressionError(
    '54001',
    `the expression is nested deeper than ${limits.expressionDepthMax}`,
    at,
  );
}

/**
 * The library returns tokens as JSON, with their text, in which it leaves these characters as they are, which JSON.parse refuses. They stand in
 * literals and comments, or are white space: anywhere else the parser has refused them.
 */
// oxlint-disable-next-line no-control-regex
const unescaped = /[\u0001-\u0008\u000b\u000c\u000e-\u001f]/g;

/** The end of the token that starts at an index: string literals have many forms, and the scanner knows them. */
export function tokenEnds(text: string): ReadonlyMap<number, number> {
  const offsets = new Offsets(text);
  const ends = new Map<number, number>();
  for (const token of scanSync(prefix + text.replaceAll(unescaped, ' ')).tokens)
    ends.set(offsets.toIndex(token.start), offsets.toIndex(token.end));
  return ends;
}
