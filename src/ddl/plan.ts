/**
 * The plan for one statement: the text that the engine is sent in its place, in pieces, and what has to happen before.
 * Returns the text of a whole query string with a map from its offsets back to the client's. Pure.
 */
import { quoteIdentifier, relationName } from '../kit/sql-text.ts';
import type { Cursor, Name } from './cursor.ts';
import { dollarQuote, encodeText } from './literals.ts';

/** Headgate's own text (bytes), optionally with the position that it stands for, or a range of the client's text, which keeps its positions. */
export type PlanText =
  | string
  | { readonly text: string; readonly at: number }
  | { readonly start: number; readonly end: number };

export interface StatementPlan {
  readonly pieces: readonly PlanText[];
  /** The command tag that replaces the engine's; null: the engine's own. */
  readonly tag: string | null;
  /** The statement calls the catalog, which has to exist. */
  readonly needsCatalog: boolean;
  /** Databases to which no connection of Headgate's may be open when it runs. */
  readonly releases: readonly ReleasedDatabase[];
  /** Returns the pieces that replace those above, once everything else has been done; throws SqlFailure. */
  readonly later?: () => Promise<readonly PlanText[]>;
}

export interface ReleasedDatabase {
  readonly database: string;
  /** The sessions of others that may stay there, or else PostgreSQL refuses the statement: none, the client's own, or all, which it ends. */
  readonly mayStay: 'none' | 'own' | 'all';
}

export type Argument =
  | string
  | boolean
  | null
  | { readonly json: unknown }
  | { readonly sql: string }
  | NestedStatement;
interface NestedStatement {
  readonly statement: readonly PlanText[];
}

/** The client's own settings, for procedures that set theirs. */
export const callerSchemas: Argument = { sql: 'pg_catalog.current_schemas(false)' };
export const callerPath: Argument = { sql: 'pg_catalog.current_setting($hg$search_path$hg$)' };

/** The relation that a name refers to in the client's session, or NULL. */
export function relationArgument(name: Name): Argument {
  return { sql: `pg_catalog.to_regclass(${quoteText(quoteName(name))})` };
}

/** The relation that a name refers to, or PostgreSQL's own error. A cast from text is evaluated at every execution. */
export function relationOrError(name: Name): string {
  return `(${quoteText(quoteName(name))}::pg_catalog.text)::pg_catalog.regclass`;
}

/** As PostgreSQL shows it in its messages. */
export function displayName(name: Name): string {
  return name.schema === null ? name.name : `${name.schema}.${name.name}`;
}

export function callPlan(
  tag: string,
  procedure: string,
  args: readonly Argument[],
  text: string,
): StatementPlan {
  const pieces = callPieces(`CALL headgate.${procedure}(`, args, text);
  return { pieces, tag, needsCatalog: true, releases: [] };
}

/** What the tag says, asked of the catalog (headgate.ask). */
export function askPlan(tag: string, given: object, { lexical }: Cursor): StatementPlan {
  return callPlan(tag, 'ask', [tag.toLowerCase(), { json: given }, callerSchemas], lexical.text);
}

export function callPieces(head: string, args: readonly Argument[], text: string): PlanText[] {
  const pieces: PlanText[] = [head];
  args.forEach((arg, index) => {
    if (index > 0) pieces.push(', ');
    pieces.push(...argumentPieces(arg, text));
  });
  pieces.push(')');
  return pieces;
}

function argumentPieces(arg: Argument, text: string): readonly PlanText[] {
  if (arg === null) return ['NULL'];
  if (typeof arg === 'boolean') return [String(arg)];
  if (typeof arg === 'string') return [quoteText(arg)];
  if ('sql' in arg) return [arg.sql];
  if ('json' in arg) return [arg.json === null ? 'NULL' : quoteText(JSON.stringify(arg.json))];
  const whole = arg.statement.map((piece) => pieceText(piece, text)).join('');
  const quoted = dollarQuote(whole);
  const tag = quoted.slice(0, (quoted.length - whole.length) / 2);
  return [tag, ...arg.statement, tag];
}

function quoteText(text: string): string {
  return dollarQuote(encodeText(text));
}

function quoteName({ schema, name }: Name): string {
  return schema === null ? quoteIdentifier(name) : relationName({ schema, table: name });
}

export function pieceText(piece: PlanText, text: string): string {
  if (typeof piece === 'string') return piece;
  return 'text' in piece ? piece.text : text.slice(piece.start, piece.end);
}

export interface Assembled {
  readonly sql: string;
  readonly originalOffset: (offset: number) => number;
}

/** Joins the pieces. Headgate's own text maps to the client's text that follows it, or to the end of what precedes it. */
export function assemble(text: string, pieces: readonly { piece: PlanText; anchor: number }[]): Assembled {
  let sql = '';
  const segments: { from: number; origin: number; exact: boolean }[] = [];
  for (const { piece, anchor } of pieces) {
    const exact = typeof piece !== 'string' && 'start' in piece;
    const place = typeof piece === 'string' ? anchor : 'text' in piece ? piece.at : piece.start;
    segments.push({ from: sql.length, origin: place, exact });
    sql += pieceText(piece, text);
  }
  return {
    sql,
    originalOffset(offset) {
      const segment = segments.findLast((it) => it.from <= offset);
      if (segment === undefined) return 0;
      const original = segment.exact ? segment.origin + offset - segment.from : segment.origin;
      return Math.max(0, Math.min(original, text.length));
    },
  };
}
