/**
 * PostgreSQL's own parser (libpg-query, WASM). Takes a text; returns its statements as PostgreSQL has them, or where its tokens end; refuses (ExpressionError)
 * what is no SQL or is nested too deeply. The parser counts in UTF-8 bytes; all positions returned count in JavaScript string units.
 */
import { createRequire } from 'node:module';
import type * as parser from 'libpg-query';
import type { Node as PgNode } from 'libpg-query';
import { limits } from '../config/limits.ts';
import { ExpressionError } from './errors.ts';

// Not by `import`: this is the only CommonJS package that Node still has to load alongside the bundled program, and with
// only one such package Node 20 has returned it without its names (docs/decisions/0116).
const { SqlError, loadModule, parseSync, scanSync } = createRequire(import.meta.url)(
  'libpg-query',
) as typeof parser;

/** Loads the parser once; after that parsing is synchronous. */
export function loadParser(): Promise<void> {
  return loadModule();
}

/** The statements of a text as PostgreSQL parses them, once the parser is loaded. Throws the parser's error. */
export const parseStatements = (text: string): unknown => parseSync(text);

/** What stands before an expression, so that it is a statement. */
export const prefix = 'SELECT ';

/** Converts byte offsets of `SELECT text` to indexes of text. */
export class Offsets {
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

/** The statements of a text that begins as `offsets` has it. Throws ExpressionError. */
export function runParser(sql: string, offsets: Offsets): { stmt?: PgNode }[] {
  try {
    return parseSync(sql).stmts ?? [];
  } catch (error) {
    if (error instanceof RangeError) throw tooDeep();
    const at = error instanceof SqlError ? error.sqlDetails?.cursorPosition : undefined;
    const message = error instanceof Error ? error.message : 'syntax error';
    if (/memory exhausted|stack depth/.test(message)) throw tooDeep();
    // `x AND` is a column named "and" to SELECT; the parenthesis that follows is Headgate's, not the author's.
    const isEnd = at !== undefined && offsets.isEnd(at);
    throw new ExpressionError(
      '42601',
      isEnd ? 'syntax error at end of input' : message,
      at === undefined ? null : offsets.toIndex(at),
    );
  }
}

export function tooDeep(): ExpressionError {
  const message = `the expression is nested deeper than ${limits.expressionDepthMax}`;
  return new ExpressionError('54001', message, null);
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
