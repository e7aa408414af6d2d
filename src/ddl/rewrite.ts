/**
 * The statements that PostgreSQL does not know. Takes a query string as the client sent it, returns null if it contains
 * no statement of Headgate's (almost always, and in well under a microsecond), or the text to send instead: each of
 * Headgate's statements becomes one CALL or SELECT on the schema `headgate`, so that it works inside transactions, in
 * strings of several statements and as a prepared statement. Secrets are sealed here and leave in no other form.
 * Refuses with PostgreSQL's own errors and positions. Uses the catalog (its functions) only through `before`.
 */
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Rewrite, Rewritten, SqlSession } from '../types/sql.ts';
import { limits } from '../config/limits.ts';
import { SqlFailure } from '../errors/refusals.ts';
import type { SqlError } from '../errors/refusals.ts';
import { createTable, isWebhookTable } from './create-table.ts';
import { Cursor, StatementError } from './cursor.ts';
import { lexable, statementsOf } from './scanner.ts';
import { explainStatement } from './explain-statement.ts';
import type { Lexical } from './literals.ts';
import { alterTable, databaseStatement, describe, flush, show } from './other-statements.ts';
import { assemble } from './plan.ts';
import type { PlanText, StatementPlan } from './plan.ts';
import {
  alterSecret,
  createSecret,
  dropSecret,
  refuseSecretInside,
  replaceSecret,
} from './secret-statements.ts';
import { mayNameRwCatalog, rwCatalog } from './risingwave-relations.ts';
import type { StatementText } from './scanner.ts';
import { createToken, dropToken } from './token-statements.ts';
import { typeNames } from './type-names.ts';
import type { DdlContext } from './statement-context.ts';

/** What createRewriter makes, and the SQL port calls for each query string: null if it holds no statement of Headgate's, and is sent unchanged. */
export type RewriteSql = (sql: string, session: SqlSession) => Rewrite | null;

export function createRewriter(deps: DdlContext): RewriteSql {
  return (sql, session) => (mayBeOurs(sql) ? rewrite(sql, session, deps) : null);
}

/** Each of Headgate's statements contains one of these words. */
const ourWords =
  /secret|token|connector|validate|answer|show|describe|flush|database|string|on_unknown|on_type_error|on_unstorable|form_files|methods|collect_into|spool|dedupe|version|sns_topics|event_grid|keep|keep_if|private|readers|inspect|include|distribute|shards|reconcile|every|is_batched|webhook\s*\.|(?:format|document|into)\s*[=,)]/i;
/** How one of Headgate's statements, or white space or a comment before it, begins. */
const ourFirst = /^(?:[cCaAdDfF\s;/-]|[sS][hH]|[eE][xX][pP]|[pP][rR][eE])/;

/** Looks only at the first characters of most single statements, and searches the text of others once. */
function mayBeOurs(sql: string): boolean {
  if (mayNameRwCatalog(sql)) return true;
  if (!ourFirst.test(sql)) {
    const semicolon = sql.indexOf(';');
    if (semicolon < 0 || semicolon === sql.length - 1) return false;
  }
  return ourWords.test(sql);
}

function rewrite(sql: string, session: SqlSession, deps: DdlContext): Rewrite | null {
  const lexical: Lexical = {
    text: sql,
    encoding: session.clientEncoding.toUpperCase(),
    standardConformingStrings: session.standardConformingStrings,
  };
  const search = ownOf(sql, lexical, session, deps);
  if (!deps.hasKey) return { kind: 'deferred', prepare: () => afterFirstLook(sql, session, search, deps) };
  try {
    const found = withinTurn(search, deps);
    if (found === null) return { kind: 'deferred', prepare: () => searched(sql, session, search, deps) };
    return found.length === 0 ? null : joined(sql, session, found, deps);
  } catch (error) {
    if (!(error instanceof StatementError)) throw error;
    return { kind: 'error', error: sqlError(error) };
  }
}

/** The statements that a search finds before its time is up; null: it has not ended. */
function withinTurn(search: Iterator<void, OwnStatement[]>, { now }: DdlContext): OwnStatement[] | null {
  const until = now() + limits.sqlSearchMs;
  do {
    const step = search.next();
    if (step.done === true) return step.value;
  } while (now() < until);
  return null;
}

/** A service that has just started reads the catalog, and makes its master key, after its ports are open. */
async function afterFirstLook(
  sql: string,
  session: SqlSession,
  search: Iterator<void, OwnStatement[]>,
  deps: DdlContext,
): Promise<Rewritten> {
  await deps.firstLook();
  return searched(sql, session, search, deps);
}

/** Goes on with a search, and lets others have their turn in between. */
async function searched(
  sql: string,
  session: SqlSession,
  search: Iterator<void, OwnStatement[]>,
  deps: DdlContext,
): Promise<Rewritten> {
  let found: OwnStatement[] | null = null;
  try {
    while (found === null) {
      await othersTurn();
      found = withinTurn(search, deps);
    }
  } catch (error) {
    throw error instanceof StatementError ? new SqlFailure(sqlError(error)) : error;
  }
  const rewrite = joined(sql, session, found, deps);
  if (rewrite.kind === 'deferred') return rewrite.prepare();
  await rewrite.before?.();
  return { ...rewrite, before: null };
}

/** The first letters of Headgate's statements. */
const beginnings = new Set('acdefpsACDEFPS');

function tooMany(at: number): never {
  const message = `a text has at most ${limits.sqlOwnStatementsMax} of Headgate's statements`;
  throw new StatementError('54000', message, at, { hint: severalTexts });
}

/** Of the other statements, of which a text may hold millions, nothing is kept. */
function* ownOf(
  sql: string,
  lexical: Lexical,
  session: SqlSession,
  deps: DdlContext,
): Generator<void, OwnStatement[]> {
  const { sqlOwnStatementsMax, sqlOwnTokensMax } = limits;
  const found: OwnStatement[] = [];
  let index = 0;
  let after = 0;
  const text = lexable(sql, lexical.encoding);
  const named = mayNameRwCatalog(sql);
  for (const statement of statementsOf(text, lexical.standardConformingStrings, sqlOwnTokensMax)) {
    const { tokens, start, semicolon } = statement;
    const mayBeOwn = (named || beginnings.has(text[start] ?? '')) && tokens.length < sqlOwnTokensMax;
    const plan = mayBeOwn ? planOf(statement, lexical, session, deps) : null;
    if (plan !== null) found.push({ plan, index, after, start, until: semicolon ?? sql.length });
    if (found.length > sqlOwnStatementsMax) tooMany(start);
    yield;
    index += 1;
    after = (semicolon ?? sql.length) + 1;
  }
  return found;
}

/** Null: the statement is PostgreSQL's. */
function planOf(
  statement: StatementText,
  lexical: Lexical,
  session: SqlSession,
  deps: DdlContext,
): StatementPlan | null {
  const cursor = new Cursor(statement, lexical);
  switch (`${cursor.peek()} ${cursor.peek(1)}`) {
    case 'create secret':
      return createSecret(cursor, deps);
    case 'create or':
      if (cursor.peek(3) === 'secret') replaceSecret(cursor);
      break;
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
        former: () => deps.former(session),
      });
    case 'describe':
      return describe(cursor);
    case 'flush':
      return flush(cursor);
    case 'explain':
      return explainStatement(cursor, session, deps);
    case 'prepare':
      refuseSecretInside(cursor);
      return rwCatalog(statement, lexical);
    default:
      return rwCatalog(statement, lexical);
  }
}

/** One of Headgate's statements in a text. */
interface OwnStatement {
  readonly plan: StatementPlan;
  /** How many statements precede it. */
  readonly index: number;
  /** After the semicolon that precedes it, its first token, and its own semicolon or the end of the text. */
  readonly after: number;
  readonly start: number;
  readonly until: number;
}

/**
 * What has to happen before the statements are sent, and which of them are only known then: those that show something (`later`). For CREATE and ALTER that is only
 * `ensureCatalog`, which does nothing once the database has its catalog.
 */
function joined(
  sql: string,
  session: SqlSession,
  found: readonly OwnStatement[],
  deps: DdlContext,
): Exclude<Rewrite, { kind: 'error' }> {
  const needsCatalog = found.some(({ plan }) => plan.needsCatalog);
  const releases = found.flatMap(({ plan }) => plan.releases);
  const before = async (): Promise<void> => {
    if (needsCatalog) await deps.ensureCatalog(session.database);
    for (const released of releases) await deps.releaseDatabase(session, released);
  };
  if (!found.some(({ plan }) => plan.later)) return { ...replaced(sql, found), before };
  return {
    kind: 'deferred',
    prepare: async () => {
      await before();
      const finished: OwnStatement[] = [];
      let length = 0;
      for (const own of found) {
        const { later } = own.plan;
        const pieces = later ? await finish(later) : own.plan.pieces;
        if (later) length += lengthOf(pieces);
        if (length > limits.sqlStatementBytesMax) throw new SqlFailure(tooLong);
        finished.push({ ...own, plan: { ...own.plan, pieces } });
      }
      return { ...replaced(sql, finished), before: null };
    },
  };
}

const severalTexts = 'Send them one after another, or in several texts.';
const tooLong: SqlError = {
  sqlstate: '54000',
  message: 'what the statements of this text show is too long together',
  hint: severalTexts,
};

function lengthOf(pieces: readonly PlanText[]): number {
  return pieces.reduce((sum, piece) => sum + (typeof piece === 'string' ? piece.length : 0), 0);
}

async function finish(later: NonNullable<StatementPlan['later']>): Promise<readonly PlanText[]> {
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
function replaced(sql: string, found: readonly OwnStatement[]): Omit<Rewritten, 'before'> {
  const pieces: { piece: PlanText; anchor: number }[] = [];
  const tags: (string | null)[] = [];
  let last = 0;
  for (const { plan, index, after, start, until } of found) {
    pieces.push({ piece: { start: last, end: after }, anchor: last });
    for (const piece of plan.pieces) pieces.push({ piece, anchor: start });
    while (tags.length < index) tags.push(null);
    tags.push(plan.tag);
    last = until;
  }
  pieces.push({ piece: { start: last, end: sql.length }, anchor: last });
  return { kind: 'rewritten', ...assemble(sql, pieces), tags };
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
