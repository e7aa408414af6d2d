/**
 * Plans of statements that return rows: those of a function of the catalog, or lines that Headgate has found itself. Takes names and values, and what
 * yields them when the statement is sent; returns a plan. Whatever is not known to be ASCII is sent as escapes, because the client's encoding may
 * not be UTF-8.
 */
import { quoteIdentifier } from '../kit/sql-text.ts';
import { dollarQuote } from './literals.ts';
import type { Name } from './cursor.ts';
import { callPieces, pieceText, relationArgument } from './plan.ts';
import type { Argument, PlanText, StatementPlan } from './plan.ts';

/** Calls a function once, for its effect. */
export function answeringPlan(
  tag: string,
  called: string,
  args: readonly Argument[],
  text: string,
): StatementPlan {
  const pieces = callPieces(`SELECT * FROM headgate.${called}(`, args, text);
  return { pieces, tag, needsCatalog: true, releases: [] };
}

export function selectPlan(tag: string, from: string): StatementPlan {
  return { pieces: [`SELECT * FROM headgate.${from}`], tag, needsCatalog: true, releases: [] };
}

/** EXPLAIN VALIDATE: what is shown is determined when the statement is sent. */
export function explainPlan(name: Name, shown: string, explain: () => Promise<unknown>): StatementPlan {
  const later = async (): Promise<readonly PlanText[]> => {
    const lines = asciiJson(await explain());
    const args = [relationArgument(name), shown, { sql: `${dollarQuote(lines)}::pg_catalog.jsonb` }];
    return callPieces('SELECT * FROM headgate.explain_validate(', args, '');
  };
  return { pieces: [], tag: 'EXPLAIN', needsCatalog: true, releases: [], later };
}

/** Lines that Headgate has found; a column a name and its type. */
export function linesPlan(
  columns: readonly (readonly [name: string, type: string])[],
  lines: () => Promise<readonly object[]>,
): StatementPlan {
  const names = columns.map(([name]) => quoteIdentifier(name)).join(', ');
  const types = columns.map(([name, type]) => `${quoteIdentifier(name)} pg_catalog.${type}`).join(', ');
  const later = async (): Promise<readonly PlanText[]> => [
    `SELECT ${names} FROM ROWS FROM (pg_catalog.jsonb_to_recordset(${dollarQuote(asciiJson(await lines()))}::pg_catalog.jsonb) AS (${types}))`,
    ` WITH ORDINALITY AS lines (${names}, place) ORDER BY place`,
  ];
  return { pieces: [], tag: 'EXPLAIN', needsCatalog: true, releases: [], later };
}

/** One of Headgate's functions, as a value. */
export function functionCall(called: string, args: readonly Argument[]): string {
  return callPieces(`SELECT headgate.${called}(`, args, '')
    .map((piece) => pieceText(piece, ''))
    .join('');
}

/** SHOW SPOOL, SHOW ENDPOINTS: with what this Headgate knows when the statement is sent. */
export function statePlan(
  show: 'show_spool' | 'show_endpoints',
  state: () => Promise<object>,
): StatementPlan {
  const later = async (): Promise<readonly PlanText[]> => {
    const args = [{ sql: `${dollarQuote(asciiJson(await state()))}::pg_catalog.jsonb` }];
    return callPieces(`SELECT * FROM headgate.${show}(`, args, '');
  };
  return { pieces: [], tag: 'SHOW', needsCatalog: true, releases: [], later };
}

/** SHOW CREATE TABLE: `former` has, by oid, what has changed since of the sender whose check a table has. */
export function showCreatePlan(relation: string, former: () => Promise<object>): StatementPlan {
  const later = async (): Promise<readonly PlanText[]> => {
    const args = [{ sql: relation }, { sql: `${dollarQuote(asciiJson(await former()))}::pg_catalog.jsonb` }];
    return callPieces('SELECT * FROM headgate.show_create_table(', args, '');
  };
  return { pieces: [], tag: 'SHOW', needsCatalog: true, releases: [], later };
}

function asciiJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[^\x20-\x7e]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
