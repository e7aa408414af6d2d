/**
 * The text of an expression in one of Headgate's statements: up to the end, or up to a word that begins the next part
 * of the statement. Takes tokens, returns the text with its comments blanked, so that no position shifts and no old key
 * remains in it. Pure.
 */
import { StatementError, type Cursor } from './cursor.ts';
import { nameOf } from './literal.ts';
import type { SqlToken } from './scanner.ts';
import { Undecodable, decodeText } from './text.ts';

export interface ExpressionSource {
  readonly text: string;
  /** Where it starts in the client's text, in bytes. */
  readonly start: number;
}

/** Words that begin the next part of an ANSWER, or the next ANSWER. */
export const optionWords: ReadonlySet<string> = new Set([
  'answer',
  'status',
  'type',
  'header',
  'body',
  'learn',
]);
/** VALIDATE is followed only by ANSWER. */
export const answerWord: ReadonlySet<string> = new Set(['answer']);

export function expressionSource(cursor: Cursor, ends: ReadonlySet<string>): ExpressionSource {
  if (cursor.atEnd) cursor.unexpected();
  const start = cursor.offset;
  const { text, encoding, standardConformingStrings } = cursor.lexical;
  let bytes = '';
  let last = start;
  let depth = 0;
  let before: SqlToken | null = null;
  while (cursor.token !== null) {
    if (depth === 0 && ends.has(cursor.peek()) && endsOperand(cursor, before)) break;
    const word = cursor.peek();
    if (word === '(' || word === '[' || word === 'case') depth++;
    else if (word === ')' || word === ']' || word === 'end') depth--;
    const token = cursor.take();
    const raw = cursor.raw(token);
    if (token.kind === 'string' && !standardConformingStrings && raw.includes('\\')) {
      throw new StatementError(
        '0A000',
        'a backslash in VALIDATE or ANSWER with standard_conforming_strings off',
        token.start,
        { hint: "Write the literal as E'...'." },
      );
    }
    // Checks each name separately, so that a refusal points at it.
    cursor.read(token, nameOf);
    bytes += text.slice(last, token.start).replace(/[^\n\r]/g, ' ') + raw;
    last = token.end;
    before = token;
  }
  if (before === null) cursor.unexpected();
  try {
    return { text: decodeText(bytes, encoding), start };
  } catch (error) {
    if (!(error instanceof Undecodable)) throw error;
    throw new StatementError(error.sqlstate, error.message, last - bytes.length);
  }
}

/** Words that are followed by an operand. */
const unfinished = new Set(
  'all and any between case distinct else escape from ilike in is like not or similar symmetric then to when'.split(
    ' ',
  ),
);

/** Two operands are never adjacent: a word after one is not a name. */
function endsOperand(cursor: Cursor, token: SqlToken | null): boolean {
  if (token === null) return false;
  const raw = cursor.raw(token);
  if (token.kind === 'symbol') return raw === ')' || raw === ']';
  return token.kind !== 'word' || !unfinished.has(raw.toLowerCase());
}
