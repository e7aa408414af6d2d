/**
 * SQL in pieces that are shown in colours: comments, strings, numbers, keywords. Takes a text, returns pieces that together are that text; where
 * they end is known from the scanner of the SQL port (ddl/scanner.ts). Pure.
 */
import { Scanner } from '../ddl/scanner.ts';
import type { TokenKind } from '../ddl/scanner.ts';

export interface SqlPiece {
  readonly text: string;
  readonly kind: 'comment' | 'string' | 'number' | 'word' | 'plain';
}

/** PostgreSQL's reserved words, those of its statements that are not, and those of Headgate's. */
const words = new Set(
  `all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column concurrently
  constraint create cross current_catalog current_date current_role current_schema current_time current_timestamp current_user default
  deferrable desc distinct do else end except false fetch for foreign freeze from full grant group having ilike in initially inner intersect
  into is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps
  placing primary references returning right select session_user similar some symmetric system_user table tablesample then to trailing true
  union unique user using variadic verbose when where window with
  add alter always begin between by cascade close comment commit conflict copy cursor database declare delete drop execute exists explain
  extension filter first following format function generated identity if index insert interval key language last listen lock materialized merge
  next nothing notify nulls of over owner partition policy preceding prepare procedure range recursive refresh release rename replace reset
  restrict return revoke role rollback row rows savepoint schema security sequence set show start stored temporary transaction trigger truncate
  type unbounded unlisten update vacuum values view within without zone
  validate secret include header headers timestamp body endpoints answer token`.split(/\s+/),
);

const kinds: Partial<Readonly<Record<TokenKind, SqlPiece['kind']>>> = {
  string: 'string',
  'escape-string': 'string',
  'unicode-string': 'string',
  'dollar-string': 'string',
  number: 'number',
  param: 'number',
};

export function sqlPieces(text: string): readonly SqlPiece[] {
  const pieces: SqlPiece[] = [];
  const add = (start: number, end: number, kind: SqlPiece['kind']): void => {
    const last = pieces.at(-1);
    const piece = text.slice(start, end);
    if (last?.kind === kind) pieces[pieces.length - 1] = { kind, text: last.text + piece };
    else if (piece !== '') pieces.push({ text: piece, kind });
  };
  // The scanner takes letters of one byte.
  const scanner = new Scanner(text.replaceAll(/[^\0-\xff]/g, '\xff'), true);
  let at = 0;
  for (let token = scanner.next(); token !== null; token = scanner.next()) {
    between(text, at, token.start, add);
    const { kind, start, end } = token;
    const found = text.slice(start, end);
    if (kind === 'word') add(start, end, words.has(found.toLowerCase()) ? 'word' : 'plain');
    else if (kind === 'broken') add(start, end, brokenKind(found));
    else add(start, end, kinds[kind] ?? 'plain');
    at = end;
  }
  between(text, at, text.length, add);
  return pieces;
}

/** An unfinished comment or string, as while it is typed. */
function brokenKind(text: string): SqlPiece['kind'] {
  if (text.startsWith('/*')) return 'comment';
  return /^(?:'|e'|u&'|\$\w*\$)/i.test(text) ? 'string' : 'plain';
}

/** White space and comments between two tokens. */
function between(
  text: string,
  start: number,
  end: number,
  add: (start: number, end: number, kind: SqlPiece['kind']) => void,
): void {
  for (let at = start; at < end;) {
    const blank = /^\s*/.exec(text.slice(at, end))?.[0].length ?? 0;
    add(at, at + blank, 'plain');
    const line = text.startsWith('--', at + blank) ? text.indexOf('\n', at + blank) : -1;
    const next = line === -1 || line > end ? end : line;
    add(at + blank, next, 'comment');
    at = Math.max(next, at + blank);
  }
}
