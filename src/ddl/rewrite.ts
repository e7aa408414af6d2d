/**
 * The statements that PostgreSQL does not know. Takes a query string as the client sent it, returns null if it contains
 * no statement of Headgate's (almost always, and in well under a microsecond), or the text to send instead: each of
 * Headgate's statements becomes one CALL or SELECT on the schema `headgate`, so that it works inside transactions, in
 * strings of several statements and as a prepared statement. Secrets are sealed here and leave in no other form.
 * Refuses with PostgreSQL's own errors and positions. Uses the catalog (its functions) only through `before`.
 */
import type { Rewrite, RewriteSql, Rewritten, SqlSession } from '../tables/sql-flow.ts';
import { type SqlError, SqlFailure } from '../tables/refusals.ts';
import { createTable, isWebhookTable } from './create-table.ts';
import { Cursor, StatementError } from './cursor.ts';
import { type ExplainDeps, explainValidate } from './explain-statement.ts';
import type { Lexical } from './literal.ts';
import { alterTable, databaseStatement, describe, flush, show } from './other-statements.ts';
import { type Piece, type Plan, assemble } from './plan.ts';
import { mayNameRwCatalog, rwCatalog } from './rw-catalog.ts';
import { alterSecret, createSecret, dropSecret } from './secret-statements.ts';
import { type Statement, splitStatements } from './statements.ts';
import { lexable } from './text.ts';
import { createToken, dropToken } from './token-statements.ts';
import { typeNames } from './type-names.ts';
import type { AlterDeps } from './alter-checks.ts';

export type { ParsedCheck } from './validate-clause.ts';

type Asking = Pick<SqlSession, 'database' | 'user'>;

export interface DdlDeps extends AlterDeps, ExplainDeps {
  /** Creates the catalog in this database unless it exists, before one of Headgate's statements is sent. Throws SqlFailure. */
  ensureCatalog(database: string): Promise<void>;
  /** What is stored on disk of requests to the tables of the asking role, by oid: the session can read what it is sent. */
  spool(session: Asking): Promise<Readonly<Record<string, object>>>;
  /** The URL for webhooks, and whose check guards each table of the asking role, by oid. */
  endpoints(session: Asking): Promise<object>;
  /** Closes every connection of Headgate's to this database. */
  releaseDatabase(database: string): Promise<void>;
}

export function createRewriter(deps: DdlDeps): RewriteSql {
  return (sql, session) => (mayBeOurs(sql) ? rewrite(sql, session, deps) : null);
}

/** Each of Headgate's statements contains one of these words. */
const ourWords =
  /secret|token|connector|validate|answer|show|describe|flush|database|string|on_unknown|on_type_error|collect_into|spool|dedupe|sns_topics|event_grid|keep|inspect|distribute|shards/i;
/** How one of Headgate's statements, or white space or a comment before it, begins. */
const ourFirst = /^(?:[cCaAdDfF\s;/-]|[sS][hH]|[eE][xX][pP])/;

/** Looks only at the first characters of most single statements, and searches the text of others once. */
function mayBeOurs(sql: string): boolean {
  if (mayNameRwCatalog(sql)) return true;
  if (!ourFirst.test(sql)) {
    const semicolon = sql.indexOf(';');
    if (semicolon < 0 || semicolon === sql.length - 1) return false;
  }
  return ourWords.test(sql);
}

function rewrite(sql: string, session: SqlSession, deps: DdlDeps): Rewrite | null {
  const lexical: Lexical = {
    text: sql,
    encoding: session.clientEncoding.toUpperCase(),
    standardConformingStrings: session.standardConformingStrings,
  };
  const statements = splitStatements(lexable(sql, lexical.encoding), session.standardConformingStrings);
  try {
    const plans = statements.map((statement) => planOf(statement, lexical, session, deps));
    return plans.every((plan) => plan === null) ? null : joined(sql, session, statements, plans, deps);
  } catch (error) {
    if (!(error instanceof StatementError)) throw error;
    return { kind: 'error', error: sqlError(error) };
  }
}

/** Null: the statement is PostgreSQL's. */
function planOf(statement: Statement, lexical: Lexical, session: SqlSession, deps: DdlDeps): Plan | null {
  const cursor = new Cursor(statement, lexical);
  switch (`${cursor.peek()} ${cursor.peek(1)}`) {
    case 'create secret':
      return createSecret(cursor, deps);
    case 'alter secret':
      return alterSecret(cursor, deps);
    case 'drop secret':
      return dropSecret(cursor);
    case 'create token':
      return createToken(cursor);
    case 'drop token':
      return dropToken(cursor);
    case 'create table':
    case 'create unlogged':
    case 'create temp':
    case 'create temporary':
    case 'create local':
    case 'create global':
      return isWebhookTable(cursor) ? createTable(cursor, deps) : typeNames(statement, lexical);
    case 'alter table':
      return alterTable(cursor, session, deps) ?? typeNames(statement, lexical);
    case 'create database':
    case 'alter database':
    case 'drop database':
      return databaseStatement(cursor);
    default:
  }
  switch (cursor.peek()) {
    case 'show':
      return show(cursor, {
        spool: () => deps.spool(session),
        endpoints: () => deps.endpoints(session),
      });
    case 'describe':
      return describe(cursor);
    case 'flush':
      return flush(cursor);
    case 'explain':
      return explainValidate(cursor, session, deps);
    default:
      return rwCatalog(statement, lexical);
  }
}

/** What has to happen before the statements are sent, and which of them are only known then. */
function joined(
  sql: string,
  session: SqlSession,
  statements: readonly Statement[],
  plans: readonly (Plan | null)[],
  deps: DdlDeps,
): Rewrite {
  const needsCatalog = plans.some((plan) => plan?.needsCatalog);
  const releases = plans.flatMap((plan) => plan?.releases ?? []);
  const before = async (): Promise<void> => {
    if (needsCatalog) await deps.ensureCatalog(session.database);
    for (const database of releases) await deps.releaseDatabase(database);
  };
  if (!plans.some((plan) => plan?.later)) return { ...replaced(sql, statements, plans), before };
  return {
    kind: 'deferred',
    prepare: async () => {
      await before();
      const finished: (Plan | null)[] = [];
      for (const plan of plans) {
        finished.push(plan?.later ? { ...plan, pieces: await finish(plan.later) } : plan);
      }
      return { ...replaced(sql, statements, finished), before: null };
    },
  };
}

async function finish(later: NonNullable<Plan['later']>): Promise<readonly Piece[]> {
  try {
    return await later();
  } catch (error) {
    throw error instanceof StatementError ? new SqlFailure(sqlError(error)) : error;
  }
}

/**
 * Replaces Headgate's statements and leaves every other one as it was. The comments around Headgate's are dropped: one
 * may contain the key that the statement itself seals.
 */
function replaced(
  sql: string,
  statements: readonly Statement[],
  plans: readonly (Plan | null)[],
): Omit<Rewritten, 'before'> {
  const pieces: { piece: Piece; anchor: number }[] = [];
  let last = 0;
  statements.forEach((statement, index) => {
    const plan = plans[index];
    if (!plan) return;
    const begin = (statements[index - 1]?.semicolon ?? -1) + 1;
    pieces.push({ piece: { start: last, end: begin }, anchor: last });
    for (const piece of plan.pieces) pieces.push({ piece, anchor: statement.start });
    last = statement.semicolon ?? sql.length;
  });
  pieces.push({ piece: { start: last, end: sql.length }, anchor: last });
  return { kind: 'rewritten', ...assemble(sql, pieces), tags: plans.map((plan) => plan?.tag ?? null) };
}

function sqlError(error: StatementError): SqlError {
  return {
    sqlstate: error.sqlstate,
    message: error.message,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(error.at === null ? {} : { position: error.at + 1 }),
  };
}
