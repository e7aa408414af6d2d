/**
 * RisingWave's type name STRING in tables that are PostgreSQL's own. Takes the tokens of CREATE TABLE and ALTER TABLE,
 * returns the same text with `text` in its place; refuses nothing. Replaced only as the type of a column, without
 * quotes and schema: `"string"` and `public.string` remain whatever type of that name the owner has. Pure.
 */
import type { Rewrite, SqlSession } from '../types/sql.ts';
import { Cursor } from './cursor.ts';
import { lexable, splitStatements } from './scanner.ts';
import type { Lexical } from './literals.ts';
import { type PlanText, type StatementPlan, assemble } from './plan.ts';
import type { SqlToken, StatementText } from './scanner.ts';

const constraintWords = new Set(['constraint', 'primary', 'unique', 'check', 'foreign', 'exclude', 'like']);

/** Null: the statement contains no such name. */
export function typeNames(statement: StatementText, lexical: Lexical): StatementPlan | null {
  const cursor = new Cursor(statement, lexical);
  const found =
    cursor.peek() === 'create' ? inCreate(cursor) : cursor.peek() === 'alter' ? inAlter(cursor) : [];
  const tokens = found.map((index) => statement.tokens[index]).filter((token) => token !== undefined);
  if (tokens.length === 0) return null;
  return { pieces: renamed(statement, tokens), tag: null, needsCatalog: false, releases: [] };
}

/** For a gateway in front of a database that is not Headgate's: it knows none of Headgate's other statements. */
export function createTypeNameRewriter(): (sql: string, session: SqlSession) => Rewrite | null {
  return (sql, session) => {
    if (!/\bstring\b/i.test(sql) || !/\btable\b/i.test(sql)) return null;
    const lexical = {
      text: sql,
      encoding: session.clientEncoding,
      standardConformingStrings: session.standardConformingStrings,
    };
    const statements = splitStatements(lexable(sql, lexical.encoding), session.standardConformingStrings);
    const plans = statements.map((statement) => typeNames(statement, lexical));
    if (plans.every((plan) => plan === null)) return null;
    const pieces: { piece: PlanText; anchor: number }[] = [];
    let last = 0;
    statements.forEach((statement, index) => {
      const plan = plans[index];
      if (!plan) return;
      pieces.push({ piece: { start: last, end: statement.start }, anchor: last });
      for (const piece of plan.pieces) pieces.push({ piece, anchor: statement.start });
      last = statement.end;
    });
    pieces.push({ piece: { start: last, end: sql.length }, anchor: last });
    return { kind: 'rewritten', ...assemble(sql, pieces), tags: [], before: null };
  };
}

function renamed(statement: StatementText, tokens: readonly SqlToken[]): PlanText[] {
  const pieces: PlanText[] = [];
  let last = statement.start;
  for (const token of tokens) {
    pieces.push({ start: last, end: token.start }, 'text');
    last = token.end;
  }
  pieces.push({ start: last, end: statement.end });
  return pieces;
}

/** CREATE … TABLE [IF NOT EXISTS] name ( name type …, … ): the second token of each element. */
function inCreate(cursor: Cursor): number[] {
  const { tokens } = cursor.statement;
  let at = 1;
  while (at < 5 && cursor.peek(at) !== 'table') at++;
  if (cursor.peek(at) !== 'table') return [];
  at++;
  if (cursor.peek(at) === 'if') at += 3;
  at++;
  while (cursor.peek(at) === '.') at += 2;
  if (cursor.peek(at) !== '(') return [];
  const found: number[] = [];
  let depth = 0;
  let elementAt = at + 1;
  for (; at < tokens.length; at++) {
    const sign = cursor.peek(at);
    if (sign === '(' || sign === '[') depth++;
    else if (sign === ')' || sign === ']') depth--;
    else if (sign === ',' && depth === 1) elementAt = at + 1;
    if (depth === 0) break;
    if (at === elementAt + 1 && depth === 1 && isType(cursor, at)) found.push(at);
  }
  return found;
}

/** ADD [COLUMN] [IF NOT EXISTS] name STRING, and ALTER [COLUMN] name [SET DATA] TYPE STRING. */
function inAlter(cursor: Cursor): number[] {
  if (cursor.peek(1) !== 'table') return [];
  const { tokens } = cursor.statement;
  const found = new Set<number>();
  let depth = 0;
  for (let at = 2; at < tokens.length; at++) {
    const word = cursor.peek(at);
    if (word === '(') depth++;
    else if (word === ')') depth--;
    if (depth > 0) continue;
    if (word === 'type' && cursor.peek(at + 1) === 'string' && cursor.peek(at + 2) !== '.') found.add(at + 1);
    if (word !== 'add') continue;
    let name = at + 1;
    if (cursor.peek(name) === 'column') name++;
    if (cursor.peek(name) === 'if') name += 3;
    if (isType(cursor, name + 1)) found.add(name + 1);
  }
  return [...found].toSorted((a, b) => a - b);
}

/** STRING after a column's name; after the first word of a constraint it is a name. */
function isType(cursor: Cursor, at: number): boolean {
  if (cursor.peek(at) !== 'string' || cursor.peek(at + 1) === '.') return false;
  const before = cursor.statement.tokens[at - 1];
  return before?.kind === 'quoted' || (before?.kind === 'word' && !constraintWords.has(cursor.peek(at - 1)));
}
